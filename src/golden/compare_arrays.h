// Exact comparison of one candidate array with its golden twin: counts, first mismatches with bits and values, a
// histogram of distances, and where in block, row and tile the mismatches sit. Integers are compared, never tolerances.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/golden/candidate.h"
#include "src/golden/faulty_kernel.h"
#include "src/threads/parallel.h"

namespace fp4::golden {

// Where something lies in a matrix, as people say it: contiguous ranges of rows and columns, their period, warps.

// Elements of a matrix [rows, cols]; 1 where one is marked.
struct Marks {
  int64_t rows = 0, cols = 0;
  std::vector<uint8_t> at{};
};

struct Place {
  std::string text;         // "rows 32 to 63, columns 0 to 15"; "all" where every element is marked
  bool is_regular = false;  // every element that the text names is marked, and no other
};
Place place_of(const Marks& marks);

// Marked lines: "rows 32 to 63", "row 5", "rows 32 to 63 of every 128 (warp 1)"; "" where all are.
std::string ranges_text(const std::vector<uint8_t>& marked, const std::string& line);
std::string range_text(const std::string& line, int64_t first, int64_t count);

struct Mismatch {
  std::vector<uint64_t> index;
  uint32_t expected_bits = 0, got_bits = 0;
  std::string expected, got;  // decoded values
  // Of codes and decoded values, where add_payloads() knows them: the input, its scale with the tensor scale, and what
  // is rounded to the code, their quotient in fp64 times the prescale.
  std::optional<double> x, scale, payload;
};

struct Comparison {
  std::string case_name, stage, golden;
  uint64_t compared = 0;
  uint64_t mismatches = 0;
  uint64_t unjudged = 0;                 // codes of blocks whose scale is NaN: they mean nothing
  uint64_t padding = 0;                  // elements beyond the last row or column that are not zero: not judged
  uint64_t padding_nan = 0;              // of them: scales that are NaN, which a product with zeros does not hide
  std::vector<Mismatch> first;           // at most 10
  std::map<int64_t, uint64_t> distance;  // got - expected in codes or ulp, saturated at +-1000; NaN apart
  uint64_t nan_against_number = 0;
  std::string where;       // a sentence about the pattern
  std::string shape_note;  // set when shapes differ; then everything counts as a mismatch
};

// The place row*cols + column of each element of an array whose layout pads or moves it; -1 for padding. Empty where
// the elements lie row by row.
struct Homes {
  int64_t cols = 0;
  std::vector<int64_t> at;
  Elements plain(const Words& stored) const;
};
Homes homes_of(const Case& c, const std::string& array);

// A dump's array beside the golden one. Of one size they are a matrix [rows, cols] in plain order, whatever the layout;
// else each is as it lies in its file. The golden one has the case's epilogue, and is rounded to the dump's type.
struct ArrayPair {
  std::string array, stage;
  Words expected, got;
  RealType type = RealType::fp32;
  uint32_t zero = 0;  // the other zero of this array: code 8 of e2m1, bits of -0; 0 where there is none
  Homes homes{};
  bool may_be_any = false;  // some of `expected` is any_element
  int64_t rows = 1, cols = 0;
  Marks wrong{};
  uint64_t differences = 0;

  // Of a sample: where it begins in the whole.
  const ArrayPair* whole = nullptr;
  int64_t top = 0, left = 0;

  bool is_float() const { return zero == float_sign_bit; }
  bool is_matrix() const { return cols > 0; }
  bool differs(size_t i) const { return wrong.at[i] != 0; }
  uint32_t plain(uint32_t word) const { return word == zero ? 0 : word; }  // zeros of both signs as one
  // Row r of both; what may be anything is alike.
  void copy_row(int64_t r, Elements& x, Elements& y) const;
};

// body(first, last) for bands of rows of some 2^16 elements each, on every core.
template <class Body>
void for_bands(int64_t rows, int64_t cols, const Body& body, int64_t elements = int64_t{1} << 16) {
  const int64_t band = larger<int64_t>(1, elements / larger<int64_t>(cols, 1));
  parallel_for(0, rows, band, threads_of_machine(), 1,
               [&](int64_t first) { body(first, smaller(rows, first + band)); });
}

// `unjudged` marks elements, row by row, that are not looked at; empty: none. It looks at both arrays where they are.
// Arrays of another kind than the golden one have no elements, but for codes that are dumped as the numbers they stand
// for.
ArrayPair evidence_of(const Case& c, const CandidateArray& candidate, const Array& golden,
                      const std::vector<bool>& unjudged = {});
// Beside the bundle's array; codes of blocks whose scale is NaN are not looked at.
ArrayPair evidence_of(const Bundle& bundle, const Case& c, const CandidateArray& candidate);

// Elements of an array as integers: bits of floats, codes. `packed_bits`: codes of 4 or 6 bits that follow each other
// without gaps, low bits first; 0: one in each element of the array.
Elements elements_of(const Array& a, int packed_bits);

// Of floats any NaN equals any other; codes are compared as they are, those of NaN, too. What a layout pads is counted
// apart: kernels leave those bytes as they were. Indices are [row, column], whatever the layout.
Comparison compare(const Case& c, const CandidateArray& candidate, const Array& golden, const ArrayPair& evidence);

// Gives the first mismatches of codes and decoded values their inputs and scales, so that they can be checked by hand;
// nothing for products, rotations, transposes, spec words that store inverses, and tensor scales of several factors.
void add_payloads(const Bundle& bundle, const Case& c, Comparison& comparison);

// The elements of an array of codes, row by row, that lie in blocks whose golden scale is NaN; empty where none does.
std::vector<bool> codes_of_nan_blocks(const Bundle& bundle, const Case& c, const std::string& array);

// Elements of a candidate that is compared with `expected` elements: FP4 codes count one by one whether two or one of
// them fill a byte, or eight a word, FP6 codes whether four fill three bytes or four; scales of one byte also where
// four fill a word.
Words candidate_words(const Case& c, const CandidateArray& candidate, size_t expected);

// Of an array of this case: 4 where two codes fill a byte, 6 where four fill three, else 0.
int packed_bits(const Case& c, const std::string& array);

// A tolerance that whoever judges a kernel declares. Kernels whose 1/x is the device's approximate instruction take
// another code where a payload lies within that error of the boundary between two; such a dump is within the
// tolerance, never equal.
struct Tolerance {
  int reciprocal_ulp = 0;  // error of 1/6, of 1/S and of 1/(s*g), each; 0: none
  bool any() const { return reciprocal_ulp > 0; }
};

// "reciprocal_ulp=1"; Error, which `place` opens, for another word or a number that is not 1 to 8.
Tolerance tolerance_from_words(const std::string& place, const std::string& words);

// Elements of the dump that differ from the bundle's beyond the tolerance: scales that no 1/6 within it gives, codes
// that no reciprocals within it give under the dump's own scales (the bundle's where it has none), decoded values that
// are not those of the dump's codes and scales. Cases without reciprocals (gemm, arithmetic other than te and vllm,
// other rules than amax) have no tolerance: all that differ.
uint64_t beyond(const Tolerance& tolerance, const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence,
                const std::vector<Comparison>& comparisons);

}  // namespace fp4::golden
