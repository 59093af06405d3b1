#include "tools/cli/cost/cost_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "sim/train/gradients.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/cost/adapt.h"
#include "tools/cli/options.h"

namespace fp4::tools {

using nlohmann::ordered_json;

void CostArguments::add_to(CLI::App& app, bool of_one_system) {
  defaulted(app, "--model MODEL", model, "Model: a built-in name or a file ending in .json");
  if (of_one_system) defaulted(app, "--hardware HARDWARE", hardware, "Chip: a built-in name or a file ending in .json");
  app.add_option("--weight", weights,
                 "NAME=NUMBER, an object {\"sr\": 2} or a .json file over the weights of the cost model; may be "
                 "repeated (fp4sim cost weights lists them)");
  app.add_option("--views", views, "fused (quantise in the producer's epilogue), separate (one pass a copy)")
      ->delimiter(',');
  keep_older_names(defaulted(app, "--rotations,--hadamard fused|unfused|dense", hadamard,
                             "Kernel of the Hadamard transforms: fused, unfused, dense"));
  defaulted(app, "--recompute", recompute, "Share of the forward pass computed again, 0 to 1");
  if (of_one_system) defaulted(app, "--devices", devices, "Accelerators");
  defaulted(app, "--tensor", tensor, "Accelerators that split every layer")->check(CLI::Range(1, 1024));
  defaulted(app, "--pipeline", pipeline, "Stages that split the blocks")->check(CLI::Range(1, 1024));
  defaulted(app, "--interleave", interleave, "Parts of the model that a stage holds in turn (virtual stages)")
      ->check(CLI::Range(1, 1024));
  defaulted(app, "--shard", shard, "What replicas share out: none, optimizer (ZeRO-1), full (FSDP)");
  option(app, "--gradients SPEC", gradients, "What gradients travel as: fp32, bf16 or a spec; default bf16");
  option(app, "--gradients-hadamard SIZE", gradients_hadamard, "Rotate them by Hadamards of this size");
  option(app, "--prepare-rate RATE", prepare_rate,
         "Tokens/s that CPUs prepare for an accelerator; default all it needs");
  option(app, "--fetch-rate RATE", fetch_rate, "Tokens/s that disks deliver for an accelerator; default all it needs");
  app.add_option("--steps", steps, "Steps of the training, for recipes whose phases end after so many steps")
      ->check(CLI::Range(1, 1000000000));
  if (of_one_system)
    app.add_flag("--what-if", what_if, "Elements that the chip multiplies though no manual says so count as its own");
  app.add_flag("--json", json, "Print JSON");
}

cost::CostOptions CostArguments::options() const {
  cost::CostOptions options;
  for (const std::string& word : weights) {
    const bool object = word.starts_with("{"), file = word.ends_with(".json");
    if (!object && !file) {
      cost::set_weight(options.weights, word);
      continue;
    }
    const NamedText text = file ? read_text_file(word, "--weight") : NamedText{word, "--weight"};
    options.weights = cost::parse_weights(parse_json(text.text, text.place), text.place);
  }
  for (const std::string& view : views) {
    const bool fuses = accepted_index("--views", view, {"fused", "separate"}) == 0;
    options.fused |= fuses;
    options.one_pass &= fuses;
  }
  options.hadamard =
      static_cast<cost::HadamardKernel>(accepted_index("--rotations", hadamard, {"fused", "unfused", "dense"}));
  if (!(recompute >= 0 && recompute <= 1)) throw Error("--recompute: expected a share from 0 to 1");
  if (devices < 1) throw Error("--devices: expected at least 1");
  options.recompute = recompute;
  options.parallel = parallel();
  if (gradients == "fp32") options.weights.gradient_bytes = 4;
  options.devices = devices;
  options.steps = steps;
  return options;
}

cost::Parallel CostArguments::parallel() const {
  cost::Parallel out;
  out.sharding = static_cast<cost::Sharding>(accepted_index("--shard", shard, names_of(cost::sharding_table())));
  out.tensor = tensor, out.pipeline = pipeline, out.interleave = interleave;
  if (!(prepare_rate >= 0) || !(fetch_rate >= 0))
    throw Error("--prepare-rate and --fetch-rate: expected tokens/s, at least 0");
  out.prepare_per_s = prepare_rate, out.fetch_per_s = fetch_rate;
  if (gradients_hadamard != 0 && (gradients.empty() || gradients == "fp32" || gradients == "bf16"))
    throw Error("--gradients-hadamard: gradients that are not coded need no rotation");
  if (gradients.empty() || gradients == "fp32" || gradients == "bf16") return out;
  const sim::Wire wire = sim::wire_from_words(gradients, gradients_hadamard);
  GemmSpec carrier;
  carrier.a.quant = wire.spec;
  carrier.hadamard = {wire.hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
  fp4::Recipe recipe;
  recipe.fprop = carrier;
  const cost::RecipeFacts facts = cost::facts_of(recipe);
  out.wire = {facts.fprop.a, facts.fprop.hadamard};
  return out;
}

ordered_json CostArguments::describe() const {
  return joined_json({FP4_NAMED(model, hardware, views, hadamard, recompute, devices, tensor, pipeline, shard,
                                interleave, what_if, prepare_rate, fetch_rate, gradients_hadamard, steps),
                      {{"gradients", gradients.empty() ? "bf16" : gradients},
                       {"weights", ordered_json(cost::to_json(options().weights))}}});
}

double with_unit(const std::string& text, const std::string& option, const std::string& unit, double least) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string rest(end, text.data() + text.size());
  rest.erase(0, rest.find_first_not_of(' ') == std::string::npos ? rest.size() : rest.find_first_not_of(' '));
  const std::string prefixes = "kMGTP";
  const size_t prefix = rest.size() > 1 ? prefixes.find(rest[0]) : std::string::npos;
  if (prefix != std::string::npos) value *= std::pow(1000.0, static_cast<double>(prefix + 1)), rest.erase(0, 1);
  if (unit == "B/s" && (rest == "b/s" || rest == "bit/s")) value /= 8, rest = unit;
  if (unit == "FLOP/s" && (rest == "FLOPS" || rest == "OP/s")) rest = unit;
  if (problem != std::errc{} || (!rest.empty() && rest != unit))
    throw Error(fmt::format("{} '{}': expected a number and {}, with k, M, G, T or P before it", option, text, unit));
  if (!(value >= least && value <= 1e6 * least))
    throw Error(fmt::format(
        "{} '{}': {:.4g} {} is no figure of an accelerator, {:.0e} to {:.0e}; write its unit, such as {}T{}", option,
        text, value, unit, least, 1e6 * least, text.substr(0, text.find_first_not_of("0123456789.")), unit));
  return value;
}

std::string format_number(double value) { return fmt::format("{:.4g}", value); }

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1 || size == 0) return fmt::format("{:.4g} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return size >= 1e-6 ? fmt::format("{:.4g} us", seconds * 1e6) : fmt::format("{:.4g} ns", seconds * 1e9);
}

