// Does some golden of `standard` tell every two words of every axis apart? A kernel that follows one of them then fails
// the golden of the other. Where no golden can, the reason stands here.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/files/sha256.h"
#include "src/golden/suite.h"
#include "src/layout/digit_layout.h"

using namespace fp4;
using namespace fp4::golden;

namespace {

using Words = std::vector<std::string>;

// Words that a golden cannot tell apart, and why.
struct Exception {
  const char* axis;
  const char* first;
  const char* second;
  const char* reason;
};
constexpr Exception exceptions[] = {
    {"tensor_scale", "current", "hold", "one tensor alone: `hold` keeps an amax from one training step to the next"},
    {"element", "bf16", "hif4", "no block scale is common to both: micro-exponents stand below one"},
    {"element", "bf16", "mx6", "likewise"},
    {"element", "bf16", "mx9", "likewise"},
    {"element", "fp16", "hif4", "likewise"},
    {"element", "fp16", "mx6", "likewise"},
    {"element", "fp16", "mx9", "likewise"},
    {"element", "fp32", "hif4", "likewise"},
    {"element", "fp32", "mx6", "likewise"},
    {"element", "fp32", "mx9", "likewise"},
    {"element", "e1m2", "s1p2", "the same numbers by the same codes; s1p2 is the base of micro-exponents"},
    {"random_stream", "philox", "one_rank", "the seeds of standard are those of rank 0: test_diagnosis"},
    {"ragged", "pad", "refuse", "`refuse` is an error, which no array shows"},
    {"accumulator", "b200_16bit", "hopper_16bit", "one rule, measured on both chips"},
    {"accumulator", "b200_16bit_f16_d", "hopper_16bit_f16_d", "one rule, measured on both chips"},
    {"accumulator", "b200_tf32", "hopper_tf32", "one rule, measured on both chips"},
    {"accumulator", "fused25_rz_2026_08", "b200_f8f6f4", "one rule for operands with scales: the model became the row"},
    {"nibbles", "low_first", "uint32", "eight codes in a little-endian word are the same bytes"},
};

bool is_exception(const std::string& axis, const std::string& a, const std::string& b) {
  return std::any_of(std::begin(exceptions), std::end(exceptions), [&](const Exception& e) {
    return axis == e.axis && ((a == e.first && b == e.second) || (a == e.second && b == e.first));
  });
}

// The pairs of words of one axis that no golden has told apart yet.
class Pairs {
 public:
  Pairs(std::string axis, const Words& words) : axis_(std::move(axis)) {
    for (size_t i = 0; i < words.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (!is_exception(axis_, words[i], words[j])) left_.insert({words[j], words[i]});
  }
  bool empty() const { return left_.empty(); }
  // A word that every spec refuses is nobody's.
  void leave_out(const std::string& word) {
    std::erase_if(left_, [&](const auto& p) { return p.first == word || p.second == word; });
  }
  bool wants(const std::string& word) const {
    return std::any_of(left_.begin(), left_.end(), [&](const auto& p) { return p.first == word || p.second == word; });
  }
  // What one golden becomes under each word.
  void take(const std::map<std::string, std::string>& answers) {
    for (auto pair = left_.begin(); pair != left_.end();) {
      const auto a = answers.find(pair->first), b = answers.find(pair->second);
      const bool differ = a != answers.end() && b != answers.end() && a->second != b->second;
      pair = differ ? left_.erase(pair) : std::next(pair);
    }
  }
  void expect_none() const {
    for (const auto& [a, b] : left_) FAIL_CHECK("no golden of standard tells " << axis_ << "=" << a << " from " << b);
  }

 private:
  std::string axis_;
  std::set<std::pair<std::string, std::string>> left_;
};

template <class T>
void hash_in(Sha256& hash, const std::vector<T>& v) {
  hash.update(v.data(), v.size() * sizeof(T));
}

// Everything that a dump of this quantisation can hold.
std::string answer(const QuantizeCall& call) {
  static const Dispatcher dispatcher("auto");
  Quantized q;
  dispatcher.quantize(call, q);
  std::vector<float> y(static_cast<size_t>(q.rows * q.cols));
  dispatcher.dequantize(q, y.data(), 1);
  Sha256 hash;
  hash_in(hash, q.codes);
  hash_in(hash, q.scales);
  hash_in(hash, q.real_scales);
  hash_in(hash, q.tensor_scale);
  hash_in(hash, y);
  return hash.hex();
}

struct Question {
  Case c;
  QuantSpec spec;
  std::vector<float> x;
  QuantizeCall call() const {
    return {.x = view_of(x.data(), c.rows, c.cols), .spec = spec, .hadamard = c.hadamard, .place = c.place};
  }
};

std::vector<Question> questions() {
  std::vector<Question> out;
  for (const Case& c : suite_cases("standard")) {
    if (c.is_gemm) continue;
    const QuantSpec spec = quant_spec_from_words(c.words);
    out.push_back({c, spec, make_input(c.input, spec, c.rows, c.cols, c.place)});
  }
  return out;
}

}  // namespace

TEST_CASE("every two words of a spec differ in some golden of standard", "[quick]") {
  const std::vector<Question> all = questions();
  for (const auto& field : quant_fields()) {
    if (field.words == nullptr) continue;
    const Words words = field.words();
    Pairs pairs(field.name, words);
    std::set<std::string> refused(words.begin(), words.end());
    for (const Question& q : all) {
      if (pairs.empty()) break;
      std::map<std::string, std::string> answers;
      for (const std::string& word : words) {
        if (!pairs.wants(word)) continue;
        QuantizeCall call = q.call();
        set_quant(call.spec, {{field.name, word}}, "test");
        if (call.spec.tensor_scale == TensorScale::given) call.spec.factor = 3.0f;
        if (!invalid_reason(call.spec).empty()) continue;
        answers[word] = answer(call);
        if (call.spec.has_scale()) refused.erase(word);
      }
      pairs.take(answers);
    }
    // Scales are rounded in five of the ways that elements are.
    if (field.name == std::string("scale_rounding"))
      for (const std::string& word : refused) pairs.leave_out(word);
    pairs.expect_none();
  }
}

TEST_CASE("every two words of a Hadamard differ in some golden of standard", "[quick]") {
  const std::vector<Question> all = questions();
  for (const auto& field : hadamard_fields()) {
    if (field.words == nullptr) continue;
    Pairs pairs(field.name, field.words());
    for (const Question& q : all) {
      if (q.c.hadamard.size == 0) continue;
      std::map<std::string, std::string> answers;
      for (const std::string& word : field.words()) {
        QuantizeCall call = q.call();
        set_hadamard(call.hadamard, {{field.name, word}}, "test");
        answers[word] = answer(call);
      }
      pairs.take(answers);
    }
    pairs.expect_none();
  }
}

TEST_CASE("every two adders and product factors differ in some golden of standard", "[quick]") {
  Words adders, factors;
  for (const AccumulatorInfo& row : accumulator_table) adders.emplace_back(row.name);
  for (const auto& row : product_factor_table) factors.emplace_back(row.name);
  Pairs adder_pairs("accumulator", adders), factor_pairs("product_factor", factors);
  // Sums of integers go beyond int32 from 133,000 products on: test_accumulate.
  for (const char* name : {"int32_wrap", "int32_clamp"}) adder_pairs.leave_out(name);
  const Dispatcher dispatcher("auto");
  for (const Case& c : suite_cases("standard")) {
    if (!c.is_gemm || (adder_pairs.empty() && factor_pairs.empty())) continue;
    const QuantSpec spec = quant_spec_from_words(c.words);
    const auto a = make_input(c.input, spec, c.rows, c.cols, c.place);
    const auto b = make_input(c.input, spec, c.rows_b, c.cols, c.place.second_operand());
    Quantized qa, qb;
    dispatcher.quantize({.x = view_of(a.data(), c.rows, c.cols), .spec = spec, .place = c.place}, qa);
    dispatcher.quantize({.x = view_of(b.data(), c.rows_b, c.cols), .spec = spec, .place = c.place.second_operand()},
                        qb);
    const auto product = [&](const GemmOptions& options) {
      std::vector<float> out(static_cast<size_t>(c.rows * c.rows_b));
      dispatcher.gemm(qa, qb, options, out.data(), c.rows_b);
      Sha256 hash;
      hash_in(hash, out);
      return hash.hex();
    };
    std::map<std::string, std::string> of_adders, of_factors;
    for (const std::string& name : c.accumulators)
      if (adder_pairs.wants(name)) of_adders[name] = product({.accumulator = accumulator_from(name, "test")});
    for (const auto& row : product_factor_table)
      if (spec.has_tensor_scale()) of_factors[row.name] = product({.factor = row.id});
    adder_pairs.take(of_adders);
    factor_pairs.take(of_factors);
  }
  adder_pairs.expect_none();
  factor_pairs.expect_none();
}

TEST_CASE("every two orders of codes and scales differ in some golden of standard", "[quick]") {
  Words codes, scales;
  for (const CodeLayoutInfo& row : code_layout_table)
    if (row.bits == 4) codes.emplace_back(row.name);
  for (const ScaleLayoutInfo& row : scale_layout_table) scales.emplace_back(row.name);
  Pairs code_pairs("nibbles", codes), scale_pairs("scale-layout", scales);
  for (const Question& q : questions()) {
    Quantized made;
    Dispatcher("auto").quantize(q.call(), made);
    if (!made.is_packed() || made.scales.empty()) continue;
    const int64_t width = 2 * made.code_row_bytes();
    const auto one_by_one = from_layout(CodeLayout::low_first, made.codes, made.rows, width, "test");
    std::map<std::string, std::string> of_codes, of_scales;
    const auto text = [](const std::vector<uint8_t>& bytes) { return std::string(bytes.begin(), bytes.end()); };
    for (const CodeLayoutInfo& row : code_layout_table)
      if (row.bits == 4) of_codes[row.name] = text(to_layout(row.id, one_by_one, made.rows, width));
    for (const ScaleLayoutInfo& row : scale_layout_table)
      of_scales[row.name] = text(to_layout(row.id, made.scales, made.geometry.scale_rows, made.geometry.scale_cols));
    code_pairs.take(of_codes);
    scale_pairs.take(of_scales);
    if (code_pairs.empty() && scale_pairs.empty()) break;
  }
  code_pairs.expect_none();
  scale_pairs.expect_none();
}

TEST_CASE("boundary goldens with a tensor scale have amaxes of many significands", "[quick]") {
  for (const SuiteInfo& suite : suite_table) {
    std::set<float> significands;
    size_t cases = 0;
    for (const Case& c : suite_cases(suite.name)) {
      const QuantSpec spec = quant_spec_from_words(c.words);
      if (c.is_gemm || c.input != InputKind::boundary || !spec.has_tensor_scale()) continue;
      ++cases;
      float amax = 0;
      for (const float v : make_input(c.input, spec, c.rows, c.cols, c.place)) amax = std::max(amax, std::abs(v));
      int exponent = 0;
      significands.insert(std::frexp(amax, &exponent));
    }
    INFO(suite.name);
    CHECK(significands.size() == cases);
    CHECK(cases > 1);
  }
}
