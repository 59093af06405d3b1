// `fp4sim cost new-chip`: the file of a chip of one's own from a few figures, with what was derived and from what.
#include <fmt/format.h>

#include <algorithm>

#include "src/arith/spec_text.h"
#include "src/files/output.h"
#include "src/text/error.h"
#include "sweeps/cost/new_chip.h"
#include "tools/cli/cost/cost_commands.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct NewChipArguments {
  cost::ChipFacts facts;
  std::vector<std::string> rates;
  double issue = 0, board_w = 0, price = 0;
  std::string out;
  bool force = false;
};

void run_new_chip(NewChipArguments o) {
  for (const std::string& word : o.rates) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw Error("--rate '" + word + "': expected FORMAT=FLOP/s, such as bf16=1e14");
    const std::string format = word.substr(0, equals);
    const std::vector<std::string>& known = cost::format_classes();
    if (std::find(known.begin(), known.end(), format) == known.end()) throw unknown_word("--rate", format, known);
    o.facts.rates[format] = number_from_text(word.substr(equals + 1), "--rate " + format);
  }
  if (o.issue > 0) o.facts.issue_per_s = o.issue;
  if (o.board_w > 0) o.facts.board_w = o.board_w;
  if (o.price > 0) o.facts.price_per_hour = o.price;
  const std::string file = o.out.empty() ? o.facts.name + ".json" : o.out;
  const cost::Json json = cost::to_json(cost::new_chip(o.facts));
  write_file(file, json.dump(1) + "\n", o.force);
  fmt::print("{}\n\n", file);
  Table table{{"figure", ">value", "kind", "source"}, {}};
  const auto add = [&](const std::string& name, const cost::Json& quantity) {
    if (!quantity.is_object() || !quantity.contains("kind")) return;
    const cost::Json& value = quantity["value"];
    table.rows.push_back({name, value.is_number() ? format_number(value.get<double>()) : value.dump(), quantity["kind"],
                          quantity["source"]});
  };
  for (const char* group : {"rates", "block_scales", "elements"})
    if (json.contains(group))
      for (const auto& [key, quantity] : json.at(group).items()) add(std::string(group) + "." + key, quantity);
  for (const auto& [key, quantity] : json.items()) add(key, quantity);
  print_table(table);
}

}  // namespace

void add_cost_new_chip(CLI::App& app, Invocation&) {
  static NewChipArguments o;
  CLI::App* chip = app.add_subcommand("new-chip", "Write the file of a chip of one's own from a few figures");
  chip->add_option("name", o.facts.name, "The chip's word")->type_name("NAME")->required();
  chip->add_option("--rate", o.rates, "Dense FLOP/s of products by format, bf16 at least: bf16=1e14,fp4=4e14")
      ->type_name("FORMAT=FLOP/s,..")
      ->delimiter(',')
      ->required();
  chip->add_option("--memory-bandwidth", o.facts.memory_bandwidth, "Bytes/s")->check(above_zero())->required();
  chip->add_option("--memory-bytes", o.facts.memory_bytes, "Bytes")->check(above_zero())->required();
  chip->add_option("--scales", o.facts.block_scales,
                   "Block scales that FP4 products take, SCALE/BLOCK: e8m0/32,ue4m3/16 (default: e8m0/32)")
      ->type_name("SCALE/BLOCK,..")
      ->delimiter(',');
  chip->add_option("--elements", o.facts.elements,
                   "Elements of FP4 products, by name, own lists of values too: e2m1,nf4 (default: e2m1)")
      ->type_name("ELEMENT,..")
      ->delimiter(',');
  chip->add_option("--issue", o.issue, "Vector instruction slots a second (default: half of the FP32 rate)")
      ->check(above_zero());
  chip->add_flag("--hardware-random", o.facts.hardware_random, "Conversions draw their own random bits");
  chip->add_option("--board", o.board_w, "W of the board at its limit")->check(above_zero());
  chip->add_option("--price", o.price, "US dollars an hour")->check(above_zero());
  chip->add_option("-o,--out", o.out, "File to write (default: NAME.json)")->type_name("FILE");
  add_force_option(*chip, o.force);
  chip->callback([] { run_new_chip(o); });
  set_example(*chip,
              "fp4sim cost new-chip mine --rate bf16=1e14,fp4=4e14 --memory-bandwidth 1.2e12 --memory-bytes 64e9");
}

}  // namespace fp4::tools
