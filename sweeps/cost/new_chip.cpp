// See new_chip.h. The ratios are those of B200 and MI355X (sweeps/hardware).
#include "sweeps/cost/new_chip.h"

#include <fmt/format.h>

#include "src/text/error.h"

namespace fp4::cost {

Hardware new_chip(const ChipFacts& facts) {
  if (!facts.rates.contains("bf16")) throw Error("cost new-chip: --bf16 is needed, such as --bf16 2250TFLOP/s");
  if (!(facts.memory_bandwidth > 0)) throw Error("cost new-chip: --memory-bandwidth: expected bytes/s above 0");
  if (!(facts.memory_bytes > 0)) throw Error("cost new-chip: --memory-bytes: expected bytes above 0");
  const auto given = [](double value) { return Quantity{value, "given", "the command that wrote this file"}; };
  const auto estimate = [](double value, std::string source) { return Quantity{value, "estimate", std::move(source)}; };
  Json json = {{"name", facts.name}, {"doc", "a chip of one's own"}};
  const auto set = [&json](const char* key, const Quantity& quantity) {
    json[key] = {{"value", quantity.value}, {"kind", quantity.kind}, {"source", quantity.source}};
  };
  for (const auto& [format, rate] : facts.rates) {
    const Quantity quantity = given(rate);
    json["rates"][format] = {{"value", quantity.value}, {"kind", quantity.kind}, {"source", quantity.source}};
  }
  constexpr double bf16_over_fp32 = 30;
  if (!facts.rates.contains("fp32"))
    json["rates"]["fp32"] = {{"value", facts.rates.at("bf16") / bf16_over_fp32},
                             {"kind", "estimate"},
                             {"source", "a thirtieth of the bf16 rate, as on B200"}};
  const double fp32 = json["rates"]["fp32"]["value"];
  // A format without units runs at the next wider one that has them.
  std::string wider = "bf16";
  for (const char* format : {"fp8", "fp6", "fp4", "int8", "int4"}) {
    if (facts.rates.contains(format)) {
      wider = format;
      continue;
    }
    json["emulate"][format] = std::string_view(format).starts_with("int") && wider.starts_with("fp") ? "bf16" : wider;
  }
  if (facts.rates.contains("fp4")) {
    const bool said = !facts.block_scales.empty();
    json["block_scales"]["fp4"] = {
        {"value", said ? facts.block_scales : std::vector<std::string>{"e8m0/32"}},
        {"kind", said ? "given" : "estimate"},
        {"source", said ? "the command that wrote this file" : "OCP MX 1.0; say what else the matrix unit takes"}};
  }
  if (!facts.elements.empty())
    json["elements"]["fp4"] = {
        {"value", facts.elements}, {"kind", "given"}, {"source", "the command that wrote this file"}};
  const char* const reached = "the share of the rate that products of a training reach, fitted to steps on GB200";
  set("efficiency", estimate(0.463, reached));
  for (const auto& [format, share] :
       {std::pair("fp8", 0.423), {"fp4", 0.465}, {"fp4 ue4m3/16", 0.333}, {"fp4 ue5m3/16", 0.333}})
    if (facts.rates.contains(std::string(format, 3)))
      json["efficiency_of"][format] = {{"value", share}, {"kind", "estimate"}, {"source", reached}};
  set("issue_per_s", facts.issue_per_s ? given(*facts.issue_per_s)
                                       : estimate(fp32 / 2, "half of the FP32 rate: a fused multiply-add counts two"));
  set("issue_efficiency", estimate(0.6, "fitted to one published kernel on GB200, as in every profile"));
  set("memory_bandwidth", given(facts.memory_bandwidth));
  set("memory_bytes", given(facts.memory_bytes));
  for (const auto& [key, figure] : {std::pair("board_w", &facts.board_w),
                                    {"price_per_hour", &facts.price_per_hour},
                                    {"link_bandwidth", &facts.link_bandwidth},
                                    {"network_bandwidth", &facts.network_bandwidth},
                                    {"node_size", &facts.node_size}})
    if (*figure) set(key, given(**figure));
  json["random_source"] = {{"value", facts.hardware_random ? "hardware" : "philox"},
                           {"kind", facts.hardware_random ? "given" : "estimate"},
                           {"source", facts.hardware_random ? "the command that wrote this file"
                                                            : "no generator in the conversions, as on B200"}};
  return parse_hardware(json, "cost new-chip");  // other_s_per_token by the bandwidth
}

}  // namespace fp4::cost
