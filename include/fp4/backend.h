// The contract of a fast path: it may decline a call (supports... = false) or be bit-identical to the reference; there
// is no third way. Callers use src/backends/backends.h, which asks the backends in priority order.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fp4/spec.h"

namespace fp4 {

namespace gpu {
struct Resident;  // src/gpu/pipeline.h
}

// Element (r, c) at data[r*row_stride + c*col_stride]; a transpose is a swap of strides.
struct MatrixView {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 1;

  constexpr MatrixView transposed() const { return {data, cols, rows, col_stride, row_stride}; }
  constexpr float at(int64_t r, int64_t c) const { return data[r * row_stride + c * col_stride]; }
};
constexpr MatrixView view_of(const float* data, int64_t rows, int64_t cols) { return {data, rows, cols, cols, 1}; }

// One operand [rows, K] as its GEMM consumes it, before the Hadamard.
struct QuantizeCall {
  MatrixView x;
  QuantSpec spec;
  HadamardSpec hadamard;    // applied first, K padded to whole tiles
  RandomPlace place;        // element rounding; scale rounding and signs follow from it (rng.h)
  float held_amax = -1.0f;  // not < 0: the tensor amax of `hold`; else it is measured (after the Hadamard)
  float soft_alpha = 0.0f;  // > 0: smooth block maximum (estimator.h)
  // x is the rows from this one on of a longer operand (a multiple of the block's rows): random draws are placed as in
  // the whole operand, so that a tensor can be streamed in bands. Its tensor scale is `none`, or `hold` with held_amax.
  int64_t row_offset = 0;
  int threads = 1;
  // A kernel's own random bits for element rounding in place of Philox's: position i takes bits i*n to i*n+n-1 of the
  // words, low bits first, n = random_bits. Only the reference takes them.
  std::span<const uint32_t> random_words = {};

  constexpr bool replays() const { return !random_words.empty(); }
  // `cols` is K of the operand that is coded, Hadamard padding included.
  constexpr uint32_t draw(uint64_t position, int64_t cols, int bits) const {
    if (!replays()) return stream_draw(spec.random_stream, place, position, static_cast<uint64_t>(cols), bits);
    const uint64_t first = position * static_cast<uint64_t>(bits);
    return random_words[first / 32] >> (first % 32) & (bits == 32 ? ~uint32_t{0} : (uint32_t{1} << bits) - 1);
  }
};

// Codes and scales in the layout of the command line's files.
//   codes  FP4: [rows, ceil(K'/2)] two a byte, even k in the low nibble; wider elements [rows, K'] in the smallest
//          unsigned integer that holds one (1, 2 or 4 bytes, native order)
//   scales [scale_rows, scale_cols] one byte, or float32 values of real scales; empty for scale `none`
struct Quantized {
  QuantSpec spec;
  int64_t rows = 0;
  int64_t cols = 0;  // K, Hadamard padding included, block padding not
  BlockGeometry geometry;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  std::vector<float> real_scales;
  std::vector<float> tensor_scale;  // [1], [rows] for row, [rows, ceil(K/128)] for outer128; g, but see `decode`
  float amax = 0.0f;                // the tensor amax that was used (0 when no tensor scale asked for it)
  std::shared_ptr<const gpu::Resident> resident;  // in place of the five above, in a device's memory

