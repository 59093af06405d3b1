// The C interface: words in, arrays out; every exception becomes a return code and a message. Each entry computes in
// the default floating-point environment and gives the caller's back: flush-to-zero in the host changes no bit here,
// and nothing here changes the host.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/arith/code_order.h"
#include "src/arith/product_epilogue.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/backends/signature.h"
#include "src/c_api/c_guard.h"
#include "src/text/version.h"

namespace fp4::c {
namespace {

thread_local std::string message_of_thread;
thread_local bool has_no_room = false;  // not even the message fitted into memory

}  // namespace

int failed(const char* message, int code) noexcept {
  has_no_room = false;
  try {
    message_of_thread = message;
  } catch (...) {
    has_no_room = true;
  }
  return code;
}

void succeeded() noexcept {
  has_no_room = false;
  message_of_thread.clear();
}

}  // namespace fp4::c

namespace {

using namespace fp4;

using c::guarded;
using c::place_of;
using c::require;

void require_shape(const char* function, int64_t rows, int64_t cols) {
  // With no column, or no row, nothing bounds the other number, and loops over it would not end.
  const bool is_empty = rows == 0 || cols == 0;
  const int64_t most = is_empty ? int64_t{1} << 24 : int64_t{1} << 40;
  if (rows < 0 || cols < 0 || std::max(rows, int64_t{1}) > most / std::max(cols, int64_t{1}))
    throw Error(std::string(function) + ": impossible shape " + std::to_string(rows) + " x " + std::to_string(cols));
}

int scale_bytes(const QuantSpec& s) { return !s.has_scale() ? 0 : (is_real(s.scale) ? 4 : 1); }

void require_scales(const char* function, const QuantSpec& s, const void* scales) {
  if (s.has_scale()) require(function, scales);
  if (scale_bytes(s) == 4) require(function, static_cast<const float*>(scales));
}

// A kernel may write before it has read all.
void require_apart(const char* function, const float* in, int64_t count, const float* out, int64_t written) {
  if (std::less<>()(in, out + written) && std::less<>()(out, in + count))
    throw Error(std::string(function) + ": the result lies on an input");
}

int64_t tensor_scales(const QuantSpec& s, int64_t rows, int64_t cols) {
  const int64_t of_row = s.tensor_scale_cols(cols);
  return of_row > 0 ? rows * of_row : 1;
}

Quantized empty_of(const QuantSpec& s, int64_t rows, int64_t cols) {
  return {.spec = s, .rows = rows, .cols = cols, .geometry = geometry_of(s, rows, cols)};
}

// Arrays of the caller as the core has them.
Quantized given(const QuantSpec& s, int64_t rows, int64_t cols, const uint8_t* codes, const void* scales,
                const float* tensor_scale) {
  Quantized q = empty_of(s, rows, cols);
  q.codes.assign(codes, codes + rows * q.code_row_bytes());
  require_codes(q, "codes");
  const int64_t count = q.geometry.scale_rows * q.geometry.scale_cols;
  if (scale_bytes(s) == 1)
    q.scales.assign(static_cast<const uint8_t*>(scales), static_cast<const uint8_t*>(scales) + count);
  if (scale_bytes(s) == 4)
    q.real_scales.assign(static_cast<const float*>(scales), static_cast<const float*>(scales) + count);
  q.tensor_scale.assign(tensor_scale, tensor_scale + tensor_scales(s, rows, cols));
  return q;
}

Quantized operand_of(const char* place, const fp4sim_operand& o, int64_t rows, int64_t cols) {
  require(place, o.spec, o.codes, o.tensor_scale);
  require_shape(place, rows, cols);
  const QuantSpec s = quant_spec_from_words(o.spec, std::string(place) + " spec");
  require_scales(place, s, o.scales);
  return given(s, rows, cols, o.codes, o.scales, o.tensor_scale);
}

}  // namespace

const char* fp4sim_version(void) { return fp4::version(); }

const char* fp4sim_signature(void) {
  const char* digits = "";
  guarded([&] { digits = arithmetic_signature().c_str(); });
  return digits;
}

const char* fp4sim_last_error(void) { return c::has_no_room ? "out of memory" : c::message_of_thread.c_str(); }

int fp4sim_shape(const char* spec, int64_t rows, int64_t cols, fp4sim_array_shape* shape) {
  return guarded([&] {
    require("fp4sim_shape", spec, shape);
    require_shape("fp4sim_shape", rows, cols);
    const QuantSpec s = quant_spec_from_words(spec, "spec");
    const Quantized q = empty_of(s, rows, cols);
    *shape = {q.code_row_bytes(), q.geometry.scale_rows, q.geometry.scale_cols, tensor_scales(s, rows, cols),
              scale_bytes(s)};
  });
}

