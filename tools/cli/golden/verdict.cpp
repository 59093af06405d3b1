#include "tools/cli/golden/verdict.h"

#include <algorithm>

#include "src/files/tensor_reader.h"
#include "src/golden/variants.h"
#include "src/text/named_rows.h"
#include "tools/cli/options.h"

namespace fp4::tools {
namespace {

// Inputs that the dump carries along must be the bundle's; they count as nothing that the kernel got right.
bool is_equal_input(const golden::CandidateArray& array, const golden::Comparison& c) {
  return array.stage == golden::input_stage && c.mismatches == 0;
}

// The order of a dump whose arrays are right but for it; empty where it is wrong, or where another order was said.
std::string order_of(const VerifyJob& job, const CaseVerdict& r) {
  if (!r.diagnosis.is_order) return "";
  const golden::Cause& order = r.diagnosis.causes[0];
  if (job.dump.says_nibbles && golden::changes_axis(order.changes, "nibble_order")) return "";
  if (job.dump.says_scale_layout && golden::changes_axis(order.changes, "scale_layout")) return "";
  for (size_t i = 0; i < r.arrays.size(); ++i) {  // "codes_high_first" says one, too
    const golden::ArrayName name = golden::parse_array_name(r.arrays[i].golden);
    const bool says =
        name.code_layout != golden::CodeLayout::low_first || name.scale_layout != golden::ScaleLayout::linear;
    if (says && r.comparisons[i].mismatches > 0) return "";
  }
  return order.text();
}

bool is_within(const golden::Tolerance& tolerance, const golden::Bundle& bundle, const CaseVerdict& r) {
  return tolerance.any() &&
         golden::beyond(tolerance, *r.which, golden::load_inputs(bundle, *r.which), r.evidence, r.comparisons) == 0;
}

// What is equal by its hash alone has no evidence.
golden::Comparison comparison(const golden::Bundle& bundle, const golden::Case& c, const golden::CandidateArray& array,
                              golden::ArrayPair& evidence) {
  if (!c.epilogue.is_said() && c.random_words.empty() && golden::is_hash_of(c, array.array)) {
    golden::Comparison equal = {c.name, array.stage, array.golden};
    equal.compared = golden::elements_of(array.array, golden::packed_bits(c, array.golden)).size();
    return equal;
  }
  evidence = golden::evidence_of(bundle, c, array);
  golden::Comparison r = golden::compare(c, array, golden::load_array(bundle, c, array.golden), evidence);
  golden::add_payloads(bundle, c, r);
  return r;
}

std::vector<float> load_term(const std::string& path) {
  if (path.empty()) return {};
  FloatTensor tensor = load_floats(path);
  print_notes(tensor.notes);
  return std::move(tensor.values);
}

golden::CaseEpilogue epilogue_of(const VerifyWords& words) {
  golden::CaseEpilogue e;
  e.how = {words.alpha, words.beta, !words.bias.empty()};
  e.output = named_row("verify --output-type", words.output, golden::real_type_table).id;
  e.activation = named_row("verify --activation", words.activation, golden::activation_table).id;
  if (words.beta != 0 && words.c.empty())
    throw Error("verify: --beta needs --c FILE, the matrix that it is the factor of");
  e.c = load_term(words.c);
  e.bias = load_term(words.bias);
  return e;
}

}  // namespace

void say(const VerifyWords& words, VerifyJob& job, golden::Bundle& bundle) {
  const std::vector<uint32_t> random = load_random_words("verify --random-words", words.random_words);
  const golden::CaseEpilogue epilogue = epilogue_of(words);
  for (golden::Case& c : bundle.cases) {
    c.random_words = random;
    if (c.is_gemm)
      c.epilogue = epilogue;
    else
      c.epilogue.output = epilogue.output;
  }
  job.dump.says_nibbles = !words.nibbles.empty();
  job.dump.says_scale_layout = !words.scale_layout.empty();
  if (job.dump.says_nibbles) job.dump.nibbles = golden::code_layout_of("verify --nibbles", words.nibbles);
  if (job.dump.says_scale_layout)
    job.dump.scale_layout = golden::scale_layout_of("verify --scale-layout", words.scale_layout);
  if (!words.tolerance.empty()) job.tolerance = golden::tolerance_from_words("verify --tolerance", words.tolerance);
}

uint64_t CaseVerdict::mismatches() const {
  uint64_t count = 0;
  for (const golden::Comparison& c : comparisons) count += c.mismatches;
  return count;
}

Verdict judge(const VerifyJob& job, const golden::Bundle& bundle) {
  golden::Dump dump = golden::load_dump(bundle, job.candidate, job.dump);
  Verdict v;
  v.coverage = golden::coverage_of(bundle, dump.arrays);
  v.gaps = golden::gaps(bundle, v.coverage, job.require, job.all_cases);
  v.ignored = std::move(dump.ignored);
  for (size_t i = 0; i < bundle.cases.size(); ++i) {
    CaseVerdict r;
    r.which = &bundle.cases[i];
    for (golden::CandidateArray& array : dump.arrays) {
      if (array.case_index != i) continue;
      r.which->epilogue.check(r.which->name, r.which->rows, r.which->rows_b);
      golden::ArrayPair evidence;
      golden::Comparison c = comparison(bundle, *r.which, array, evidence);
      if (is_equal_input(array, c)) {
        v.ignored.push_back({array.source, "an input, as in the bundle"});
        continue;
      }
      v.compared += c.compared;
      v.unjudged += c.unjudged;
      v.padding += c.padding;
      v.padding_nan += c.padding_nan;
      r.comparisons.push_back(std::move(c));
      r.arrays.push_back(std::move(array));
      r.evidence.push_back(std::move(evidence));
    }
    if (r.arrays.empty()) continue;
    if (r.mismatches() > 0) {
      for (size_t k = 0; k < r.arrays.size(); ++k)
        if (r.evidence[k].array.empty()) r.evidence[k] = golden::evidence_of(bundle, *r.which, r.arrays[k]);
      r.diagnosis = golden::diagnose(bundle, *r.which, r.arrays, r.comparisons, r.evidence, job.backend, job.threads,
                                     job.seconds, job.tried);
      r.order = order_of(job, r);
      r.is_within = r.order.empty() && is_within(job.tolerance, bundle, r);
      if (r.order.empty()) {
        v.mismatches += r.mismatches();
        v.tolerated += r.is_within ? r.mismatches() : 0;
        ++(r.is_within ? v.cases_within : v.wrong_cases);
      } else if (std::find(v.orders.begin(), v.orders.end(), r.order) == v.orders.end()) {
        v.orders.push_back(r.order);
      }
    }
    r.evidence.clear();  // of large arrays: none of it is printed
    v.cases.push_back(std::move(r));
  }
  if (v.padding > 0 && std::find(job.require.begin(), job.require.end(), "padding") != job.require.end())
    v.gaps.push_back("--require padding: " + std::to_string(v.padding) + " elements of padding are not zero");
  return v;
}

}  // namespace fp4::tools
