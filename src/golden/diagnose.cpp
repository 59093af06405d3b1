#include "src/golden/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/golden/fits.h"
#include "src/golden/moved_scales.h"
#include "src/golden/variants.h"

namespace fp4::golden {
namespace {

std::string divergence(const std::vector<Comparison>& comparisons, std::string& stage) {
  for (const Comparison& c : comparisons)
    if (c.stage == input_stage && c.mismatches > 0) {
      stage = input_stage;
      return fmt::format("the dump's {} is not the bundle's: the kernel was given something else", c.golden);
    }
  for (const char* s : stage_names) {
    for (const Comparison& c : comparisons) {
      if (c.stage != s || c.mismatches == 0) continue;
      if (stage.empty()) stage = s;
    }
  }
  for (const Comparison& c : comparisons) {
    if (c.stage != stage || c.mismatches == 0) continue;
    if (stage == "scales" && c.shape_note.empty()) {
      for (const auto& [d, count] : c.distance) {
        if ((d == -1 || d == 1) && count == c.mismatches) {
          return fmt::format("scale one step {} in {:.0f} % of blocks", d < 0 ? "low" : "high",
                             100.0 * static_cast<double>(count) / static_cast<double>(c.compared));
        }
      }
    }
    return fmt::format("first diverging stage: {} ({} of {} elements; {})", stage, c.mismatches, c.compared,
                       c.shape_note.empty() ? c.where : c.shape_note);
  }
  return "";
}

// A kernel under suspicion and how well it explains the dump.
struct Suspect {
  NamedKernel named;
  Score score;
  int parts = 1;
};

std::string joined(const std::string& a, const std::string& b) { return a.empty() ? b : b.empty() ? a : a + "; " + b; }

// Whether `more` begins with an axis that is changed already.
bool shares_axis(const Changes& changes, const Changes& more) { return changes_axis(changes, more.front().axis); }

class Search {
 public:
  Search(const Case& c, const CaseInputs& in, const Simulator& simulator, const std::vector<Evidence>& evidence,
         const std::string& backend, const Tried& tried)
      : c_(c), in_(in), simulator_(simulator), evidence_(evidence), tried_(tried), base_(simulator.base()) {
    before_ = score(simulator, base_, evidence).after;
    sample_ = sample_of(c, in, evidence);
    if (sample_) of_sample_.emplace(sample_->c, sample_->in, backend, 1, sample_->band);
  }

  // Orders of codes and scales alone.
  std::vector<Cause> of_orders() {
    std::vector<Cause> found;
    std::vector<std::pair<double, NamedKernel>> of_codes;
    for (const NamedKernel& n : orders(c_, base_)) {
      const Score s = try_one(n, found);
      if (changes_axis(n.changes, "nibble_order") && dumps("codes") && dumps("scales"))
        of_codes.emplace_back(s.f1(), n);
    }
    // Scales of another order beside the orders of codes that explain most.
    std::stable_sort(of_codes.begin(), of_codes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < std::min<size_t>(of_codes.size(), 2); ++i)
      for (const NamedKernel& scale : orders(c_, of_codes[i].second.kernel))
        try_one(both(of_codes[i].second, scale), found);
    return found;
  }

  // Exact causes that are no orders, fewest first: one change, draws and epilogues, a preset, up to three changes at
  // once.
  std::vector<Cause> explanations(const std::string& backend) {
    std::vector<Cause> found;
    for (const NamedKernel& n : changes(c_, base_)) try_one(n, found);
    if (!found.empty()) return found;
    add_zero_signs(found);
    if (found.empty()) add_draw_causes(c_, in_, evidence_, backend, before_, found);
    if (found.empty()) add_epilogue_causes(c_, simulator_, evidence_, before_, found);
    if (found.empty()) try_presets(found);
    for (int parts = 2; parts <= 3 && found.empty(); ++parts) try_more(parts, found);
    return found;
  }

  // What comes nearest, best first.
  std::vector<Cause> near() const {
    std::vector<Cause> out;
    size_t looked_at = 0;
    for (const Suspect& s : suspects_) {
      if (sample_ && ++looked_at > 2 * width) break;
      const Score whole = sample_ ? score(simulator_, s.named.kernel, evidence_) : s.score;
      if (4 * whole.after > 3 * before_) continue;  // the golden itself leaves all of `before`
      out.push_back({s.named.changes, s.named.detail, before_, whole.after, whole.f1()});
      if (out.size() == 5) break;
    }
    std::stable_sort(out.begin(), out.end(), [](const Cause& a, const Cause& b) { return a.f1 > b.f1; });
    return out;
  }

 private:
  static constexpr size_t width = 6;  // suspects that are looked at again with one more change