int fp4sim_quantize(const char* spec, const float* x, int64_t rows, int64_t cols, fp4sim_place place, uint8_t* codes,
                    void* scales, float* tensor_scale) {
  return guarded([&] {
    require("fp4sim_quantize", spec, x, codes, tensor_scale);
    require_shape("fp4sim_quantize", rows, cols);
    const QuantSpec s = quant_spec_from_words(spec, "spec");
    require_scales("fp4sim_quantize", s, scales);
    Quantized q;
    Dispatcher().quantize({.x = view_of(x, rows, cols), .spec = s, .place = place_of(place)}, q);
    std::copy(q.codes.begin(), q.codes.end(), codes);
    if (!q.scales.empty()) std::memcpy(scales, q.scales.data(), q.scales.size());
    if (!q.real_scales.empty()) std::memcpy(scales, q.real_scales.data(), q.real_scales.size() * sizeof(float));
    std::copy(q.tensor_scale.begin(), q.tensor_scale.end(), tensor_scale);
  });
}

int fp4sim_dequantize(const char* spec, int64_t rows, int64_t cols, const uint8_t* codes, const void* scales,
                      const float* tensor_scale, float* out) {
  return guarded([&] {
    require("fp4sim_dequantize", spec, codes, tensor_scale, out);
    require_shape("fp4sim_dequantize", rows, cols);
    const QuantSpec s = quant_spec_from_words(spec, "spec");
    require_scales("fp4sim_dequantize", s, scales);
    const Quantized q = given(s, rows, cols, codes, scales, tensor_scale);
    Dispatcher().dequantize(q, out);
  });
}

int fp4sim_gemm(const char* spec_a, const char* spec_b, const char* accumulator, const float* a, const float* b,
                int64_t m, int64_t n, int64_t k, fp4sim_place place, float* c) {
  return guarded([&] {
    require("fp4sim_gemm", spec_a, spec_b, accumulator, a, b, c);
    require_shape("fp4sim_gemm", m, k);
    require_shape("fp4sim_gemm", n, k);
    require_shape("fp4sim_gemm", m, n);
    require_apart("fp4sim_gemm", a, m * k, c, m * n);
    require_apart("fp4sim_gemm", b, n * k, c, m * n);
    MultiplyCall call;
    call.a = {.x = view_of(a, m, k), .spec = quant_spec_from_words(spec_a, "spec_a"), .place = place_of(place)};
    call.b = {.x = view_of(b, n, k),
              .spec = quant_spec_from_words(spec_b, "spec_b"),
              .place = place_of(place).second_operand()};
    call.options.accumulator = accumulator_from_words(accumulator, "accumulator");
    call.c = c;
    call.c_stride = n;
    Dispatcher().multiply(call);
  });
}

int fp4sim_gemm_codes(const fp4sim_operand* a, const fp4sim_operand* b, const char* accumulator, int64_t m, int64_t n,
                      int64_t k, const fp4sim_epilogue* epilogue, void* d) {
  return guarded([&] {
    require("fp4sim_gemm_codes", a, b, accumulator, d);
    require_shape("fp4sim_gemm_codes", m, n);
    const Quantized qa = operand_of("operand a", *a, m, k), qb = operand_of("operand b", *b, n, k);
    Epilogue e;
    if (epilogue != nullptr) {
      require("fp4sim_gemm_codes", epilogue->output);
      e = {epilogue->alpha, epilogue->beta, epilogue->bias != nullptr, output_type_of("output", epilogue->output)};
      if (e.beta != 0.0f) require("fp4sim_gemm_codes", epilogue->c);
      if (e.has_bias) require("fp4sim_gemm_codes", epilogue->bias);
    }
    GemmOptions options;
    options.accumulator = accumulator_from_words(accumulator, "accumulator");
    std::vector<float> product(static_cast<size_t>(m * n));
    Dispatcher().gemm(qa, qb, options, product.data(), n);
    const std::vector<uint8_t> stored =
        finished(e, product, n, e.beta != 0.0f ? epilogue->c : nullptr, e.has_bias ? epilogue->bias : nullptr);
    std::memcpy(d, stored.data(), stored.size());
  });
}

int fp4sim_hadamard(const float* x, int64_t rows, int64_t cols, int size, const char* signs, const char* normalise,
                    fp4sim_place place, float* y) {
  return guarded([&] {
    require("fp4sim_hadamard", x, signs, normalise, y);
    require_shape("fp4sim_hadamard", rows, cols);
    HadamardSpec h;
    set_hadamard(h, {{"size", size}, {"signs", signs}, {"normalise", normalise}}, "hadamard");
    if (h.size == 0) throw Error("hadamard: size 0 is no transform; accepted: 16, 32, 64, 128, 256");
    if (x != y || cols % size != 0)
      require_apart("fp4sim_hadamard", x, rows * cols, y, rows * hadamard_padded(h, cols));
    Dispatcher().hadamard(view_of(x, rows, cols), h, place_of(place).hadamard_signs(), false, y);
  });
}