  int code_bits() const { return format_of(spec.element).code_bits(); }
  bool is_packed() const { return code_bits() == 4; }
  int code_bytes() const { return code_bits() <= 8 ? 1 : (code_bits() <= 16 ? 2 : 4); }
  int64_t code_row_bytes() const {
    return is_packed() ? (geometry.padded_cols + 1) / 2 : geometry.padded_cols * code_bytes();
  }
  uint32_t code(int64_t r, int64_t k) const {
    const uint8_t* row = codes.data() + r * code_row_bytes();
    if (is_packed()) return (row[k / 2] >> (4 * (k % 2))) & 0xFu;
    uint32_t c = 0;
    for (int byte = 0; byte < code_bytes(); ++byte)
      c |= static_cast<uint32_t>(row[k * code_bytes() + byte]) << (8 * byte);
    return c;
  }
  void set_code(int64_t r, int64_t k, uint32_t c) {
    uint8_t* row = codes.data() + r * code_row_bytes();
    if (is_packed()) {
      const int shift = static_cast<int>(4 * (k % 2));
      row[k / 2] = static_cast<uint8_t>((row[k / 2] & ~(0xFu << shift)) | (c << shift));
      return;
    }
    for (int byte = 0; byte < code_bytes(); ++byte)
      row[k * code_bytes() + byte] = static_cast<uint8_t>(c >> (8 * byte));
  }
  // All codes those of zero, pads included.
  void clear_codes() {
    const uint32_t zero = format_of(spec.element).zero_code();
    codes.assign(static_cast<size_t>(rows * code_row_bytes()), static_cast<uint8_t>(is_packed() ? zero * 0x11 : zero));
    for (int64_t at = 0; code_bytes() > 1 && zero != 0 && at < static_cast<int64_t>(codes.size()); ++at)
      codes[static_cast<size_t>(at)] = static_cast<uint8_t>(zero >> (8 * (at % code_bytes())));
  }
  int64_t scale_index(int64_t r, int64_t k) const {
    return r / geometry.block_rows * geometry.scale_cols + k / geometry.block_cols;
  }
  // g of an element, whatever the decode order stores.
  float tensor_multiplier_at(int64_t r, int64_t k) const {
    const float stored = tensor_factor_at(r, k);
    return spec.has_tensor_scale() ? multiplier_of(spec.decode, stored, resolve(spec).top()) : stored;
  }
  // What is stored for it: g, or what the decode order reads (tensor_scale.h).
  float tensor_factor_at(int64_t r, int64_t k) const {
    const int64_t of_row = spec.tensor_scale_cols(cols);
    return tensor_scale[static_cast<size_t>(of_row == 0 ? 0 : r * of_row + (of_row > 1 ? k / outer_scale_width : 0))];
  }
};

struct GemmOptions {
  Accumulator accumulator = fp32_block;
  float hadamard_divisor = 1.0f;  // h of a folded Hadamard
  int threads = 1;
  // Others than tensor_scales need tensor scales `current` or `hold`, no prescale and an accumulator that does not see
  // them; only the Dispatcher knows them.
  ProductFactor factor = ProductFactor::tensor_scales;
};

// C = Q(A) Q(B)^T from high-precision operands; `c` is [a.x.rows, b.x.rows] with row stride c_stride.
struct MultiplyCall {
  QuantizeCall a;
  QuantizeCall b;
  GemmOptions options;
  float* c = nullptr;
  int64_t c_stride = 0;
  // Operands that were quantised before (as their call says); null: quantised on the way.
  const Quantized* ready_a = nullptr;
  const Quantized* ready_b = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual bool available() const = 0;  // on this machine

  // Quantises into `out`, reusing its storage.
  virtual bool supports_quantize(const QuantizeCall& call) const = 0;
  virtual void quantize(const QuantizeCall& call, Quantized& out) const = 0;
  // Each call into its own, which a device does in as few launches as one.
  virtual void quantize_all(std::span<const QuantizeCall> calls, Quantized* out) const {
    for (const QuantizeCall& call : calls) quantize(call, *out++);
  }

  // out [rows, K] float32.
  virtual bool supports_dequantize(const Quantized& q) const = 0;
  virtual void dequantize(const Quantized& q, float* out, int threads) const = 0;

  // C [a.rows, b.rows], row stride c_stride.
  virtual bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const = 0;
  virtual void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                    int64_t c_stride) const = 0;

  // Quantise and multiply in one go; a fast path fuses quantisation with packing. false: the caller takes the two
  // steps.
  virtual bool multiply(const MultiplyCall& call) const {
    static_cast<void>(call);
    return false;
  }

  // y [rows, K padded to tiles], row stride = padded K. `place` is the sign stream.
  virtual bool supports_hadamard(const HadamardSpec& h) const = 0;
  virtual void hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                        int threads) const = 0;
};

}  // namespace fp4
