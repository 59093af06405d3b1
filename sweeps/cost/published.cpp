// The model's value of each row of published.json in the published setting: chip, model, recipe, batch, activation
// checkpointing, how accelerators share the step. Ratios are formed as the source forms them, so that a fitted absolute
// time does not leak into a prediction. Values of one kernel, one formula or a whole system stand here.
#include "sweeps/cost/published.h"

#include <algorithm>
#include <limits>
#include <map>

#include "fp4/presets.h"
#include "sim/rules/recipe.h"
#include "src/text/embedded.h"
#include "src/text/json_reader.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/cost/embedding/memory_system.h"

namespace fp4::cost {

namespace {

using Class = PublishedRow::Class;
using nlohmann::ordered_json;

constexpr const char* class_names[] = {"fitted", "held out", "bound", "shown only"};  // in the order of Class

const ordered_json& published_file() {
  static const auto data = parse_json<ordered_json>(embedded("cost/published.json"), "cost/published.json");
  return data;
}

// What the file lists itself, or the name of one of the program's.
Json listed(const char* part, const std::string& key) {
  const auto found = published_file().at(part).find(key);
  return found == published_file().at(part).end() ? Json(key) : Json::parse(found->dump());
}

RecipeFacts listed_recipe(const std::string& word) { return facts_of(sim::recipe_from_json(listed("recipes", word))); }

// A published setting: what `step` of a row says, and the defaults of llama3_8b where it is silent.
struct Setting {
  Setting(const std::string& chip_word, const ordered_json& step)
      : chip(load_hardware(step.value("chip", chip_word))), alone(step.value("alone", false)) {
    const std::string name = step.value("model", "llama3_8b"), word = step.value("recipe", "bf16");
    const Json own = listed("models", name);
    model = own.is_string() ? load_model(name) : parse_model(own, name);
    recipe = word == "bf16" ? unquantised_recipe(word, 16) : listed_recipe(word);
    options.devices = step.value("devices", 1), options.recompute = step.value("recompute", 0.0);
    Parallel& parallel = options.parallel;
    parallel.tensor = step.value("tensor", 1), parallel.pipeline = step.value("pipeline", 1);
    parallel.interleave = step.value("interleave", 1);
    if (step.value("shard", "") == "full") parallel.sharding = Sharding::full;
    if (step.value("rotations", "") == "unfused") options.hadamard = HadamardKernel::unfused;
    options.one_pass = !step.contains("views");
    if (step.contains("weights")) options.weights = parse_weights(Json::parse(step.at("weights").dump()), name);
    options.formulas = false;
    // Half a sequence for each of two accelerators that share its context.
    const int64_t context = step.value("context", 1), micro = step.value("mbs", 1) * model.sequence / context;
    if (step.contains("global"))
      model.tokens_per_step = step.at("global").get<int64_t>() * model.sequence * parallel.replica() / options.devices;
    if (step.contains("global") || step.contains("mbs")) model.micro_batches = model.tokens_per_step / micro;
  }
  // Seconds of the step: of its products and quantisers, or with communication.
  double seconds(const CostOptions& drawn) const {
    return alone ? step_seconds(recipe, model, chip, drawn) : evaluate(recipe, model, chip, drawn).step_time_s;
  }
  double tokens_per_second(double seconds) const {  // of one accelerator
    return static_cast<double>(model.tokens_per_step) / options.parallel.replica() / seconds;
  }
  Hardware chip;
  Model model;
  RecipeFacts recipe;
  CostOptions options;
  bool alone = false;  // without communication
};

// The value of a setting in the unit of its row, of a step of so many seconds; `over`: those of the other of a ratio.
double value_of(const Setting& s, const std::string& unit, const ordered_json& step, double seconds,
                const std::pair<const Setting*, double>& over) {
  constexpr double gib = 1073741824.0;
  if (unit == "us/token") return 1e6 / s.tokens_per_second(seconds);
  if (unit == "tokens/s") return s.tokens_per_second(seconds);
  if (unit == "TFLOP/s") return 6e-12 * static_cast<double>(s.model.parameters()) * s.tokens_per_second(seconds);
  if (unit == "x") return s.tokens_per_second(seconds) / over.first->tokens_per_second(over.second);
  if (unit == "share of time") return seconds / over.second - 1;
  if (unit == "GiB") return memory_footprint(s.recipe, s.model, s.chip, s.options).total() / gib;
  const CostResult result = evaluate(s.recipe, s.model, s.chip, s.options);
  const double watts = result.energy_j.value_or(0) / s.options.devices / result.step_time_s;
  if (unit == "W") return watts;
  if (unit == "of energy") return CostWeights().network_w / watts;
  if (unit == "x tokens/J")
    return *evaluate(over.first->recipe, s.model, s.chip, s.options).energy_j / *result.energy_j;
  double of_groups = 0;
  for (const auto& group : step.at("groups")) of_groups += group_seconds(result, group.get<std::string>());
  return 1e3 * of_groups;
}

// Where the model's doubt about steps is that of the row: of one step, and of ratios, draw by draw; the draws of
// another chip are its own.
void evaluate_step(PublishedRow& row, const ordered_json& step, const ordered_json& change) {
  const Setting setting(row.chip, step);
  ordered_json other_step = step;
  other_step.update(change);
  const Setting other(row.chip, other_step);
  const auto at = [&](const CostOptions& drawn, const CostOptions& other_drawn) {
    return value_of(setting, row.unit, step, setting.seconds(drawn),
                    {&other, change.empty() ? 0 : other.seconds(other_drawn)});
  };
  row.model = at(setting.options, other.options);
  if (row.unit != "us/token" && row.unit != "tokens/s" && row.unit != "x" && row.unit != "TFLOP/s") return;
  std::vector<double> values;
  const uint64_t apart = setting.chip.name == other.chip.name ? 0 : cost_draws;
  for (uint64_t i = 0; i < cost_draws; ++i) {
    const CostDraw mine = draw_cost(setting.options, {}, setting.chip, i);
    const CostDraw theirs = draw_cost(other.options, {}, other.chip, i + apart);
    // How good FP4 kernels are is not the chip's.
    const auto drawn = [&](const Setting& s, const CostDraw& draw) {
      return (runs_fp4(s.recipe, s.chip) ? mine.fp4 : 1) * s.seconds(draw.options);
    };
    values.push_back(
        value_of(setting, row.unit, step, drawn(setting, mine), {&other, change.empty() ? 0 : drawn(other, theirs)}));
  }
  row.interval = middle(std::move(values));
}

// The model's value of a row, by its id.
using PublishedValues = std::map<std::string, double>;

// One operand, one copy: the kernel that rotates and quantises.
void mi355x(PublishedValues& values) {
  const OperandFacts operand = facts_of({.quant = mxfp4_spec});
  const Hardware mi355x = load_hardware("mi355x");
  const CostWeights weights;
  const Chip chip(mi355x, weights);
  const auto seconds = [&](int size) {
    const QuantiseKernel kernel{"x", 1e9, 2, {{&operand, {size, true, false}, false}}};
    return roofline(quantise_work(kernel, Technique::hadamard, chip, {&weights, HadamardKernel::fused}), chip).seconds;
  };
  values["mi355x_h16_h32"] = seconds(32) / seconds(16);
}

// One decoder layer of Llama 2 70B, backward, with INT4 GEMMs standing for FP4: unfused rotations by 64 of dY twice,
// X once, W once per 16k tokens, for each linear layer by itself.
void rotation_on_older_chips(PublishedValues& values) {
  const Hardware a100 = load_hardware("a100"), h100 = load_hardware("h100");
  Model layer = load_model("llama2_70b_layer");
  std::vector<Linear> apart;
  for (const Linear& linear : layer.linears)
    for (const int64_t out : linear.out) apart.push_back({linear.name, linear.in, {out}, {linear.name}, true});
  layer.linears = apart;
  CostOptions options;
  options.devices = 32, options.hadamard = HadamardKernel::unfused;
  CostResult result;
  result.terms = step_terms(listed_recipe("mxfp4_rht64"), layer, a100, options);
  const double rotation_us = group_seconds(result, "hadamard") / static_cast<double>(layer.tokens_per_step) * 1e6;
  values["a100_rht64"] = rotation_us / 7.47;  // us/token of the layer without it
  const double forward_us =
      2.0 * static_cast<double>(layer.linear_parameters()) / (a100.rate("bf16") * a100.efficiency.value) * 1e6;
  values["a100_rht64_step"] = rotation_us / (forward_us + 7.47);
  // [32768, 8192] x [8192, N] in FP8, both operands rotated while they are cast: 2 bytes read, 1 written.
  const auto share = [&](double n, double bytes) {
    const double gemm = 2.0 * 32768 * 8192 * n / (h100.rate("fp8") * h100.efficiency_at("fp8", "").value);
    return (32768 + n) * 8192 * bytes / (h100.memory_bandwidth.value * h100.quantiser_bandwidth.value) / gemm;
  };
  values["h100_rht"] = share(8192, 3);
  values["h100_rht_70b"] = share(28672, 3);
}

// Bounds of sources that had stochastic conversions in hardware; software Philox costs more and is stated beside.
void bounds(PublishedValues& values) {
  const Model llama = load_model("llama3_8b");
  Hardware chip = load_hardware("gb200");
  CostOptions options;
  options.devices = 32;
  const RecipeFacts sr = listed_recipe("mxfp4_sr");
  const auto seconds_of = [&](const RecipeFacts& recipe, const char* group) {
    CostResult result;
    result.terms = step_terms(recipe, llama, chip, options);
    return group_seconds(result, group);
  };
  const double bf16 = seconds_of(unquantised_recipe("bf16", 16), "matmul") * 2 / 3,
               fp4 = seconds_of(sr, "matmul") * 2 / 3;
  const double software = seconds_of(listed_recipe("mxfp4_route"), "stochastic rounding");
  values["sr_of_bf16_software"] = software / bf16;
  values["sr_of_fp4_software"] = software / fp4;
  chip.hardware_random = true;
  const double hardware = seconds_of(sr, "stochastic rounding");
  values["sr_of_bf16"] = hardware / bf16;
  values["sr_of_fp4"] = hardware / fp4;
  options.one_pass = false;
  CostResult result;
  result.terms = step_terms(listed_recipe("nvfp4_four_over_six"), llama, chip, options);
  values["four_over_six"] =
      group_seconds(result, "scale rule") / (group_seconds(result, "quantise") + group_seconds(result, "tensor scale"));
}

// Whole systems: Stash's stalls on AWS instances.
const std::vector<std::string> networks = {"resnet18", "resnet50", "vgg11", "vgg16"};

void stash(PublishedValues& values) {
  double stall = 0, slower = 0;
  for (const std::string& network : networks) {
    for (const auto& [chip, devices] :
         {std::pair{"p2_8xlarge", 8}, {"p2_16xlarge", 16}, {"p3_8xlarge", 4}, {"p3_16xlarge", 8}})
      stall = std::max(stall, cloud_step(chip, network, devices, 32).interconnect_stall);
    slower = std::max(
        slower, cloud_step("p3_8xlarge", network, 8, 32).step_s / cloud_step("p3_16xlarge", network, 8, 32).step_s);
  }
  values["stash_interconnect"] = stall;
  values["stash_network"] = slower;
}

// Latency of a batch of bags of fp32 rows, over that of sums in the switch, for short and for long bags.
void embedding_bags(PublishedValues& values) {
  for (const int pooling : {8, 32}) {
    TraceOptions options;
    options.pooling = pooling;
    const BagTrace trace = zipf_trace(options);
    const auto seconds = [&](MemorySystem system) {
      return replay(trace, {system, row_bytes(RowFormat::fp32, 64), 4 * 64, false}, default_memory()).seconds;
    };
    const double in_switch = seconds(MemorySystem::fabric_switch);
    values["pifs_pond_" + std::to_string(pooling)] = seconds(MemorySystem::pool) / in_switch;
    values["pifs_beacon_" + std::to_string(pooling)] = seconds(MemorySystem::device) / in_switch;
  }
}

}  // namespace

double PublishedRow::factor() const {
  if (model <= 0) return kind == Class::bound ? 0 : std::numeric_limits<double>::infinity();
  return kind == Class::bound ? model / published : std::max(model / published, published / model);
}

bool PublishedRow::met() const {
  switch (kind) {
    case Class::held_out: return interval ? published >= interval->low && published <= interval->high : factor() <= 1.5;
    case Class::bound: return model <= published;
    default: return true;
  }
}

const char* class_name(PublishedRow::Class kind) { return class_names[static_cast<size_t>(kind)]; }

double throughput_share(double time_share) { return 1 - 1 / (1 + time_share); }

CloudStep cloud_step(const std::string& chip, const std::string& model, int devices, int images) {
  Model network = load_model(model);
  network.tokens_per_step = images;
  CostOptions options = {.devices = devices, .formulas = false};
  options.parallel.sharding = Sharding::none;
  options.weights.gradient_bytes = 4;
  const CostResult result = evaluate(unquantised_recipe("fp32", 32), network, load_hardware(chip), options);
  return {result.step_time_s, *result.price * 1e6 / (images * devices), result.communication.interconnect_stall,
          result.communication.network_stall};
}

std::vector<PublishedRow> published_comparison() {
  PublishedValues values = {{"power_network", CostWeights().network_w}};
  for (const auto add : {mi355x, rotation_on_older_chips, bounds, stash, embedding_bags}) add(values);
  const ordered_json& data = published_file();
  std::vector<PublishedRow> rows;
  for (const auto& [id, row] : data.at("rows").items()) {
    const auto kind = std::find(std::begin(class_names), std::end(class_names), row.at("class").get<std::string>());
    rows.push_back({id, row.at("chip"), row.at("what"), row.at("unit"), row.at("published"), 0,
                    static_cast<Class>(kind - class_names), std::nullopt,
                    data.at("sources").at(row.at("source").get<std::string>()), row.value("note", "")});
    if (row.contains("step"))
      evaluate_step(rows.back(), row.at("step"), row.value("over", ordered_json::object()));
    else
      rows.back().model = values.at(id);
    // What the source leaves to hardware, done in software.
    if (const auto software = values.find(id + "_software"); software != values.end())
      rows.back().note += std::to_string(software->second * 100).substr(0, 4) + " %";
  }
  return rows;
}

}  // namespace fp4::cost
