#include "src/golden/witness.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/backends/backends.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"

namespace fp4::golden {
namespace {

constexpr RandomPlace search_place = {0xF4517E55, 0, 0};

// Values that make accumulators differ: few per block, one exponent a block, spread so that low bits fall off
// somewhere.
float search_value(uint64_t i, int64_t k, int spread) {
  const uint32_t w = random_draw(search_place, i, 32);
  const auto block = static_cast<uint64_t>(k) / 16;
  const uint32_t e = random_draw({search_place.seed, 1, static_cast<uint32_t>(i >> 20)}, i / 16 + block, 32);
  if (w % 4 == 0) return 0.0f;
  constexpr float grid[] = {0.5f, 1, 1.5f, 2, 3, 4, 6, 6};
  const float v = grid[w >> 8 & 7] * power_of_two(static_cast<int>(e % static_cast<uint32_t>(2 * spread + 1)) - spread);
  return (w & 16) != 0 ? -v : v;
}

// Of operands [side, k].
std::vector<float> products(const QuantSpec& s, const Accumulator& row, const float* a, const float* b, int64_t k,
                            int64_t side) {
  Quantized qa, qb;
  const RandomPlace place = {};
  reference_backend().quantize({.x = view_of(a, side, k), .spec = s, .place = place}, qa);
  reference_backend().quantize({.x = view_of(b, side, k), .spec = s, .place = place.second_operand()}, qb);
  std::vector<float> c(static_cast<size_t>(side * side));
  reference_backend().gemm(qa, qb, {row, 1.0f, 1}, c.data(), side);
  return c;
}

float one_product(const QuantSpec& s, const Accumulator& row, const float* a, const float* b, int64_t k) {
  return products(s, row, a, b, k, 1)[0];
}

// Sets elements to zero, and leaves out the last, while the two models still differ: what remains is what matters.
void simplify(Witness& w, const QuantSpec& s, const Accumulator& ma, const Accumulator& mb) {
  const auto differ = [&] {
    const auto k = static_cast<int64_t>(w.a.size());
    return bits_of(one_product(s, ma, w.a.data(), w.b.data(), k)) !=
           bits_of(one_product(s, mb, w.a.data(), w.b.data(), k));
  };
  for (std::vector<float>* v : {&w.a, &w.b}) {
    for (float& x : *v) {
      const float saved = x;
      if (saved == 0.0f) continue;
      x = 0.0f;
      if (!differ()) x = saved;
    }
  }
  while (w.a.size() > 1 && (w.a.back() == 0.0f || w.b.back() == 0.0f)) {
    const Witness longer = w;
    w.a.pop_back(), w.b.pop_back();
    if (!differ()) {
      w = longer;
      return;
    }
  }
}

void search_accumulators(const WitnessRequest& r, const Accumulator& ma, const Accumulator& mb, WitnessResult& out) {
  const QuantSpec s = quant_spec_from_words(r.words, "witness --spec");
  for (const Accumulator& row : {ma, mb})
    if (const std::string reason = invalid_reason(row, s, s); !reason.empty()) throw Error("witness: " + reason);
  constexpr int64_t side = 16;  // 16 x 16 dot products a batch
  uint64_t next = 0;
  for (int64_t k = 1; k <= r.longest && out.witnesses.empty();
       k = k < 16 ? k + 1 : (k % 16 == 0 ? k + 1 : (k + 15) / 16 * 16)) {
    out.longest = k;
    for (int64_t batch = 0; batch * side * side < r.tries; ++batch) {
      const int spread = 2 + 6 * static_cast<int>(batch % 6);
      std::vector<float> a, b;
      for (std::vector<float>* v : {&a, &b}) {
        for (int64_t i = 0; i < side * k; ++i) v->push_back(search_value(next++, i % k, spread));
      }
      const std::vector<float> by_a = products(s, ma, a.data(), b.data(), k, side),
                               by_b = products(s, mb, a.data(), b.data(), k, side);
      out.tried += side * side;
      for (int64_t i = 0; i < side * side; ++i) {
        const auto at = static_cast<size_t>(i);
        if (bits_of(by_a[at]) == bits_of(by_b[at]) || static_cast<int>(out.witnesses.size()) >= r.count) continue;
        const float* row_a = a.data() + i / side * k;
        const float* row_b = b.data() + i % side * k;
        Witness w = {{row_a, row_a + k}, {row_b, row_b + k}, "", ""};
        const float alone_a = one_product(s, ma, row_a, row_b, k);  // tensor scales of one row may hide the difference
        const float alone_b = one_product(s, mb, row_a, row_b, k);
        if (bits_of(alone_a) == bits_of(alone_b)) continue;
        simplify(w, s, ma, mb);
        const auto length = static_cast<int64_t>(w.a.size());
        w.answer_a = fmt::format("{}", one_product(s, ma, w.a.data(), w.b.data(), length));
        w.answer_b = fmt::format("{}", one_product(s, mb, w.a.data(), w.b.data(), length));
        out.length = out.witnesses.empty() ? length : std::min(out.length, length);
        out.witnesses.push_back(w);
      }
    }
  }
}

std::string answer(const Quantized& q) {
  std::string text = "scale ";
  for (const uint8_t s : q.scales) text += fmt::format("{:02x} ", s);
  text += "codes";
  for (int64_t k = 0; k < q.cols; ++k) text += fmt::format(" {:x}", q.code(0, k));
  return text;
}

void search_policies(const WitnessRequest& r, const QuantSpec& sa, const QuantSpec& sb, WitnessResult& out) {
  for (int64_t k = 1; k <= std::min<int64_t>(r.longest, 64) && out.witnesses.empty(); ++k) {
    out.longest = k;
    for (int i = 0; i < r.tries && static_cast<int>(out.witnesses.size()) < r.count; ++i) {
      const RandomPlace place = {search_place.seed, static_cast<uint32_t>(i) * 128, static_cast<uint32_t>(k)};
      const InputKind kind = i % 8 == 7 ? InputKind::special : InputKind::boundary;
      const std::vector<float> x = make_input(kind, i % 2 == 0 ? sa : sb, 1, k, place);
      Quantized a, b;
      reference_backend().quantize({.x = view_of(x.data(), 1, k), .spec = sa}, a);
      reference_backend().quantize({.x = view_of(x.data(), 1, k), .spec = sb}, b);
      ++out.tried;
      if (a.codes == b.codes && a.scales == b.scales) continue;
      out.witnesses.push_back({x, {}, answer(a), answer(b)});
      out.length = k;
    }
  }
}

// The axis that has a word, "" for none. "stochastic" is the rounding of elements before that of scales: a word on its
// own means the rounding or the scale rule where it may.
std::string axis_of(const std::string& word) {
  std::vector<std::string> axes;
  for (const auto& field : quant_fields())
    if (field.words != nullptr && contains(field.words(), word)) axes.emplace_back(field.name);
  for (const char* first : {"rounding", "scale_rule"})
    if (contains(axes, first)) return first;
  return axes.empty() ? "" : axes.front();
}

// A model as a spec: "rceil" = "mxfp4,scale_rule=rceil"; "" where it is none.
std::string as_policy(const std::string& word, const std::string& base) {
  if (find_preset(word.substr(0, word.find(','))) != nullptr || word.find(".json") != std::string::npos) return word;
  if (word.find('=') != std::string::npos) return base + "," + word;
  const std::string axis = axis_of(word);
  return axis.empty() ? "" : base + "," + axis + "=" + word;
}

// A .json file may hold either kind of model.
bool names_accumulator(const std::string& word) {
  return find_row(accumulator_table, word) != nullptr || word.ends_with(".json");
}

// Error where a word is no model, or where the two are not of one kind.
void check_models(const WitnessRequest& r) {
  std::vector<std::string> accepted;
  for (const auto& more :
       {names_of(accumulator_table), names_of(preset_table), names_of(scale_rule_table), names_of(rounding_table)})
    accepted.insert(accepted.end(), more.begin(), more.end());
  for (const std::string& model : {r.model_a, r.model_b})
    if (!names_accumulator(model) && as_policy(model, r.words).empty()) throw unknown_word("witness", model, accepted);
  if (names_accumulator(r.model_a) && names_accumulator(r.model_b)) return;
  for (const auto& [model, other] : {std::pair{r.model_a, r.model_b}, std::pair{r.model_b, r.model_a}})
    if (as_policy(model, r.words).empty())
      throw Error(
          fmt::format("witness: '{}' is an accumulator and '{}' a policy; name two models of one kind", model, other));
}

}  // namespace

WitnessResult find_witnesses(const WitnessRequest& r) {
  WitnessResult out;
  check_models(r);
  out.is_accumulator = names_accumulator(r.model_a) && names_accumulator(r.model_b);
  std::string words_a = r.words;
  if (out.is_accumulator) {
    search_accumulators(r, accumulator_from_words(r.model_a, "witness"), accumulator_from_words(r.model_b, "witness"),
                        out);
  } else {
    words_a = as_policy(r.model_a, r.words);
    search_policies(r, quant_spec_from_words(words_a, "witness"),
                    quant_spec_from_words(as_policy(r.model_b, r.words), "witness"), out);
  }
  for (size_t i = 0; i < out.witnesses.size(); ++i) {
    Case c;
    c.name = fmt::format("witness_{}", i + 1);
    c.is_gemm = out.is_accumulator;
    c.words = c.words_b = words_a;
    c.rows = 1;
    c.rows_b = out.is_accumulator ? 1 : 0;
    c.cols = out.length;
    c.given_a = out.witnesses[i].a;
    c.given_b = out.witnesses[i].b;
    if (out.is_accumulator)
      for (const std::string& m : {r.model_a, r.model_b})
        if (find_row(accumulator_table, m) != nullptr) c.accumulators.push_back(m);
    out.cases.push_back(c);
  }
  return out;
}

}  // namespace fp4::golden
