// `fp4sim verify`: is a kernel's dump right, and if not, what does it do instead?
#include <fmt/core.h>

#include <chrono>
#include <filesystem>

#include "src/files/large_pages.h"
#include "src/text/error.h"
#include "tools/cli/golden/own_case.h"
#include "tools/cli/golden/verify_print.h"
#include "tools/cli/options.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct VerifyOptions {
  VerifyJob job;
  bool json = false;
  BackendOptions backend;
  InputOptions input;
  VerifyWords words;
  OwnCase own;
  std::string probe;
};

// The bundle on disk, or one of the user's own case, which is nowhere.
golden::Bundle bundle_of(VerifyOptions& o) {
  if (!o.own.is_said() && o.own.input.empty()) {
    if (o.job.golden.empty())
      throw Error("verify: say --golden DIR, or --spec SPEC --input FILE for a case of your own");
    return golden::open_bundle(o.job.golden);
  }
  if (!o.job.golden.empty()) throw Error("verify: --golden DIR has its own inputs; leave out --spec and --input");
  if (!o.own.is_said() || o.own.input.empty())
    throw Error("verify: a case of your own needs both --spec SPEC and --input FILE");
  if (!o.own.input_b.empty()) o.own.accumulators = {o.job.dump.accumulator};
  return golden::made_bundle(own_case("verify", o.own), o.backend.backend, o.backend.thread_count());
}

void run_verify(const CLI::App& app, VerifyOptions& o, Invocation& invocation) {
  if (!o.probe.empty()) {
    for (const CLI::Option* given : app.parse_order())
      if (given->get_name() != "--probe" && given->get_name() != "--json")
        throw Error(given->get_name() + ": --probe takes no other option but --json");
    if (!print_probe(golden::read_probe(o.probe), o.json)) invocation.exit_code = 1;
    return;
  }
  if (o.job.candidate.empty()) throw Error("verify: --candidate PATH is required, or --probe FILE alone");
  // --dtype and --shape are an --input's without a header; else the dump's, whose sizes say what they are where they
  // fit.
  const std::string ending = std::filesystem::path(o.own.input).extension().string();
  const bool is_raw = !ending.starts_with(".npy") && !ending.starts_with(".npz") && !ending.starts_with(".safetensors");
  (!o.own.input.empty() && is_raw ? o.own.open : o.job.dump.open) = o.input.open_options();
  keep_freed_memory();
  golden::Bundle bundle = bundle_of(o);
  say(o.words, o.job, bundle);
  o.job.backend = o.backend.backend;
  o.job.threads = o.backend.thread_count();
  // A search is quick where a cause has a name; a minute of a large dump without one should not look like a hang.
  const auto begin = std::chrono::steady_clock::now();
  double next = 10;
  if (!o.json)
    o.job.tried = [&](size_t kernels) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (seconds < next) return;
      next = seconds + 5;
      say("fp4sim: looking for a cause: {} kernels recomputed in {:.0f} s\n", kernels, seconds);
    };
  const Verdict verdict = judge(o.job, bundle);
  if (verdict.is_refused()) invocation.exit_code = 1;
  if (o.json)
    print_json(verdict_json(verdict));
  else
    fmt::print("{}", verdict_text(verdict));
}

}  // namespace

void command_verify(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<VerifyOptions>();
  option(app, "--golden DIR", o->job.golden, "A bundle of `fp4sim golden make`");
  add_own_case_options(app, o->own);
  option(app, "--input FILE", o->own.input,
         "What the kernel was given, a file [M, K]: judged without a bundle, under --spec");
  option(app, "--candidate PATH", o->job.candidate, "The kernel's dump: folder, .npy, .npz, .safetensors or raw .bin");
  option(app, "--probe FILE", o->probe, "Instead of both: words of a matrix unit, as tools/probe prints them");
  option(app, "--stage NAME", o->job.dump.stages, "Judge only these: scales tensor_scale codes dequantized output");
  option(app, "--case NAME", o->job.dump.case_name, "The case that the candidate is of, where its name does not say");
  option(app, "--accumulator NAME", o->job.dump.accumulator,
         "Golden output for an array named `output` (default fp32_block)");
  option(app, "--nibbles NIBBLES", o->words.nibbles,
         "Order of arrays called codes: `fp4sim list layouts`; without it a known order is found");
  option(app, "--scale-layout LAYOUT", o->words.scale_layout, "Order of arrays called scales");
  option(app, "--ignore NAME", o->job.dump.ignore, "File, array or folder of the dump that is none of the bundle's");
  option(app, "--require STAGE", o->job.require, "Fail where the dump lacks this stage of a judged case: all, or names")
      ->delimiter(',');
  app.add_flag("--all-cases", o->job.all_cases, "Fail unless every case of the bundle is in the dump");
  option(app, "--tolerance WORD=N", o->words.tolerance,
         "reciprocal_ulp=1: codes of a kernel whose 1/x errs by an ulp are no failure, but not equal");
  option(app, "--seconds S", o->job.seconds,
         "That the search for a policy may take in each case; accidents are looked for first (default 20)");
  add_random_words_option(app, "--random-words", o->words.random_words, "of quantisations, as the kernel took them,");
  option(app, "--alpha X", o->words.alpha, "Factor of the product in the outputs (default 1)");
  option(app, "--beta X", o->words.beta, "Factor of --c, which the outputs add (default 0)");
  option(app, "--c FILE", o->words.c, "Matrix [M, N] that the kernel added; without --beta its factor is looked for");
  option(app, "--bias FILE", o->words.bias, "Numbers [N] that the outputs add, one a column");
  option(app, "--activation NAME", o->words.activation, "After that sum: relu, gelu, gelu_tanh or silu (default none)");
  option(app, "--output-type fp32|bf16|fp16", o->words.output,
         "What outputs and decoded values were rounded to: fp32 (default), bf16 or fp16; a dump in bf16 or fp16 says "
         "so itself");
  add_input_options(app, o->input);
  add_backend_options(app, o->backend);
  add_json_option(app, o->json);
  app.callback([o, &app, &invocation] { run_verify(app, *o, invocation); });
  set_example(app,
              "fp4sim verify --golden golden --candidate my_kernel_dump\n"
              "  fp4sim verify --golden golden --candidate my_kernel_dump --require all --all-cases\n"
              "  fp4sim verify --input x.npy --spec vllm_nvfp4 --candidate my_kernel_dump\n"
              "  fp4sim verify --probe words.txt");
}

}  // namespace fp4::tools
