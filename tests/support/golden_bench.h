// A bundle of one case, dumps of it, right and wrong, and what verify says of them.
#pragma once

#include <catch2/catch.hpp>

#include "src/golden/compare_arrays.h"
#include "src/golden/diagnose.h"
#include "tests/support/support.h"

namespace fp4::golden {

// Of one array of a dump beside its golden one.
inline Comparison compare(const Case& c, const CandidateArray& a, const Array& right,
                          const std::vector<bool>& unjudged = {}) {
  return compare(c, a, right, evidence_of(c, a, right, unjudged));
}
inline uint64_t beyond(const Tolerance& tolerance, const Case& c, const CaseInputs& in, const CandidateArray& a,
                       const Array& right) {
  return beyond(tolerance, c, in, std::vector{evidence_of(c, a, right)}, std::vector{compare(c, a, right)});
}

}  // namespace fp4::golden

namespace fp4::test {

using namespace fp4::golden;

inline Case quantize_case(const std::string& words, InputKind input, int64_t rows, int64_t cols) {
  Case c;
  c.name = "case";
  c.words = words;
  c.input = input;
  c.rows = rows;
  c.cols = cols;
  c.place = {77, 256, 3};
  return c;
}

inline Array& find(std::vector<Array>& arrays, std::string_view name) {
  for (Array& a : arrays) {
    if (a.name == name) return a;
  }
  FAIL("no array " << name);
  return arrays[0];
}

// The bundle of one case, and the diagnosis of a dump of it.
class Bench {
 public:
  explicit Bench(const Case& c) : arrays(make_arrays(c, "reference", 1)) {
    write_bundle("test", {c}, folder / "bundle", false, "reference", 1);
    bundle = open_bundle(folder / "bundle");
  }
  Diagnosis diagnose_dump(const std::vector<Array>& dump, double seconds = HUGE_VAL) {
    std::vector<CandidateArray> candidates;
    std::vector<Comparison> comparisons;
    std::vector<golden::ArrayPair> evidence;
    const Case& c = bundle.cases[0];
    for (const Array& a : dump) candidates.push_back({0, parse_array_name(a.name).stage, a.name, "", a});
    for (const CandidateArray& a : candidates) {
      evidence.push_back(evidence_of(bundle, c, a));
      comparisons.push_back(compare(c, a, load_array(bundle, c, a.golden), evidence.back()));
    }
    Diagnosis d = diagnose(bundle, c, candidates, comparisons, evidence, "auto", 1, seconds);
    expect_replays(d, dump);
    return d;
  }
  // Words that explain a dump give it, where no order of arrays stands beside them.
  void expect_replays(const Diagnosis& d, const std::vector<Array>& dump) {
    for (const Cause& cause : d.causes) {
      const auto says = [&](const char* axis) { return changes_axis(cause.changes, axis); };
      if (cause.after > 0 || cause.words.empty() || bundle.cases[0].is_gemm) continue;
      if (says("nibble_order") || says("scale_layout") || says("operand")) continue;
      INFO("replay of " << cause.words << " for " << cause.text());
      for (const Array& a : dump) {
        if (a.name != "codes" && a.name != "scales" && a.name != "tensor_scale" && a.name != "dequantized") continue;
        const Case& c = bundle.cases[0];
        const std::vector<bool> unjudged =
            a.name == "codes" ? codes_of_nan_blocks(bundle, c, a.name) : std::vector<bool>{};
        const CandidateArray given = {0, parse_array_name(a.name).stage, a.name, "", a};
        CHECK(compare(c, given, dump_of(cause.words, {a.name})[0], unjudged).mismatches == 0);
      }
    }
  }
  // What the same case gives under other words: a kernel with another policy.
  std::vector<Array> dump_of(const std::string& words, const std::vector<std::string>& names) {
    Case other = bundle.cases[0];
    other.words = other.words_b = words;
    other.given_a = floats(find(arrays, other.is_gemm ? "a" : "input"));
    if (other.is_gemm) other.given_b = floats(find(arrays, "b"));
    return pick(make_arrays(other, "reference", 1), names);
  }
  std::vector<Array> correct(const std::vector<std::string>& names) { return pick(arrays, names); }
  static std::vector<Array> pick(std::vector<Array> all, const std::vector<std::string>& names) {
    std::vector<Array> out;
    for (const std::string& n : names) out.push_back(find(all, n));
    return out;
  }
  static std::vector<float> floats(const Array& a) {
    std::vector<float> out;
    for (const uint32_t w : elements_of(a, 0)) out.push_back(float_of(w));
    return out;
  }

  TemporaryFolder folder;
  std::vector<Array> arrays;
  Bundle bundle;
};

inline const std::vector<std::string> all_stages = {"scales", "codes", "dequantized"};

inline void expect(const Diagnosis& d, const std::string& cause) {
  INFO("expected " << cause << "; summary: " << d.summary);
  REQUIRE(d.explains_all);
  bool named = false;
  for (const Cause& c : d.causes) named = named || c.text() == cause;
  CHECK(named);
  // equivalent names may stand beside it, but not many: the input is made to tell policies apart
  CHECK(d.causes.size() <= 5);
}

}  // namespace fp4::test
