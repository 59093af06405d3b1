// `fp4sim witness`: the shortest operands on which two models differ.
#include <fmt/format.h>

#include "src/golden/bundle.h"
#include "src/golden/witness.h"
#include "src/text/member_json.h"
#include "src/text/words.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct WitnessOptions {
  golden::WitnessRequest request;
  std::string out;
  bool force = false, json = false;
};

// "6@0 -1.5@32": the elements that are not zero, with their index.
std::string sparse_text(const std::vector<float>& v) {
  std::string text;
  for (size_t i = 0; i < v.size(); ++i)
    if (v[i] != 0.0f) add_word(text, fmt::format("{}@{}", v[i], i), " ");
  return text.empty() ? "zeros" : text;
}

void run_witness(const WitnessOptions& o) {
  const golden::WitnessResult r = golden::find_witnesses(o.request);
  if (!o.out.empty() && !r.cases.empty()) golden::write_bundle("witness", r.cases, o.out, o.force, "auto", 1);
  if (o.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const auto& w : r.witnesses)
      rows.push_back({{"a", w.a}, {"b", w.b}, {o.request.model_a, w.answer_a}, {o.request.model_b, w.answer_b}});
    return print_json(joined_json(
        {FP4_NAMED(o.request.model_a, o.request.model_b, r.length, r.longest, r.tried), {{"witnesses", rows}}}));
  }
  if (r.witnesses.empty())
    return print_sentence("no difference between {} and {} in {} searched operands of up to K = {} ({})",
                          o.request.model_a, o.request.model_b, r.tried, r.longest, o.request.words);
  print_sentence("K = {} is the shortest length at which {} and {} were seen to differ ({} operands searched)",
                 r.length, o.request.model_a, o.request.model_b, r.tried);
  fmt::print("\n");
  Table table = {{r.is_accumulator ? "a" : "x", ">" + o.request.model_a, ">" + o.request.model_b}, {}};
  if (r.is_accumulator) table.columns.insert(table.columns.begin() + 1, Column{"b"});
  for (const auto& w : r.witnesses) {
    std::vector<std::string> row = {sparse_text(w.a)};
    if (r.is_accumulator) row.push_back(sparse_text(w.b));
    row.insert(row.end(), {w.answer_a, w.answer_b});
    table.rows.push_back(row);
  }
  print_table(table);
}

}  // namespace

void command_witness(CLI::App& app, Invocation&) {
  auto o = std::make_shared<WitnessOptions>();
  app.add_option("MODEL_A", o->request.model_a, "Accumulator, preset, or axis word such as rceil")->required();
  app.add_option("MODEL_B", o->request.model_b, "The other one")->required();
  option(app, "--spec SPEC", o->request.words, "Operands (default mxfp4)");
  option(app, "--count N", o->request.count, "Witnesses wanted (default 10)")->check(CLI::Range(1, 1000000));
  option(app, "--longest K", o->request.longest, "K at which the search ends (default 256; policies: 64)")
      ->check(CLI::Range(1, 1000000));
  option(app, "-o,--out DIR", o->out, "Write them as a golden bundle");
  add_force_option(app, o->force);
  add_sync_option(app);
  add_json_option(app, o->json);
  app.callback([o] { run_witness(*o); });
  set_example(app, "fp4sim witness k64_rz fused35_rz --spec nvfp4 --out which_chip");
}

}  // namespace fp4::tools
