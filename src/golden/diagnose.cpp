#include "src/golden/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <optional>

#include "src/golden/accidents.h"
#include "src/golden/variants.h"

namespace fp4::golden {
namespace {

std::string divergence(const std::vector<Comparison>& comparisons, std::string& stage) {
  auto at = comparisons.end();
  const auto look_for = [&](const char* s) {
    if (at == comparisons.end())
      at = std::find_if(comparisons.begin(), comparisons.end(),
                        [&](const Comparison& c) { return c.stage == s && c.mismatches > 0; });
  };
  look_for(input_stage);
  for (const char* s : stage_names) look_for(s);
  if (at == comparisons.end()) return "";
  stage = at->stage;
  if (stage == input_stage)
    return fmt::format("the dump's {} is not the bundle's: the kernel was given something else", at->golden);
  for (const auto& [d, count] : at->distance)
    if (stage == "scales" && at->shape_note.empty() && (d == -1 || d == 1) && count == at->mismatches)
      return fmt::format("scale one step {} in {} of {} blocks", d < 0 ? "low" : "high", count, at->compared);
  return fmt::format("first diverging stage: {} ({} of {} elements; {})", stage, at->mismatches, at->compared,
                     at->shape_note.empty() ? at->where : at->shape_note);
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

// A part of the case that is looked at first.
struct Part {
  Part(const Case& c, const CaseInputs& in, const std::string& backend, Sample of)
      : sample(std::move(of)),
        simulator(sample.cut == Cut::corner ? Simulator(c, in, backend, sample.corner)
                                            : Simulator(sample.c, sample.in, backend, 1, sample.band)) {}
  Part(const Part&) = delete;  // the simulator looks at the sample
  Part& operator=(const Part&) = delete;

  Sample sample;
  Simulator simulator;
};

class Search {
 public:
  Search(const Case& c, const CaseInputs& in, const Simulator& simulator, const std::vector<ArrayPair>& evidence,
         const std::string& backend, double seconds, const Tried& tried)
      : c_(c),
        in_(in),
        simulator_(simulator),
        evidence_(evidence),
        tried_(tried),
        base_(simulator.base()),
        backend_(backend),
        seconds_(seconds) {
    for (const ArrayPair& e : evidence)
      before_ += e.is_matrix() ? e.differences : std::max({e.got.size(), e.expected.size(), size_t{1}});
    for (Sample& s : windows_of(c, in, evidence)) parts_.emplace_back(c, in, backend, std::move(s));
    if (auto corner = is_made_of_operands() ? corner_of(c, evidence) : std::nullopt)
      parts_.emplace_back(c, in, backend, std::move(*corner));
  }

  // Of outputs and of decoded values alone: operands that were read wrongly, parts and factors that are missing.
  std::vector<Cause> of_accidents() {
    std::vector<Cause> found;
    if (!is_made_of_operands()) return found;
    misreads_[0] = misreads(simulator_.operand(base_, false));
    if (c_.is_gemm) misreads_[1] = misreads(simulator_.operand(base_, true));
    for (const NamedKernel& n : accidents(c_, base_, misreads_[0], misreads_[1])) {
      const size_t known = found.size();
      try_one(n, found);
      if (found.size() > known || parts_.empty() || !c_.is_gemm) continue;
      if (score(parts_.back().simulator, n.kernel, parts_.back().sample.evidence).explains()) try_in_part(n, found);
    }
    return found;
  }

  // What was tried, for people: "312 kernels in 2.1 s".
  std::string tried_text() const {
    return fmt::format("tried {} kernels in {:.1f} s{}: {}", kernels_, elapsed(),
                       is_late() ? ", all the time there is" : "", fmt::join(stages_, ", "));
  }

  // Orders of codes and scales alone.
  std::vector<Cause> of_orders() {
    std::vector<Cause> found;
    std::vector<std::pair<double, NamedKernel>> of_codes;
    const bool tries_codes = may_be_moved("codes"), tries_scales = may_be_moved("scales");
    for (const NamedKernel& n : orders(c_, base_)) {
      if (!(changes_axis(n.changes, "nibble_order") ? tries_codes : tries_scales)) continue;
      const Score s = try_one(n, found);
      if (changes_axis(n.changes, "nibble_order") && dumps("codes") && dumps("scales"))
        of_codes.emplace_back(s.f1(), n);
    }
    if (!found.empty()) return found;
    // Scales of another order beside the orders of codes that explain most.
    std::stable_sort(of_codes.begin(), of_codes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < std::min<size_t>(of_codes.size(), 2); ++i)
      for (const NamedKernel& scale : orders(c_, of_codes[i].second.kernel))
        try_one(both(of_codes[i].second, scale), found);
    return found;
  }

  uint64_t before() const { return before_; }

  // The order under which most of 32 rows is right, if that is a quarter and more than lies right already.
  std::optional<NamedKernel> best_order() const {
    std::optional<NamedKernel> best;
    double most = 0.25;
    for (const NamedKernel& n : orders(c_, base_))
      for (const ArrayPair& e : evidence_) {
        const bool of_codes = e.array == "codes" && n.kernel.codes_in,
                   of_scales = e.array == "scales" && n.kernel.scales_in;
        if (of_codes == of_scales || !e.is_matrix() || 8 * e.differences < e.got.size()) continue;
        const Placement at(of_codes ? row_of(code_layout_table, *n.kernel.codes_in).placing
                                    : row_of(scale_layout_table, *n.kernel.scales_in).placing,
                           e.rows, e.cols);
        if (at.size() != static_cast<int64_t>(e.got.size())) continue;
        int64_t right = 0, plain = 0, all = 0;
        for (int64_t r = 0; r < e.rows; r += std::max<int64_t>(1, e.rows / 32))
          for (int64_t k = 0; k < e.cols; ++k, ++all) {
            const auto here = static_cast<size_t>(r * e.cols + k), there = static_cast<size_t>(at.at(r, k));
            right += e.got[there] == e.expected[here], plain += e.got[here] == e.expected[here];
          }
        const double share = static_cast<double>(right) / static_cast<double>(all);
        if (share > most && right > plain) most = share, best = n;
      }
    return best;
  }

  // Exact causes that are no orders, fewest first: of one factor, epilogues; one change, draws and epilogues, a preset
  // and, unless one alone is asked for, up to three changes at once.
  std::vector<Cause> explanations(bool one_alone) {
    std::vector<Cause> found;
    if (one_alone) add_epilogues(found);
    if (!found.empty()) return found;
    std::vector<NamedKernel> single = changes(c_, base_);
    if (c_.is_gemm)  // those of the same operands first
      std::stable_partition(single.begin(), single.end(), [this](const NamedKernel& n) {
        return canonical(n.kernel.a) == canonical(base_.a) && !n.kernel.output_transposed;
      });
    stages_.emplace_back("one change");
    for (const NamedKernel& n : single) try_one(n, found);
    if (!found.empty()) return found;
    const auto next = [&](const char* stage) {
      if (found.empty() && !is_late()) stages_.emplace_back(stage);
      return found.empty() && !is_late();
    };
    if (next("signs of zeros")) add_zero_signs(found);
    if (next("other draws")) add_draw_causes(c_, in_, evidence_, backend_, before_, found);
    if (next("epilogues") && !one_alone) add_epilogues(found);
    if (next("presets")) try_presets(found);
    // More changes than differences explain nothing.
    if (!one_alone && before_ >= 2 && next("two changes")) try_more(2, found);
    if (!one_alone && before_ >= 3 && next("three")) try_more(3, found);
    return found;
  }

  // What comes nearest, best first.
  std::vector<Cause> near() const {
    std::vector<Cause> out;
    size_t looked_at = 0;
    for (const Suspect& s : suspects_) {
      const bool is_part = s.score.seen < before_;                    // of the differences
      if (is_part && 4 * s.score.after > 3 * s.score.seen) continue;  // no better there than the golden itself
      if (is_part && ++looked_at > (is_large() ? 2 : 2 * width)) break;
      const Score whole = is_part ? score(simulator_, s.named.kernel, evidence_) : s.score;
      if (4 * whole.after > 3 * before_) continue;  // the golden itself leaves all of `before`
      out.push_back({s.named.changes, s.named.detail, before_, whole.after, whole.f1()});
      if (out.size() == 5) break;
    }
    std::stable_sort(out.begin(), out.end(), [](const Cause& a, const Cause& b) { return a.f1 > b.f1; });
    return out;
  }

 private:
  static constexpr size_t width = 6;  // suspects that are looked at again with one more change

  // Outputs, or decoded values alone: what made them is not in the dump.
  bool is_made_of_operands() const {
    return c_.is_gemm || (dumps("dequantized") && !dumps("codes") && !dumps("scales"));
  }

  // Whether the dump has arrays of a stage.
  bool dumps(const char* stage) const {
    return std::any_of(evidence_.begin(), evidence_.end(),
                       [&](const ArrayPair& e) { return parse_array_name(e.array).stage == stage; });
  }

  // Whether arrays of a stage differ as another order makes them: in a large one more than an eighth does.
  bool may_be_moved(const char* stage) const {
    return std::any_of(evidence_.begin(), evidence_.end(), [&](const ArrayPair& e) {
      if (parse_array_name(e.array).stage != stage) return false;
      return !e.is_matrix() || e.got.size() < size_t{1} << 20 || 8 * e.differences > e.got.size();
    });
  }

  static NamedKernel both(const NamedKernel& first, const NamedKernel& second) {
    return {first.changes + second.changes, joined(first.detail, second.detail), second.kernel};
  }

  bool is_large() const { return c_.rows * std::max(c_.cols, c_.rows_b) > int64_t{1} << 22; }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  bool is_late() const { return elapsed() > seconds_; }

  // Of a part of the case, where it tells that the kernel is not the one; else of the whole.
  Score score_of(const Kernel& k) const {
    bool is_told = false;
    for (const Part& p : parts_) {
      Kernel there = k;
      if (!p.sample.tells(there)) continue;
      is_told = true;
      if (const Score s = score(p.simulator, there, p.sample.evidence); !s.explains_but_zeros()) return s;
    }
    if (!is_told && !parts_.empty() && (has_other_scales(k) || has_more_values(k)))
      return {.after = 1, .after_zeros = 1};
    return score(simulator_, k, evidence_);
  }

  // Whether a tensor's decoded values are more than a kernel of one scale has codes.
  bool has_more_values(const Kernel& k) const {
    if (c_.is_gemm || k.a.block.kind != BlockKind::tensor || k.a.tensor_scale_cols(c_.cols) > 0 ||
        !dumps("dequantized"))
      return false;
    for (const ArrayPair& e : evidence_) {
      if (e.stage != "dequantized" || values_ > 0) continue;
      Elements some = e.got.some(0, std::min(e.got.size(), size_t{1} << 18));
      std::sort(some.begin(), some.end());
      values_ = static_cast<size_t>(std::unique(some.begin(), some.end()) - some.begin());
    }
    return values_ > size_t{1} << format_of(k.a.element).code_bits();
  }

  // Whether the dump's scales are not as many as a kernel's in plain order, or not the one that it repeats.
  bool has_other_scales(const Kernel& k) const {
    const bool is_one = k.repeats_scales && k.a.block.kind == BlockKind::tensor;
    if (c_.is_gemm || k.scales_in || (k.repeats_scales && !is_one) || !k.a.has_scale()) return false;
    return std::any_of(evidence_.begin(), evidence_.end(), [&](const ArrayPair& e) {
      if (is_one) return e.stage == "scales" && e.is_matrix() && e.got[0] != e.got[e.got.size() / 2];
      const bool turns = (parse_array_name(e.array).is_transposed != k.other_operand) != k.swap_operand_axis;
      const int64_t cols = hadamard_padded(c_.hadamard, turns ? c_.rows : c_.cols);
      const BlockGeometry g = geometry_of(k.a, turns ? c_.cols : c_.rows, cols);
      return e.stage == "scales" && e.is_matrix() &&
             g.scale_rows * g.scale_cols != static_cast<int64_t>(e.expected.size());
    });
  }

  // Whether a change beside others is worth a look at the whole dump: one of orders or of other blocks leaves few
  // elements in place.
  bool may_add(const Kernel& k) const {
    Kernel same = k;
    if (parts_.empty() ||
        std::any_of(parts_.begin(), parts_.end(), [&](const Part& p) { return p.sample.tells(same); }))
      return true;
    return std::any_of(evidence_.begin(), evidence_.end(), [](const ArrayPair& e) {
      return e.array != "dequantized" && 5 * e.differences > 2 * e.got.size() && e.got.size() > 1;
    });
  }

  // Keeps the kernel as a cause if it explains all, as a suspect if it explains something.
  Score try_one(const NamedKernel& n, std::vector<Cause>& found, int parts = 1) {
    if (is_late() || (n.kernel.repeats_scales && !dumps("scales"))) return {.after = 1};
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

  // As a cause that gives every output that is wrong, where the others are the golden ones.
  void try_in_part(const NamedKernel& n, std::vector<Cause>& found) {
    std::string where;
    for (const ArrayPair& e : evidence_) {
      Elements made = simulator_.elements(n.kernel, e.array);
      round_words(e.type, made);
      for (size_t i = 0; i < e.got.size(); ++i)
        if (e.differs(i) && made[i] != e.got[i]) return;
      where = place_of(e.wrong).text;
    }
    found.push_back({n.changes, "in " + where + ": " + n.detail, before_, 0, 1.0});
  }

  // As a cause, if it is one still when the reference computes it from its words, as `quantize --spec` would.
  void keep(const NamedKernel& n, std::vector<Cause>& found) {
    Case replay = c_;
    replay.words = replay_words(c_.words, base_.a, n.kernel.a);
    replay.words_b = replay_words(c_.words_b.empty() ? c_.words : c_.words_b, base_.b, n.kernel.b);
    Kernel by_words = n.kernel;
    static_cast<Computation&>(by_words) = Simulator::base_of(replay);
    const bool is_said = static_cast<const Computation&>(by_words) == n.kernel;
    const bool is_base = static_cast<const Computation&>(by_words) == base_ && !by_words.other_operand;
    if (is_said && !is_base && !is_confirmed(by_words)) return;
    found.push_back({n.changes, n.detail, before_, 0, 1.0, is_said ? replay.words : ""});
  }

  // By the reference: of a large case in the parts that tell.
  bool is_confirmed(const Kernel& k) const {
    bool is_told = false;
    for (const Part& p : parts_) {
      Kernel there = k;
      if (!p.sample.tells(there)) continue;
      is_told = true;
      const Part anew(c_, in_, "reference", p.sample);
      if (!score(anew.simulator, there, anew.sample.evidence).explains()) return false;
    }
    return (is_told && is_large()) || score(Simulator(c_, in_, "reference", 1), k, evidence_).explains();
  }

  // Kernels that are right but for signs of zeros: with a word of negative_zero, or as a cause without a name.
  void add_zero_signs(std::vector<Cause>& found) {
    std::vector<NamedKernel> right = but_zeros_;
    if (score_of(base_).explains_but_zeros()) right.insert(right.begin(), {{}, "", base_});
    for (const NamedKernel& n : right)
      for (const NamedKernel& zero : zero_signs(n.kernel)) try_one(both(n, zero), found, 2);
    for (const NamedKernel& n : right)
      if (found.empty())
        found.push_back({n.changes + Changes{{"zero_sign", "other"}},
                         joined(n.detail, "zeros of the other sign, by no rule that has a name"), before_, 0, 1.0});
    but_zeros_.clear();
  }

  void add_epilogues(std::vector<Cause>& found) {
    const Part* const corner = parts_.empty() ? nullptr : &parts_.back();
    add_epilogue_causes(c_, simulator_, evidence_, corner != nullptr ? &corner->sample : nullptr,
                        corner != nullptr ? &corner->simulator : nullptr, before_, found);
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

  // One change more on top of the best suspects, but of decoded values those that are read wrongly from memory.
  void try_more(int parts, std::vector<Cause>& found) {
    sort();
    std::vector<Suspect> best(suspects_.begin(),
                              suspects_.begin() + static_cast<std::ptrdiff_t>(std::min(width, suspects_.size())));
    for (const Suspect& s : best) {
      if (s.parts >= parts || (!c_.is_gemm && s.named.kernel.misread[0] != nullptr)) continue;
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
  const std::vector<ArrayPair>& evidence_;
  const Tried& tried_;
  Kernel base_;
  std::string backend_;
  double seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::array<std::vector<Misread>, 2> misreads_;
  std::vector<std::string> stages_ = {"orders"};
  size_t kernels_ = 0;
  uint64_t before_ = 0;
  std::list<Part> parts_;
  mutable size_t values_ = 0;  // different decoded ones of the dump's first 2^18
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
    const auto got = static_cast<int64_t>(candidate_words(c, arrays[i], comparisons[i].compared).size());
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

// Accidents in a dump of another order, which is read in that order.
std::optional<Cause> accident_in(const NamedKernel& order, const Bundle& bundle, const Case& c, const CaseInputs& in,
                                 std::vector<CandidateArray> arrays) {
  std::vector<ArrayPair> evidence;
  for (CandidateArray& a : arrays) {
    const ArrayName name = parse_array_name(a.golden);
    const Kernel& k = order.kernel;
    if (name.stage == "codes" && k.codes_in && name.code_layout == CodeLayout::low_first)
      a.golden.insert(5, std::string("_") + row_of(code_layout_table, *k.codes_in).name);
    if (name.stage == "scales" && k.scales_in && name.scale_layout == ScaleLayout::linear)
      a.golden.insert(6, std::string("_") + row_of(scale_layout_table, *k.scales_in).name);
    if (!find_array(c, a.golden)) return std::nullopt;
    evidence.push_back(evidence_of(bundle, c, a));
  }
  std::optional<Cause> found = array_accident(c, in, evidence);
  if (!found || found->changes.empty()) return std::nullopt;
  found->changes = order.changes + found->changes;
  found->detail = joined(order.detail, found->detail);
  return found;
}

// Whether a cause is an order alone: the arrays are right, and where their elements lie is known.
bool is_order(const Changes& changes) {
  return std::all_of(changes.begin(), changes.end(),
                     [](const Change& c) { return c.axis == "nibble_order" || c.axis == "scale_layout"; });
}

}  // namespace

Diagnosis diagnose(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays,
                   const std::vector<Comparison>& comparisons, const std::vector<ArrayPair>& evidence,
                   const std::string& backend, int threads, double seconds, const Tried& tried) {
  Diagnosis out;
  const std::string place = divergence(comparisons, out.first_diverging);
  if (out.first_diverging.empty()) return out;
  if (out.first_diverging == input_stage) {
    out.summary = place;
    return out;
  }
  const CaseInputs& in = load_inputs(bundle, c);
  const Simulator simulator(c, in, backend, threads);
  Search search(c, in, simulator, evidence, backend, seconds, tried);
  out.causes = search.of_orders();
  std::string ratio;
  if (out.causes.empty()) {
    out.summary = wrong_size(c, arrays, comparisons);
    if (!out.summary.empty()) return out;
    const bool is_whole =
        std::all_of(evidence.begin(), evidence.end(), [](const ArrayPair& e) { return e.is_matrix(); });
    if (const auto factor = is_whole ? factor_accident(c, evidence, simulator) : std::nullopt) ratio = factor->detail;
    if (const auto found = is_whole && ratio.empty() ? array_accident(c, in, evidence) : std::nullopt)
      out.causes = {*found};
    if (out.causes.empty() && ratio.empty()) out.causes = search.of_accidents();
    const auto order = out.causes.empty() && is_whole && !c.is_gemm ? search.best_order() : std::nullopt;
    if (auto found = order ? accident_in(*order, bundle, c, in, arrays) : std::nullopt) {
      found->before = search.before();
      out.causes = {std::move(*found)};
    }
  }
  if (out.causes.empty()) out.causes = search.explanations(!ratio.empty());
  out.explains_all = !out.causes.empty();
  if (out.explains_all) {
    out.is_order = is_order(out.causes[0].changes);
    out.summary =
        "equals " + out.causes[0].text() + " (" + out.causes[0].detail + ")" + (ratio.empty() ? "" : "; " + ratio);
    return out;
  }
  out.causes = search.near();
  out.tried = search.tried_text();
  const auto byte = shared_scale_byte(c, evidence, simulator);
  out.summary = ratio.empty() ? "no named policy explains this; " : ratio + "; ";
  if (byte)
    out.summary += fmt::format("all {} blocks that differ have the scale byte {:02x}, which {} right ones have{}; ",
                               byte->wrong, byte->byte, byte->right, byte->came_as_zeros ? "; they came as zeros" : "");
  out.summary += place;
  return out;
}

}  // namespace fp4::golden
