// Words of a device's matrix unit, as the probes of tools/probe print them, and what they say about its adder: a named
// row that gives all of them, or the parameters of a described one.
//
// A dump is text. A line is a comment (#), `probe 1 DEVICE` (the first), an instruction or a sum D = A*B + C:
//   instruction NAME a=FORMAT b=FORMAT scale=none|FORMAT block=N d=fp32|fp16
//   A B SA SB C D        hexadecimal codes, an element after the other, first k first; SA and SB are - without scales
// FORMAT is a word of `fp4sim list formats` or tf32, whose codes are fp32 numbers. Digits of a code: those of its bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fp4/accumulator.h"

namespace fp4::golden {

struct ProbeSum {
  std::vector<uint32_t> a, b;    // K codes each
  std::vector<uint32_t> sa, sb;  // K/block scale codes each, none without scales
  uint32_t c = 0, d = 0;
};

struct ProbeSection {
  std::string instruction;
  Element a = Element::e2m1, b = Element::e2m1;
  bool tf32 = false;
  Scale scale = Scale::none;
  int block = 0;
  bool is_half = false;  // C and D in fp16
  std::vector<ProbeSum> sums;

  bool has_scale() const { return scale != Scale::none; }
};

struct ProbeDump {
  std::string device;
  std::vector<ProbeSection> sections;
};

// Throws Error with the file, the line and the offending word.
ProbeDump read_probe(const std::string& path);

// An adder beyond its row: the order in which products meet it, and when C does.
struct ProbeModel {
  Accumulator row;
  int stride = 1;            // products k = 0, s, 2s, .., 1, s+1, ..
  bool descending = false;   // last k first
  bool adds_c_last = false;  // D = fl32(C + the sum from 0), to nearest even
  friend bool operator==(const ProbeModel&, const ProbeModel&) = default;
};

// A sum whose codes are numbers, for many models.
struct DecodedCode {
  float element = 0, scale = 1, scaled = 0;  // scaled: fl32(element * scale)
  int64_t fixed = 0;                         // the element in steps of its format; 0 of formats whose range is too wide
};
struct DecodedSum {
  std::vector<DecodedCode> a, b;
  uint32_t c = 0;
};
DecodedSum decoded(const ProbeSection& section, const ProbeSum& sum);

// The word D that a model gives.
uint32_t probe_word(const ProbeSection& section, const ProbeSum& sum, const ProbeModel& model);
uint32_t probe_word(const ProbeSection& section, const DecodedSum& sum, const ProbeModel& model);

struct ProbeVerdict {
  std::vector<std::string> equals;  // named rows that give every word
  ProbeModel model;                 // the first of them, or the best described one
  uint64_t equal = 0, total = 0;    // words that the model gives
  std::string nearest;              // without an equal row: the row that the model differs from in `changes`
  std::vector<std::string> changes;
  int64_t first_difference = -1;  // sum that the model does not give
  bool is_explained() const { return total > 0 && equal == total; }
};
ProbeVerdict judge_probe(const ProbeSection& section);

}  // namespace fp4::golden
