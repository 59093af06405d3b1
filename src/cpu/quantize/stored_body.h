// Operands that are already codes and scales (backend.h, Quantized): decoding them to floats, and packing them into the
// panels of a gemm.
#pragma once

#include "src/cpu/quantize/operand_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/parallel.h"

namespace fp4::FP4_ISA {

// Decode-side values of all scale codes and of all codes of up to 8 bits.
struct DecodeTables {
  alignas(64) float element[256];
  float scale[256];
};

// A thread keeps its last tables: at the shapes of training, filling them costs as much as decoding.
inline const DecodeTables& decode_tables(const QuantSpec& spec, const Quantizer& q) {
  struct Kept {
    QuantSpec spec;
    bool is_filled = false;
    DecodeTables tables;
  };
  thread_local Kept kept;
  if (kept.is_filled && kept.spec == spec) return kept.tables;
  const int codes = q.element.code_bits() <= 8 ? 1 << q.element.code_bits() : 0;
  for (int c = 0; c < codes; ++c) kept.tables.element[c] = decode(q.element, static_cast<uint32_t>(c));
  for (int c = 0; q.has_scale() && q.scale.code_bits() <= 8 && c < 256; ++c) {
    kept.tables.scale[c] = scale_value(q, static_cast<uint32_t>(c));
  }
  kept.spec = spec;
  kept.is_filled = true;
  return kept.tables;
}

// 16 rows of codes from a row on; missing rows read row `row0` and are discarded by the caller.
struct CodeReader {
  const uint8_t* base;
  I offset;  // bytes to each row
  int width;
  int64_t row_bytes;
};

FP4_TARGET inline CodeReader read_codes(const Quantized& q, int64_t row0, int rows) {
  CodeReader c;
  c.row_bytes = q.code_row_bytes();
  c.base = q.codes.data() + row0 * c.row_bytes;
  c.width = q.is_packed() ? 4 : 8 * q.code_bytes();
  alignas(64) int32_t offset[panel_rows];
  for (int r = 0; r < panel_rows; ++r) offset[r] = static_cast<int32_t>((r < rows ? r : 0) * c.row_bytes);
  c.offset = load(offset);
  return c;
}

// The dword of every row at byte `at`; bytes beyond the row are 0.
FP4_SIMD I row_dwords(const CodeReader& c, int64_t at) {
  if (at + 4 <= c.row_bytes) return gather_bytes(c.base + at, c.offset);
  alignas(64) uint32_t words[panel_rows] = {};
  alignas(64) int32_t offset[panel_rows];
  store(offset, c.offset);
  if (at < c.row_bytes) {
    for (int r = 0; r < panel_rows; ++r) {
      std::memcpy(&words[r], c.base + offset[r] + at, static_cast<size_t>(c.row_bytes - at));
    }
  }
  return load(words);
}

// Values of codes of 6 or 8 bits: halves but for the bias of the exponent, and for NaN.
FP4_SIMD F minifloat_values(const FloatFormat& f, I code) {
  const I magnitude = code & all(f.magnitude_mask());
  const I sign = shift_left(code - magnitude, 15 - f.magnitude_code_bits());
  const F value = from_half(sign | shift_left(magnitude, 10 - f.mantissa_bits)) * all(power_of_two(15 - f.bias));
  if (!f.has_nan()) return value;
  const M nan = magnitude > all(f.largest_code + (f.has_infinity ? 1u : 0u));
  return select(nan, as_float(all(canonical_nan_bits)), value);
}

// Element values of 16 rows, columns k.. of one dword.
FP4_SIMD F decoded_codes(const Quantizer& q, const DecodeTables& t, I code) {
  switch (q.element.code_bits()) {
    case 4: return look_up_16(t.element, code);
    case 16:
      if (q.element.exponent_bits == 8) {
        const F v = as_float(shift_left<16>(code));
        return select(is_nan(v), as_float(all(canonical_nan_bits)), v);
      } else {
        const F v = from_half(code);
        return select(is_nan(v), as_float(all(canonical_nan_bits)), v);
      }
    case 32: {
      const F v = as_float(code);
      return select(is_nan(v), as_float(all(canonical_nan_bits)), v);
    }
    default: return minifloat_values(q.element, code);
  }
}

// A block's scale, NaN for NaN codes.
inline float stored_scale(const Quantized& q, const Quantizer& r, const DecodeTables& t, int64_t index) {
  const auto i = static_cast<size_t>(index);
  if (!is_real(q.spec.scale)) return t.scale[q.scales[i]];
  const float stored = q.real_scales[i];
  return is_nan(stored) ? float_of(canonical_nan_bits) : (r.stores_multiplier() ? 1.0f / stored : stored);
}

// Block scales of 16 rows at column k, 1 where there are none.
FP4_SIMD F stored_scales(const Quantized& q, const Quantizer& r, const DecodeTables& t, int64_t row0, int rows,
                         int64_t k) {
  if (!q.spec.has_scale()) return all(1.0f);
  alignas(64) float s[panel_rows];
  for (int i = 0; i < panel_rows; ++i) {
    s[i] = i < rows && k < q.cols ? stored_scale(q, r, t, q.scale_index(row0 + i, k)) : 1.0f;
  }
  return load(s);
}

FP4_SIMD F stored_factors(const Quantized& q, int64_t row0, int rows, int64_t k) {
  if (q.tensor_scale.size() <= 1) return all(q.tensor_scale.empty() ? 1.0f : q.tensor_scale[0]);
  alignas(64) float g[panel_rows];
  for (int i = 0; i < panel_rows; ++i) g[i] = i < rows && k < q.cols ? q.tensor_factor_at(row0 + i, k) : 1.0f;
  return load(g);
}

// fl32(fl32(q*s/p)*g), with the NaN of a NaN scale and the infinities of unscaled formats.
FP4_SIMD F stored_value(float prescale, F element, F s, F g) {
  F v;
  if (prescale == 1.0f) {
    v = element * s * g;
  } else {
    v = narrowed(widened(element) * widened(s) / all_double(static_cast<double>(prescale))) * g;
  }
  return select(is_nan(v), as_float(all(canonical_nan_bits)), v);
}

// Columns k0..k0+n of 16 rows as floats; n a multiple of 8, one block at most.
FP4_TARGET inline void decode_piece(const Quantized& q, const Quantizer& r, const DecodeTables& t, const CodeReader& c,
                                    int64_t k0, int n, LaneBuffer out) {
  const int per_dword = 32 / c.width;
  const I mask = all(c.width == 32 ? 0xFFFFFFFFu : (1u << c.width) - 1u);
  for (int k = 0; k < n; k += per_dword) {
    const I dword = row_dwords(c, (k0 + k) * c.width / 8);
    for (int i = 0; i < per_dword; ++i) {
      store(out[k + i], decoded_codes(r, t, shift_right(dword, i * c.width) & mask));
    }
  }
  static_cast<void>(q);
}

inline int stored_piece(const Quantized& q) {
  const BlockKind kind = q.spec.block.kind;
  const bool blocked = q.spec.has_scale() && (kind == BlockKind::vector || kind == BlockKind::square);
  return blocked ? q.spec.block.size : 32;
}

// The panels of a gemm from stored codes.
FP4_TARGET inline void pack_stored_panel(const Quantized& q, const Quantizer& r, const DecodeTables& t,
                                         const PanelOptions& options, Panels& out, int64_t panel) {
  alignas(64) float buffer[128][panel_rows];
  const int piece = stored_piece(q);
  const float to_fixed = power_of_two(-r.element.quantum_log2());
  Quantization z;
  z.out = &out;
  z.options = options;
  const int64_t row0 = panel * panel_rows;
  const int rows = static_cast<int>(smaller<int64_t>(panel_rows, q.rows - row0));
  const M lanes = first_lanes(rows);
  const CodeReader c = read_codes(q, row0, rows);
  out.nan_rows[panel] = 0;
  Extremes extremes = no_extremes_yet();
  for (int64_t k0 = 0; k0 < out.padded; k0 += piece) {
    decode_piece(q, r, t, c, k0, piece, buffer);
    Block b;
    b.k0 = k0;
    b.scales.value = stored_scales(q, r, t, row0, rows, k0);
    const F g = stored_factors(q, row0, rows, k0);
    if (out.starts_outer(k0)) store(out.outer + (panel * out.outer_count + k0 / outer_scale_width) * panel_rows, g);
    const Sink sink = sink_at(out, panel, k0);
    b.amax = all(0);
    for (int k = 0; k < piece; k += 4) {
      I fixed[4];
      for (int i = 0; i < 4; ++i) {
        F v = select(lanes, load(buffer[k + i]), all(0.0f));
        b.amax = b.amax | (bits(v) & all(0x7FFFFFFF));
        if (sink.bytes != nullptr) fixed[i] = truncated(v * all(to_fixed)) + all(options.byte_offset);
        if (sink.values == nullptr) continue;
        if (options.values == Values::scaled) v = v * b.scales.value;
        if (options.values == Values::decoded) {
          v = stored_value(q.spec.prescale, v, b.scales.value, g);
        }
        store(sink.values + (k + i) * panel_rows, v);
      }
      if (sink.bytes != nullptr) {
        store(sink.bytes + k * panel_rows, packed_lanes_unsigned(fixed[0], fixed[1], fixed[2], fixed[3]));
      }
    }
    if (q.spec.has_scale() && (k0 % out.block == 0)) {
      // With one scale for all of K the first piece says nothing about zeros.
      if (out.block > piece) b.amax = all(1);
      note_scales(z, b, panel, extremes);
    }
  }
  note_range(out, panel, extremes);
  close_panel(options, out, panel);
}

}  // namespace fp4::FP4_ISA