std::string format_bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.4g} GB", bytes * 1e-9);
  return bytes >= 1e6 ? fmt::format("{:.4g} MB", bytes * 1e-6) : fmt::format("{:.4g} KB", bytes * 1e-3);
}

std::string format_percent(double share) { return fmt::format("{:.2f} %", share * 100); }

std::string marked(const std::string& recipe, const cost::CostResult& result) {
  return recipe + (result.decoded.empty() && result.dense.empty() ? "" : " *");
}

std::string decoded_words(const std::string& chip, const std::string& formats) {
  return fmt::format("{} does not multiply {}: priced as bf16 products of decoded operands", chip, formats);
}

std::string decoded_note(const std::vector<std::pair<std::string, cost::CostResult>>& rows, const std::string& chip) {
  std::set<std::string> formats, dense;
  for (const auto& [recipe, result] : rows) {
    formats.insert(result.decoded.begin(), result.decoded.end());
    dense.insert(result.dense.begin(), result.dense.end());
  }
  std::string text;
  if (!formats.empty())
    text =
        "* " + decoded_words(chip, joined(formats, "; ")) + " (block_scales and elements of its file say what it does)";
  if (!dense.empty())
    text += fmt::format("{} {} has no sparse rate for {}: priced as dense products (sparse_rates of its file)",
                        text.empty() ? "*" : ".", chip, fmt::join(dense, "; "));
  return text;
}

