// A profile of one's own; see hardware.h. The ratios are those of B200 and MI355X (sweeps/hardware).
#include "src/text/error.h"
#include "sweeps/cost/hardware.h"

namespace fp4::cost {

Hardware new_chip(const ChipFacts& facts) {
  if (!facts.rates.contains("bf16")) throw Error("cost new-chip: --bf16 is needed, such as --bf16 2250TFLOP/s");
  if (!(facts.memory_bandwidth > 0)) throw Error("cost new-chip: --memory-bandwidth: expected bytes/s above 0");
  if (!(facts.memory_bytes > 0)) throw Error("cost new-chip: --memory-bytes: expected bytes above 0");
  const auto given = [](const Json& value) { return known_json(value, "given", "the command that wrote this file"); };
  const auto estimate = [](const Json& value, const char* source) { return known_json(value, "estimate", source); };
  Json json = {{"name", facts.name}, {"doc", "a chip of one's own"}};
  for (const auto& [format, rate] : facts.rates) json["rates"][format] = given(rate);
  constexpr double bf16_over_fp32 = 30;
  if (!facts.rates.contains("fp32"))
    json["rates"]["fp32"] =
        estimate(facts.rates.at("bf16") / bf16_over_fp32, "a thirtieth of the bf16 rate, as on B200");
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
  if (facts.rates.contains("fp4"))
    json["block_scales"]["fp4"] =
        !facts.block_scales.empty()
            ? given(facts.block_scales)
            : estimate(Json::array({"e8m0/32"}), "OCP MX 1.0; say what else the matrix unit takes");
  if (!facts.elements.empty()) json["elements"]["fp4"] = given(facts.elements);
  const char* const reached = "the share of the rate that products of a training reach, fitted to steps on GB200";
  const Hardware fits = load_hardware("gb200");
  json["efficiency"] = estimate(fits.efficiency.value, reached);
  for (const auto& [format, share] : fits.efficiency_of)
    if (facts.rates.contains(format.substr(0, 3))) json["efficiency_of"][format] = estimate(share.value, reached);
  if (facts.rates.contains("fp4")) json["efficiency_of"]["fp4 ue5m3/16"] = json["efficiency_of"]["fp4 ue4m3/16"];
  json["issue_per_s"] = facts.issue_per_s
                            ? given(*facts.issue_per_s)
                            : estimate(fp32 / 2, "half of the FP32 rate: a fused multiply-add counts two");
  json["issue_efficiency"] =
      estimate(fits.issue_efficiency.value, "fitted to one published kernel on GB200, as in every profile");
  json["memory_bandwidth"] = given(facts.memory_bandwidth);
  json["memory_bytes"] = given(facts.memory_bytes);
  for (const auto& [key, figure] : {std::pair("board_w", &facts.board_w),
                                    {"price_per_hour", &facts.price_per_hour},
                                    {"link_bandwidth", &facts.link_bandwidth},
                                    {"network_bandwidth", &facts.network_bandwidth},
                                    {"node_size", &facts.node_size}})
    if (*figure) json[key] = given(**figure);
  json["random_source"] =
      facts.hardware_random ? given("hardware") : estimate("philox", "no generator in the conversions, as on B200");
  return parse_hardware(json, "cost new-chip");  // other_s_per_token by the bandwidth
}

}  // namespace fp4::cost
