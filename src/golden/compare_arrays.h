// Exact comparison of one candidate array with its golden twin: counts, first mismatches with bits and values, a
// histogram of distances, and where in block, row and tile the mismatches sit. Integers are compared, never tolerances.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/golden/candidate.h"

namespace fp4::golden {

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

// Elements of an array as integers: bits of floats, codes. `packed_bits`: codes of 4 or 6 bits that follow each other
// without gaps, low bits first; 0: one in each element of the array.
std::vector<uint32_t> elements_of(const Array& a, int packed_bits);

// Of floats any NaN equals any other; codes are compared as they are, those of NaN, too. The golden array is rounded to
// the candidate's type, and what a layout pads is counted apart: kernels leave those bytes as they were. Indices are
// [row, column], whatever the layout. `unjudged` marks elements that are not looked at; empty: none.
Comparison compare(const Case& c, const CandidateArray& candidate, const Array& golden,
                   const std::vector<bool>& unjudged = {});

// Gives the first mismatches of codes and decoded values their inputs and scales, so that they can be checked by hand;
// nothing for products, rotations, transposes, spec words that store inverses, and tensor scales of several factors.
void add_payloads(const Bundle& bundle, const Case& c, Comparison& comparison);

// The elements of an array of codes that lie in blocks whose golden scale is NaN; empty where none does.
std::vector<bool> codes_of_nan_blocks(const Bundle& bundle, const Case& c, const std::string& array);

// Elements of a candidate that is compared with `expected` elements: FP4 codes count one by one whether two or one of
// them fill a byte, or eight a word, FP6 codes whether four fill three bytes or four; scales of one byte also where
// four fill a word.
std::vector<uint32_t> candidate_elements(const Case& c, const CandidateArray& candidate, size_t expected);

// The place row*cols + column of each element of an array whose layout pads or moves it; -1 for padding. Empty where
// the elements lie row by row.
struct Homes {
  int64_t cols = 0;
  std::vector<int64_t> at;
};
Homes homes_of(const Case& c, const std::string& array);

// Of an array of this case: 4 where two codes fill a byte, 6 where four fill three, else 0.
int packed_bits(const Case& c, const std::string& array);

}  // namespace fp4::golden
