// Rows of an operand of listed elements to scale and element codes: a row's maxima, then block by block its scale code
// and the codes under it, each by the fastest way that knows it and at last by the core.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fp4/backend.h"
#include "src/listed/listed_codes.h"
#include "src/listed/listed_lookup.h"
#include "src/listed/listed_scales.h"

namespace fp4 {

class ListedRows {
 public:
  struct Scratch {
    std::vector<int32_t> maxima;
    std::vector<uint32_t> codes, draws;
    struct {
      std::vector<uint32_t> codes;
      std::vector<ListedTrial> trials;
    } under[2];  // the grids of a choice
  };

  /// `spec` is that of the call and outlives this.
  ListedRows(const QuantizeCall& call, const ListedSpec& spec, TensorFactor t);

  /// Row r of the operand, x[0..out.cols), into `out`, whose codes are those of zero.
  void quantize(const float* x, int64_t r, Scratch& scratch, Quantized& out) const;

 private:
  // One of the spec's grids.
  struct Grid {
    const ListedElement& element;
    ListedLookUp look_up;
    ListedScales scales;
    std::array<float, 256> multipliers{};  // listed_multiplier by scale code, of scales of 8 bits
  };

  uint32_t scale_draw(int64_t index) const;
  void try_grids(const float* x, int64_t first_index, int64_t step, Scratch& scratch) const;
  // Of block b; these may write its element codes, too, and then say so.
  uint32_t scale_code(const BlockView& x, int64_t b, int64_t index, Scratch& scratch, bool& has_codes) const;
  int64_t chosen_code(const BlockView& x, int64_t b, int64_t index, Scratch& scratch, bool& has_codes) const;
  void store_codes(int64_t r, const uint32_t* codes, Quantized& out) const;
  bool are_equal(int64_t n, const uint32_t* a, const uint32_t* b) const;
  void fill_multipliers(Grid& grid) const;
  float multiplier_under(const Grid& grid, uint32_t code) const;
  uint32_t grid_scale_code(const Grid& grid, const BlockView& x, float amax, uint32_t draw) const;
  void element_codes(const BlockView& x, uint32_t scale, bool is_finite, const uint32_t* draws, uint32_t* out) const;

  const QuantizeCall& call_;
  const Quantizer& q_;
  const ListedSpec& spec_;
  TensorFactor t_;
  Grid first_;
  std::optional<Grid> second_;
  Quantizer of_second_;
  double units_;                   // g/p
  uint32_t flag_;                  // choice_flag where there is a choice
  bool looks_up_, tries_ = false;  // both grids, a row at a time
};

}  // namespace fp4
