// `fp4sim cost new-chip` and `new-model`: the file of a chip of one's own from a few figures, with what was derived and
// from what, and that of a model from its config.json.
#include <fmt/format.h>

#include <map>

#include "src/files/output.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "sweeps/cost/hardware.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct NewChipArguments {
  cost::ChipFacts facts;
  std::vector<std::string> rates;                // FORMAT=RATE
  std::map<std::string, std::string> by_format;  // --bf16 RATE
  std::string bandwidth, bytes, issue, board, link, network;
  double price = 0, node = 0;
  std::string out;
  bool force = false;
};

// The least that an accelerator has of each.
constexpr double least_rate = 1e11, least_memory_rate = 1e10, least_bytes = 1e8, least_wire = 1e8, least_watts = 1;

void run_new_chip(NewChipArguments o) {
  for (const std::string& word : o.rates) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw Error("--rate '" + word + "': expected FORMAT=RATE, such as bf16=2250TFLOP/s");
    const std::string format = word.substr(0, equals);
    accepted_index("--rate", format, cost::format_classes());
    if (!o.by_format[format].empty()) throw Error("--rate '" + word + "': the rate of " + format + " is said twice");
    o.by_format[format] = word.substr(equals + 1);
  }
  for (const auto& [format, text] : o.by_format)
    if (!text.empty()) o.facts.rates[format] = with_unit(text, "--" + format, "FLOP/s", least_rate);
  o.facts.memory_bandwidth = with_unit(o.bandwidth, "--memory-bandwidth", "B/s", least_memory_rate);
  o.facts.memory_bytes = with_unit(o.bytes, "--memory-bytes", "B", least_bytes);
  const auto set = [](std::optional<double>& figure, const std::string& text, const char* option, const char* unit,
                      double least) {
    if (!text.empty()) figure = with_unit(text, option, unit, least);
  };
  set(o.facts.issue_per_s, o.issue, "--issue", "/s", least_rate);
  set(o.facts.board_w, o.board, "--board", "W", least_watts);
  set(o.facts.link_bandwidth, o.link, "--link", "B/s", least_wire);
  set(o.facts.network_bandwidth, o.network, "--network", "B/s", least_wire);
  if (o.price > 0) o.facts.price_per_hour = o.price;
  if (o.node > 0) o.facts.node_size = o.node;
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

struct NewModelArguments {
  std::string name, config, out;
  int64_t sequence = 0, micro_batches = 0, sequences = 1;
  bool force = false;
};

void run_new_model(const NewModelArguments& o) {
  cost::Model model = cost::load_model(o.config);
  model.name = o.name;
  if (o.sequence > 0) model.sequence = o.sequence;
  if (o.micro_batches > 0) model.micro_batches = o.micro_batches;
  model.tokens_per_step = model.micro_batches * o.sequences * model.sequence;
  const std::string file = o.out.empty() ? o.name + ".json" : o.out;
  cost::parse_model(cost::to_json(model), "cost new-model " + o.name);  // what is written is what `cost` reads
  write_file(file, cost::to_json(model).dump(1) + "\n", o.force);
  fmt::print("{}\n\n", file);
  print_fields({{"weights", fmt::format("{:.4g} billion, {:.4g} in layers that recipes quantise",
                                        1e-9 * static_cast<double>(model.parameters()),
                                        1e-9 * static_cast<double>(model.linear_parameters()))},
                {"blocks", fmt::format("{} of width {}", model.blocks, model.width)},
                {"a step", fmt::format("{} tokens on each accelerator: {} micro-batches of {} sequences of {}",
                                       model.tokens_per_step, model.micro_batches, o.sequences, model.sequence)}});
}

}  // namespace

void add_cost_new_chip(CLI::App& app, Invocation&) {
  static NewChipArguments o;
  CLI::App* chip = app.add_subcommand("new-chip", "Write the file of a chip of one's own from a few figures");
  option(*chip, "name NAME", o.facts.name, "The chip's word")->required();
  for (const std::string& format : cost::format_classes())
    chip->add_option("--" + format, o.by_format[format], "Dense rate of " + format + " products: 2250TFLOP/s")
        ->type_name("RATE");
  option(*chip, "--rate FORMAT=RATE,..", o.rates, "The same as one list: bf16=100TFLOP/s,fp4=400TFLOP/s");
  option(*chip, "--memory-bandwidth RATE", o.bandwidth, "Of the memory: 8TB/s")->required();
  option(*chip, "--memory-bytes SIZE", o.bytes, "Memory of one accelerator: 180GB")->required();
  option(*chip, "--link RATE", o.link, "Between accelerators of a node, one direction: 900GB/s");
  option(*chip, "--network RATE", o.network, "Between nodes for each accelerator: 400Gb/s");
  option(*chip, "--node COUNT", o.node, "Accelerators that the links join")->check(CLI::Range(1, 1 << 20));
  option(*chip, "--scales SCALE/BLOCK,..", o.facts.block_scales,
         "Block scales that FP4 products take, SCALE/BLOCK: e8m0/32,ue4m3/16 (default: e8m0/32)");
  option(*chip, "--elements ELEMENT,..", o.facts.elements,
         "Elements of FP4 products, by name, own lists of values too: e2m1,nf4 (default: e2m1)");
  option(*chip, "--issue RATE", o.issue, "Vector instruction slots a second: 37T/s (default: half of the FP32 rate)");
  chip->add_flag("--hardware-random", o.facts.hardware_random, "Conversions draw their own random bits");
  option(*chip, "--board WATTS", o.board, "The board at its limit: 1000W");
  chip->add_option("--price", o.price, "US dollars an hour")->check(above_zero());
  option(*chip, "-o,--out FILE", o.out, "File to write (default: NAME.json)");
  add_force_option(*chip, o.force);
  chip->callback([] { run_new_chip(o); });
  set_example(*chip,
              "fp4sim cost new-chip mine --bf16 2250TFLOP/s --fp8 4500TFLOP/s --fp4 9PFLOP/s --memory-bandwidth 8TB/s "
              "--memory-bytes 180GB --link 900GB/s --network 400Gb/s --node 8 --board 1000W");

  static NewModelArguments m;
  CLI::App* model = app.add_subcommand("new-model", "Write the file of a model from a config.json of Hugging Face");
  option(*model, "name NAME", m.name, "The model's word")->required();
  option(*model, "config FILE", m.config, "config.json of a Llama, Mistral, Qwen, Mixtral or GPT-2")->required();
  model->add_option("--sequence", m.sequence, "Tokens of a sequence (default: as the config allows, 8192 at most)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  defaulted(*model, "--sequences", m.sequences, "Sequences of a micro-batch")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  model->add_option("--micro-batches", m.micro_batches, "Micro-batches of a step on each accelerator (default: 8)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  option(*model, "-o,--out FILE", m.out, "File to write (default: NAME.json)");
  add_force_option(*model, m.force);
  model->callback([] { run_new_model(m); });
  set_example(*model, "fp4sim cost new-model mine config.json --sequence 4096");
}

}  // namespace fp4::tools
