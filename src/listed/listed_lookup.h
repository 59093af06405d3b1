// Codes of a list by a table: the numbers of a block in buckets, sixteen at a time with AVX-512, eight with AVX2. A
// bucket holds at most one midpoint; a magnitude v = |x|*multiplier has the code below it or the code above. fp32 errs
// in v by less than 2^-22, so a v within 2^-20 of its bucket's midpoint is left to the caller.
#pragma once

#include <cstdint>

#include "fp4/micro.h"
#include "src/listed/listed_codes.h"

namespace fp4 {

/// Buckets of one list, those of negative numbers after those of positive ones.
struct ListedLookUp {
  static constexpr int buckets = 16;
  bool is_on = false;     // whether the list fits into them
  float per_unit = 0.0f;  // buckets of 1.0; the last one has no upper end
  alignas(64) float middle[2 * buckets];
  alignas(64) int32_t below[2 * buckets], above[2 * buckets];            // codes
  alignas(64) float value_below[2 * buckets], value_above[2 * buckets];  // what they decode to

  ListedLookUp() = default;
  ListedLookUp(const ListedElement& element, const Quantizer& q);
};

/// What a block is coded under: multiplier = per_unit/(s*g/p), the exponents of its elements or null, and how far they
/// stand above the base's code.
struct ListedUnits {
  float multiplier = 0.0f;
  const int* exponents = nullptr;
  int base_bits = 0;
};

/// Whether this machine has them; else no list is on, look_up_exponents is not to be called, and what follows is done
/// one number at a time.
bool has_listed_look_up();

/// A multiplier of `divisor` that fp32 holds without loss, or 0.
float listed_multiplier(float per_unit, double divisor);

/// The bits of the largest magnitude of each block of x[0..cols); from those of infinity on: a block is not finite.
void listed_maxima(const float* x, int64_t cols, int64_t step, int32_t* out);

/// Codes of x[0..n), nearest; `undecided` stands where a number lies too near a midpoint. Returns how many.
constexpr uint32_t undecided = 0xFFFFFFFFu;
int look_up_codes(const ListedLookUp& list, const float* x, int64_t n, ListedUnits u, uint32_t* out);

/// A block under a scale: `left` codes are undecided, and the error of x*unit against the decoded value*scale*g, as
/// `kind` adds it, is known to 2^-15 of itself.
struct ListedTrial {
  uint32_t code = 0;  // of the scale
  float multiplier = 0.0f, scale = 0.0f, unit = 0.0f;
  int left = 0;
  float error = 0.0f;
};
/// The same for the blocks of a row of x[0..cols), `step` each.
void look_up_errors(const ListedLookUp& list, const float* x, int64_t cols, int64_t step, float g, TrialError kind,
                    uint32_t* out, ListedTrial* trials);

/// micro_exponents of a block of finite numbers; false where a part lies too near a power of two. multiplier:
/// 1/(s*g/p).
bool look_up_exponents(const Quantizer& q, const float* x, int64_t n, float multiplier, int (&out)[most_micro_width]);

/// Codes side by side, two to a byte, the first one low.
void pack_codes(const uint32_t* codes, int64_t pairs, uint8_t* out);

/// values[code]*size*factor of n codes from `first` on; a NaN is the canonical one. Packed: two codes to a byte,
/// `first` even and 16 values; else a byte each and 256 values.
void decode_codes(const float* values, bool is_packed, const uint8_t* codes, int64_t first, int64_t n, float size,
                  float factor, float* out);

}  // namespace fp4
