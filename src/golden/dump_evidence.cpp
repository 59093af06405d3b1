#include "src/golden/dump_evidence.h"

#include <algorithm>

namespace fp4::golden {
namespace {

bool is_same(uint32_t simulated, uint32_t got) { return (simulated == got) | (simulated == any_element); }

// Zeros of both signs as one number.
uint32_t unsigned_zero(uint32_t element, uint32_t zero) { return element == zero ? 0 : element; }

void merge_nans(Elements& floats) {
  for (uint32_t& word : floats)
    if (is_nan(float_of(word))) word = canonical_nan_bits;
}

}  // namespace

std::vector<Evidence> gather(const Case& c, const std::vector<CandidateArray>& arrays, const std::vector<Array>& golden,
                             const Simulator& simulator) {
  std::vector<Evidence> out;
  const FloatFormat& element = format_of(quant_spec_from_words(c.words).element);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const CandidateArray& a = arrays[i];
    const bool is_float = golden[i].dtype == "f32";
    // Codes may be dumped as the numbers that they stand for.
    const bool same_kind = a.array.dtype == "f32" || !is_float;
    Elements expected = elements_of(golden[i], packed_bits(c, a.golden));
    const RealType type = is_float ? a.type : RealType::fp32;
    round_words(type, expected);
    Evidence e = {a.golden, expected, same_kind ? candidate_elements(c, a, expected.size()) : Elements{}, type};
    if (a.array.dtype == "f32") {
      merge_nans(e.got);
      if (is_float) merge_nans(e.expected);
      e.zero = float_sign_bit;
    } else if (a.stage == "codes") {
      e.zero = element.sign_code();
    }
    const Elements own = simulator.elements(simulator.base(), a.golden);
    for (size_t k = 0; k < own.size() && own.size() == e.expected.size(); ++k)
      if (own[k] == any_element) e.expected[k] = any_element;
    out.push_back(std::move(e));
  }
  return out;
}

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<Evidence>& evidence) {
  Score s;
  for (const Evidence& e : evidence) {
    Elements simulated = simulator.elements(kernel, e.array);
    round_words(e.type, simulated);
    const Elements& there = simulated.empty() ? e.expected : simulated;  // a kernel may say nothing of an array
    if (there.size() != e.got.size()) {
      const uint64_t all = std::max({there.size(), e.got.size(), size_t{1}});
      s.after += all;
      s.after_zeros += all;
      s.seen += all;
      continue;
    }
    const bool same_size = e.expected.size() == e.got.size();
    constexpr size_t piece = size_t{1} << 20;  // whose counts are words, so that compilers take vectors
    for (size_t first = 0; first < there.size(); first += piece) {
      const size_t end = std::min(there.size(), first + piece);
      uint32_t after = 0, after_zeros = 0, seen = 0, predicted = 0, found = 0;
      for (size_t i = first; i < end; ++i) {
        const uint32_t got = unsigned_zero(e.got[i], e.zero), now = unsigned_zero(there[i], e.zero);
        const uint32_t before = same_size ? unsigned_zero(e.expected[i], e.zero) : ~now;
        const uint32_t predicts = (now != before) & (now != any_element), differs = !is_same(before, got);
        after += !is_same(there[i], e.got[i]);
        after_zeros += !is_same(now, got);
        seen += differs;
        predicted += predicts;
        found += predicts & (now == got) & differs;
      }
      s.after += after, s.after_zeros += after_zeros, s.seen += seen, s.predicted += predicted, s.found += found;
    }
  }
  return s;
}

}  // namespace fp4::golden
