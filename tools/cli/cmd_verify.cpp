// `fp4sim verify`: is a kernel's dump right, and if not, what does it do instead?
#include "src/error.h"
#include "tools/cli/options.h"
#include "tools/cli/verify_print.h"

namespace fp4::tools {
namespace {

struct VerifyOptions {
  std::string golden, candidate;
  golden::CandidateOptions dump;
  std::vector<std::string> require;
  bool all_cases = false, json = false;
  BackendOptions backend;
  InputOptions input;
};

// Inputs that the dump carries along must be the bundle's; they count as nothing that the kernel got right.
bool is_equal_input(const golden::CandidateArray& array, const golden::Comparison& c) {
  return array.stage == golden::input_stage && c.mismatches == 0;
}

Verdict judge(const VerifyOptions& o, const golden::Bundle& bundle) {
  golden::CandidateOptions options = o.dump;
  options.open = o.input.open_options();
  golden::Dump dump = golden::load_dump(bundle, o.candidate, options);
  Verdict v;
  v.coverage = golden::coverage_of(bundle, dump.arrays);
  v.gaps = golden::gaps(bundle, v.coverage, o.require, o.all_cases);
  v.ignored = std::move(dump.ignored);
  for (size_t i = 0; i < bundle.cases.size(); ++i) {
    CaseVerdict r;
    r.which = &bundle.cases[i];
    for (golden::CandidateArray& array : dump.arrays) {
      if (array.case_index != i) continue;
      golden::Comparison c = golden::compare(*r.which, array, golden::load_array(bundle, *r.which, array.golden));
      if (is_equal_input(array, c)) {
        v.ignored.push_back({array.source, "an input, as in the bundle"});
        continue;
      }
      v.compared += c.compared;
      r.comparisons.push_back(std::move(c));
      r.arrays.push_back(std::move(array));
    }
    if (r.arrays.empty()) continue;
    if (r.mismatches() > 0) {
      v.mismatches += r.mismatches();
      ++v.wrong_cases;
      r.diagnosis =
          golden::diagnose(bundle, *r.which, r.arrays, r.comparisons, o.backend.backend, o.backend.thread_count());
    }
    v.cases.push_back(std::move(r));
  }
  return v;
}

void run_verify(const VerifyOptions& o, Invocation& invocation) {
  const golden::Bundle bundle = golden::open_bundle(o.golden);
  const Verdict verdict = judge(o, bundle);
  if (verdict.mismatches > 0 || !verdict.gaps.empty()) invocation.exit_code = 1;
  if (o.json)
    print_verdict_json(verdict);
  else
    print_verdict(verdict);
}

void add_verify(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<VerifyOptions>();
  app.add_option("--golden", o->golden, "A bundle of `fp4sim golden make`")->required()->type_name("DIR");
  app.add_option("--candidate", o->candidate, "The kernel's dump: folder, .npy, .npz, .safetensors or raw .bin")
      ->required()
      ->type_name("PATH");
  app.add_option("--stage", o->dump.stages, "Judge only these: scales tensor_scale codes dequantized output")
      ->type_name("NAME");
  app.add_option("--case", o->dump.case_name, "The case that the candidate is of, where its name does not say")
      ->type_name("NAME");
  app.add_option("--accumulator", o->dump.accumulator, "Golden output for an array named `output` (default fp32_block)")
      ->type_name("NAME");
  app.add_option("--ignore", o->dump.ignore, "File, array or folder of the dump that is none of the bundle's")
      ->type_name("NAME");
  app.add_option("--require", o->require, "Fail where the dump lacks this stage of a judged case: all, or names")
      ->delimiter(',')
      ->type_name("STAGE");
  app.add_flag("--all-cases", o->all_cases, "Fail unless every case of the bundle is in the dump");
  add_input_options(app, o->input);
  add_backend_options(app, o->backend);
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_verify(*o, invocation); });
  set_example(app,
              "fp4sim verify --golden golden --candidate my_kernel_dump\n"
              "  fp4sim verify --golden golden --candidate my_kernel_dump --require all --all-cases");
}

}  // namespace

Command command_verify() { return {"verify", "Judge a kernel's dump and name what it does instead", add_verify}; }

}  // namespace fp4::tools