ordered_json cost_json(const std::string& recipe, const cost::CostResult& result, bool with_terms) {
  ordered_json out = joined_json(
      {{{"recipe", recipe}},
       FP4_NAMED(result.step_time_s, result.compute_s, result.ideal_s, result.free_quantisation_s, result.overhead,
                 result.quantisation_overhead, result.speedup_bf16, result.speedup_fp8, result.tokens_per_second,
                 result.energy_j, result.price, result.points, result.decoded, result.dense, result.precisions),
       {{"bops",
         {{"forward", result.bops.forward}, {"backward", result.bops.backward}, {"training", result.bops.training}}}}});
  if (const auto& cache = result.cache)
    out["cache"] = FP4_NAMED(cache->bits, cache->token_bytes, cache->bf16_token_bytes, cache->quantise_s, cache->read_s,
                             cache->bf16_read_s, cache->decode_ops, cache->binding);
  const cost::MemoryFootprint& memory = result.memory;
  out["memory"] = FP4_NAMED(memory.weights, memory.master_weights, memory.optimizer, memory.gradients,
                            memory.activations, memory.logits, memory.total(), memory.fits);
  const cost::Communication& network = result.communication;
  out["communication"] =
      FP4_NAMED(network.devices, network.nodes, network.t0_s, network.t1_s, network.tm_s, network.interconnect_s,
                network.network_s, network.hidden_s, network.interconnect_stall, network.network_stall,
                network.replicas, network.t3_s, network.t2_s, network.bubble_s, network.tensor_s, network.stage_s,
                network.coding_s, network.preparation_stall, network.fetch_stall);
  out["limits"] = ordered_json::object();
  for (const auto& [what, share] : result.limits) out["limits"][what] = share;
  out["groups"] = ordered_json::object();
  for (const std::string& group : cost::cost_groups()) out["groups"][group] = cost::group_seconds(result, group);
  if (!with_terms) return out;
  out["terms"] = ordered_json::array();
  for (const cost::Term& term : result.terms)
    out["terms"].push_back(
        FP4_NAMED(term.name, term.group, term.seconds, term.formula, term.binding, term.flop, term.bytes, term.ops));
  return out;
}

namespace {

// Letters in the order of cost_groups, then what a step waits for; colours are the 256-colour cube's, told apart by
// lightness too.
constexpr char kLetters[] = "MBHAPOqthsrew";
constexpr int kColours[] = {25, 67, 103, 61, 240, 247, 214, 178, 160, 204, 139, 71, 252};
static_assert(sizeof kLetters - 1 == std::size(kColours));

// Seconds of the parts of a step, which add up to it: of one replica's accelerators together, each does its share.
std::vector<std::pair<std::string, double>> step_pieces(const cost::CostResult& result) {
  const cost::Communication& c = result.communication;
  const double replica = static_cast<double>(c.devices) / c.replicas;
  std::vector<std::pair<std::string, double>> parts;
  for (const std::string& group : cost::cost_groups())
    parts.emplace_back(group, cost::group_seconds(result, group) / replica);
  parts.emplace_back("waiting for others", std::max(0.0, result.step_time_s - result.compute_s / replica));
  return parts;
}

// Cells per part so that they add up to the bar: largest remainders get the cells that rounding down left.
std::vector<int> cells(const std::vector<std::pair<std::string, double>>& parts, double step, double slowest,
                       int width) {
  std::vector<double> exact;
  for (const auto& [name, seconds] : parts) exact.push_back(seconds / slowest * width);
  const int total = static_cast<int>(std::lround(step / slowest * width));
  std::vector<int> out;
  int used = 0;
  for (const double share : exact) {
    out.push_back(static_cast<int>(share));
    used += out.back();
  }
  for (; used < total; ++used) {
    size_t next = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      if (exact[i] - out[i] > exact[next] - out[next]) next = i;
    ++out[next];
  }
  return out;
}

}  // namespace

std::string cost_bars(const std::vector<std::pair<std::string, cost::CostResult>>& rows, size_t width, bool styled) {
  double slowest = 0;
  size_t name_width = 0;
  for (const auto& [name, result] : rows) {
    slowest = std::max(slowest, result.step_time_s);
    name_width = std::max(name_width, name.size());
  }
  const int bar = std::max(20, static_cast<int>(width - std::min(width, name_width + 14)));
  const auto block = [&](size_t part, int count) {
    const std::string letters(static_cast<size_t>(count), kLetters[part]);
    return styled && count > 0 ? fmt::format("\033[48;5;{}m\033[97m{}\033[0m", kColours[part], letters) : letters;
  };
  std::string out;
  std::vector<std::string> seen(std::size(kColours));
  for (const auto& [name, result] : rows) {
    out += fmt::format("{:<{}}  ", name, name_width);
    const auto parts = step_pieces(result);
    const std::vector<int> counts = cells(parts, result.step_time_s, slowest, bar);
    for (size_t part = 0; part < counts.size(); ++part) {
      out += block(part, counts[part]);
      if (parts[part].second > 0) seen[part] = parts[part].first;
    }
    out += "  " + format_seconds(result.step_time_s) + "\n";
  }
  out += "\n";
  std::string line;
  for (size_t part = 0; part < seen.size(); ++part) {
    if (seen[part].empty()) continue;
    const std::string entry = fmt::format("{} {}   ", kLetters[part], seen[part]);
    if (line.size() + entry.size() > width) {
      out += line + "\n";
      line.clear();
    }
    line += entry;
  }
  return out + line + "\n";
}

}  // namespace fp4::tools