  // Whether the dump has arrays of a stage.
  bool dumps(const char* stage) const {
    return std::any_of(evidence_.begin(), evidence_.end(),
                       [&](const Evidence& e) { return parse_array_name(e.array).stage == stage; });
  }

  static NamedKernel both(const NamedKernel& first, const NamedKernel& second) {
    return {first.changes + second.changes, joined(first.detail, second.detail), second.kernel};
  }

  // Of some rows, where they tell that the kernel is not the one.
  Score score_of(const Kernel& k) const {
    if (sample_ && works_by_rows(k)) {
      const Score s = score(*of_sample_, k, sample_->evidence);
      if (!s.explains_but_zeros()) return s;
    }
    return score(simulator_, k, evidence_);
  }

  // Whether a change beside others is worth a look at the whole dump: one of orders or of other blocks leaves few
  // elements in place.
  bool may_add(const Kernel& k) const {
    if (!sample_ || works_by_rows(k)) return true;
    return std::any_of(evidence_.begin(), evidence_.end(), [](const Evidence& e) {
      uint64_t other = 0;
      for (size_t i = 0; i < e.got.size(); ++i) other += e.got[i] != e.expected[i] && e.expected[i] != any_element;
      return e.array != "dequantized" && 5 * other > 2 * e.got.size() && e.got.size() > 1;
    });
  }

  // Keeps the kernel as a cause if it explains all, as a suspect if it explains something.
  Score try_one(const NamedKernel& n, std::vector<Cause>& found, int parts = 1) {
    const Score s = score_of(n.kernel);
    ++kernels_;
    if (tried_) tried_(kernels_);
    if (s.explains()) {
      keep(n, found);
    } else if (s.found > 0) {
      suspects_.push_back({n, s, parts});
      if (s.explains_but_zeros()) but_zeros_.push_back(n);
    }
    return s;
  }

  // As a cause, if it is one still when the reference computes it from its words, as `quantize --spec` would.
  void keep(const NamedKernel& n, std::vector<Cause>& found) {
    Case replay = c_;
    replay.words = replay_words(c_.words, base_.a, n.kernel.a);
    replay.words_b = replay_words(c_.words_b.empty() ? c_.words : c_.words_b, base_.b, n.kernel.b);
    const Simulator anew(replay, in_, "reference", 1);
    Kernel by_words = anew.base();
    by_words.codes_in = n.kernel.codes_in;
    by_words.scales_in = n.kernel.scales_in;
    by_words.other_operand = n.kernel.other_operand;
    const bool is_said = static_cast<const Computation&>(by_words) == static_cast<const Computation&>(n.kernel);
    if (is_said && !score(anew, by_words, evidence_).explains()) return;
    found.push_back({n.changes, n.detail, before_, 0, 1.0, is_said ? replay.words : ""});
  }

  // Kernels that are right but for signs of zeros: with a word of negative_zero, or as a cause without a name.
  void add_zero_signs(std::vector<Cause>& found) {
    std::vector<NamedKernel> right = but_zeros_;
    if (score(simulator_, base_, evidence_).explains_but_zeros()) right.insert(right.begin(), {{}, "", base_});
    for (const NamedKernel& n : right)
      for (const NamedKernel& zero : zero_signs(n.kernel)) try_one(both(n, zero), found, 2);
    for (const NamedKernel& n : right)
      if (found.empty())
        found.push_back({n.changes + Changes{{"zero_sign", "other"}},
                         joined(n.detail, "zeros of the other sign, by no rule that has a name"), before_, 0, 1.0});
    but_zeros_.clear();
  }

  void try_presets(std::vector<Cause>& found) {
    for (NamedKernel preset : presets_like(base_)) {
      std::vector<NamedKernel> all = {preset};
      for (const NamedKernel& zero : zero_signs(preset.kernel)) all.push_back(both(preset, zero));
      for (const NamedKernel& n : all) {
        std::vector<Cause> exact;
        if (!try_one(n, exact, 2).explains()) continue;
        const NamedKernel words = in_words(n, base_, [this](const Kernel& k) { return score_of(k).explains(); });
        const bool is_known =
            std::any_of(found.begin(), found.end(), [&](const Cause& c) { return c.changes == words.changes; });
        if (!is_known) keep(words, found);
        break;
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Cause& a, const Cause& b) { return a.changes.size() < b.changes.size(); });
  }

  // One change more on top of the best suspects.
  void try_more(int parts, std::vector<Cause>& found) {
    sort();
    std::vector<Suspect> best(suspects_.begin(),
                              suspects_.begin() + static_cast<std::ptrdiff_t>(std::min(width, suspects_.size())));
    for (const Suspect& s : best) {
      if (s.parts >= parts) continue;
      for (const NamedKernel& n : changes(c_, s.named.kernel)) {
        if (n.kernel == s.named.kernel || shares_axis(s.named.changes, n.changes) || !may_add(n.kernel)) continue;
        try_one(both(s.named, n), found, parts);
      }
      if (!found.empty()) return;
    }
    add_zero_signs(found);
    sort();
  }

