// What a kernel that differs from a case would dump: its specs, and what no spec can say.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fp4/gemm.h"
#include "src/backends/backends.h"
#include "src/golden/array_words.h"
#include "src/golden/suite.h"
#include "src/layout/digit_layout.h"

namespace fp4 {

inline bool operator==(const RandomPlace& a, const RandomPlace& b) {
  return a.seed == b.seed && a.stream == b.stream && a.step == b.step;
}

}  // namespace fp4

namespace fp4::golden {

// How a kernel may read codes and scales that were stored rightly: nibbles the other way round, scales in another
// order or along the other axis, rows of the wrong place. Of a dump of decoded values, and of an operand of a product.
struct Misread {
  const char* axis;  // "nibbles", "scales"
  std::string word;
  std::string detail;
  // Where what is read at a place lies, of codes or scales row by row; beyond the last one it stays. Empty: signs of
  // codes are lost.
  std::function<int64_t(int64_t r, int64_t c)> from{};
};

// Those that can be of this operand: of its element format and its shape.
std::vector<Misread> misreads(const Quantized& q);

// Rows of an operand as they are read; without rows all of them, without a misread rightly.
Quantized read_rows(const Quantized& given, const Misread* how, const std::vector<int64_t>& rows);

// What a kernel computes. Kernels that are equal give the same arrays but for their order.
struct Computation {
  enum class DecodeG { once, missing, twice, divided };
  enum class Operands : uint8_t { both, a, b };
  enum class StoredG { factor, reciprocal, encode, amax };       // what the dump calls tensor scale
  enum class MeasuredG { tensor, bf16 };                         // where the amax of the tensor scale comes from
  enum class DrawOrder { row_major, column_major, high_first };  // which draw an element takes

  // What goes wrong with a rotation: its signs in reverse order, after the transform, or all of them turned; no
  // rotation at all, or of one operand of a product alone.
  enum class Rotation : uint8_t { whole, none, reversed, after, negated, only_a, only_b };

  QuantSpec a, b;
  std::optional<Accumulator> accumulator{};  // empty: the one that the array's name says
  int saturation = 0;                        // 1: codes beyond M wrap, 2: they become NaN or the top code pattern
  int scale_step = 0;                        // every scale code off by this
  DecodeG decode_g = DecodeG::once;
  Operands decode_g_of = Operands::both;  // of a product
  StoredG stored_g = StoredG::factor;
  MeasuredG measured_g = MeasuredG::tensor;
  DrawOrder draws = DrawOrder::row_major;
  bool scales_as_values = false, codes_as_values = false;  // dumped as real numbers
  bool swap_operand_axis = false;                          // blocks along axis 0, result stored as [rows, cols]
  bool repeats_scales = false;  // dumped on the grid of the case's blocks, whatever the kernel's are
  Rotation rotation = Rotation::whole;
  std::optional<HadamardSpec> hadamard{};  // empty: the case's
  std::optional<RandomPlace> place{};
  bool output_transposed = false;
  std::optional<Sparsity> sparsity{};                   // of a sparse product; empty: the case's
  RealType output = RealType::fp32;                     // of products and decoded values before they are read as fp32
  ProductFactor factor = ProductFactor::tensor_scales;  // where takes_amaxes()
  RealType sum = RealType::fp32;                        // of a product before its tensor scales, where takes_amaxes()
  bool sum_saturates = false;                           // to the largest number of that type
  bool rounds_by_raw_scale = false;                     // codes of scales that are not rounded to their format yet
  std::array<const Misread*, 2> misread{};              // of `a` and `b`
  std::array<int64_t, 2> left_out{};                    // products of K from the first to before the second

  // Blocks are coded again one by one, with the core's functions.
  bool recodes() const {
    return saturation != 0 || scale_step != 0 || draws != DrawOrder::row_major || rounds_by_raw_scale;
  }
  friend bool operator==(const Computation&, const Computation&) = default;
};

// And in which order it stores it; empty: as the array's name says.
struct Kernel : Computation {
  std::optional<CodeLayout> codes_in{};
  std::optional<ScaleLayout> scales_in{};
  bool other_operand = false;  // the arrays of the transposed operand
};

// Whether a product under the adder has tensor scales that amaxes can stand for.
bool takes_amaxes(const Kernel& k, AccumulatorKind kind);

// Rows of a larger tensor, whose amax this is: of a case of some rows, or a tile, of another.
struct Band {
  int64_t first_row = 0;
  float amax = 0;
};

// Some rows and columns of a product, or rows of decoded values.
struct Corner {
  std::vector<int64_t> rows, cols;
};

class Simulator {
 public:
  Simulator(const Case& c, const CaseInputs& in, const std::string& backend, int threads,
            std::optional<Band> band = std::nullopt)
      : c_(c), in_(in), base_(base_of(c)), dispatcher_(backend), threads_(threads), band_(band) {}
  // Products and decoded values give these alone.
  Simulator(const Case& c, const CaseInputs& in, const std::string& backend, const Corner& corner)
      : c_(c), in_(in), base_(base_of(c)), dispatcher_(backend), threads_(1), corner_(corner) {}

  static Kernel base_of(const Case& c);
  const Kernel& base() const { return base_; }
  // Of the named array, row by row in no layout, and how many rows; empty where the kernel says nothing about it.
  Elements elements(const Kernel& kernel, const std::string& array, int64_t* rows = nullptr) const;
  // Of a product, before the case's epilogue; `accumulator` where the kernel has none of its own.
  std::vector<float> product(const Kernel& k, const std::string& accumulator) const;
  // Of a product; of a quantisation the tensor is `a`.
  Quantized operand(const Kernel& k, bool is_b) const;

 private:
  struct Piece {
    Quantized q;
    float amax = 0;
  };
  struct Last {
    std::optional<Computation> of;
    Piece piece;
  };

  const Piece& last_quantized(const Kernel& k, bool transposed) const;
  Piece quantized(const Kernel& k, bool transposed) const;
  const Quantized& last_operand(const Kernel& k, bool is_b) const;
  bool cuts(const Kernel& k) const;
  bool is_few(const Kernel& k, bool is_b) const;
  Corner corner(const Kernel& k) const;
  void recode(const Kernel& k, const QuantizeCall& call, Quantized& q) const;
  uint32_t changed_scale(const Kernel& k, const QuantizeCall& call, const Quantized& q, int64_t r, int64_t c,
                         TensorFactor t) const;
  void rotate(const Kernel& k, bool is_b, QuantizeCall& call, std::vector<float>& storage) const;
  Elements on_case_grid(const Elements& scales, const Quantized& q) const;
  Elements part(const Kernel& k, const std::string& stage, const Quantized& q, float amax) const;
  Elements decoded(const Kernel& k, Quantized q) const;
  Elements output(const Kernel& k, const std::string& accumulator) const;

  const Case& c_;
  const CaseInputs& in_;
  Kernel base_;
  Dispatcher dispatcher_;
  int threads_;
  std::optional<Band> band_;
  std::optional<Corner> corner_;
  mutable std::array<Last, 4> last_;
  mutable std::array<float, 2> amax_ = {-1.0f, -1.0f};
};

}  // namespace fp4::golden