  void sort() {
    std::stable_sort(suspects_.begin(), suspects_.end(),
                     [](const Suspect& a, const Suspect& b) { return a.score.f1() > b.score.f1(); });
  }

  const Case& c_;
  const CaseInputs& in_;
  const Simulator& simulator_;
  const std::vector<Evidence>& evidence_;
  const Tried& tried_;
  Kernel base_;
  size_t kernels_ = 0;
  uint64_t before_ = 0;
  std::optional<Sample> sample_;
  std::optional<Simulator> of_sample_;
  std::vector<Suspect> suspects_;
  std::vector<NamedKernel> but_zeros_;
};

// Codes, decoded values or outputs that no policy can have made: elements are missing, or more than padding adds.
std::string wrong_size(const Case& c, const std::vector<CandidateArray>& arrays,
                       const std::vector<Comparison>& comparisons) {
  constexpr int64_t most_padded = 256;  // the largest Hadamard; blocks are shorter
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArrayName name = parse_array_name(arrays[i].golden);
    if (comparisons[i].shape_note.empty() || (name.stage != "codes" && name.stage != "dequantized" && !c.is_gemm))
      continue;
    if (arrays[i].array.dtype == "f32" && name.stage == "codes") continue;  // codes as values are looked for
    const int64_t rows = name.is_transposed ? c.cols : c.rows, cols = c.is_gemm            ? c.rows_b
                                                                      : name.is_transposed ? c.rows
                                                                                           : c.cols;
    const auto expected = static_cast<int64_t>(comparisons[i].compared);
    const auto got = static_cast<int64_t>(candidate_elements(c, arrays[i], comparisons[i].compared).size());
    const int64_t most = c.is_gemm ? rows * cols : rows * ((cols + most_padded - 1) / most_padded * most_padded);
    if (got >= rows * cols && got <= most && got % rows == 0) continue;
    std::string text = fmt::format("{} has {} elements, {} were expected: ", arrays[i].golden, got, expected);
    const int64_t width = expected / rows;
    if (got < expected && width > 0 && got % width == 0)
      text += fmt::format("{} of {} rows are missing", rows - got / width, rows);
    else
      text += got < expected ? "elements are missing" : "more than padding adds";
    return text + "; no policy changes that, so none was looked for";
  }
  return "";
}

// Whether a cause is an order alone: the arrays are right, and where their elements lie is known.
bool is_order(const Changes& changes) {
  return std::all_of(changes.begin(), changes.end(),
                     [](const Change& c) { return c.axis == "nibble_order" || c.axis == "scale_layout"; });
}

}  // namespace

Array judged_array(const Bundle& bundle, const Case& c, const std::string& name) {
  Array a = load_array(bundle, c, name);
  const std::string stage = parse_array_name(name).stage;
  if (!c.epilogue.is_said() || (stage != "output" && stage != "dequantized")) return a;
  std::vector<float> values;
  for (const uint32_t w : elements_of(a, 0)) values.push_back(float_of(w));
  c.epilogue.apply(values, c.is_gemm ? c.rows_b : c.cols);
  a.bytes = bytes_of(values);
  return a;
}

Diagnosis diagnose(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays,
                   const std::vector<Comparison>& comparisons, const std::string& backend, int threads,
                   const Tried& tried) {
  Diagnosis out;
  const std::string place = divergence(comparisons, out.first_diverging);
  if (out.first_diverging.empty()) return out;
  if (out.first_diverging == input_stage) {
    out.summary = place;
    return out;
  }
  const CaseInputs in = load_inputs(bundle, c);
  const Simulator simulator(c, in, backend, threads);
  std::vector<Array> golden;
  for (const CandidateArray& a : arrays) golden.push_back(judged_array(bundle, c, a.golden));
  const std::vector<Evidence> evidence = gather(c, arrays, golden, simulator);
  Search search(c, in, simulator, evidence, backend, tried);
  out.causes = search.of_orders();
  if (out.causes.empty()) {
    out.summary = wrong_size(c, arrays, comparisons);
    if (!out.summary.empty()) return out;
    std::optional<Cause> moved = moved_scales(c, arrays, golden, comparisons);
    if (moved) out.causes.push_back(std::move(*moved));
  }
  if (out.causes.empty()) out.causes = search.explanations(backend);
  out.explains_all = !out.causes.empty();
  if (out.explains_all) {
    out.is_order = is_order(out.causes[0].changes);
    out.summary = "equals " + out.causes[0].text() + " (" + out.causes[0].detail + ")";
    return out;
  }
  out.causes = search.near();
  out.summary = "no named policy explains this; " + place;
  return out;
}

}  // namespace fp4::golden
