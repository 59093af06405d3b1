#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/golden/accidents.h"

namespace fp4::golden {

// got / expected of every number that differs, where it is one number: of a factor that is left out, or not meant.
std::optional<Cause> factor_accident(const Case& c, const std::vector<Evidence>& evidence, const Simulator& simulator) {
  for (const Evidence& e : evidence) {
    if (evidence.size() > 1 || !e.is_float() || !e.is_matrix() || c.epilogue.activation != Activation::none) break;
    const RealTypeInfo& type = row_of(real_type_table, e.type != RealType::fp32 ? e.type : c.epilogue.output);
    const double room = std::max(std::ldexp(2.0, 1 - type.digits), 1e-6);
    double low = HUGE_VAL, high = -HUGE_VAL;
    uint64_t count = 0;
    for (size_t i = 0; i < e.got.size() && high - low <= room * std::abs(high); ++i) {
      const auto right = static_cast<double>(float_of(e.expected[i])), got = static_cast<double>(float_of(e.got[i]));
      if (!e.differs(i) || !std::isfinite(right)) continue;
      if (right == 0 || std::abs(got) < std::ldexp(1.0, type.smallest_exponent)) continue;
      low = std::min(low, got / right), high = std::max(high, got / right), ++count;
    }
    const bool is_one = high - low <= room * std::abs(high) && std::isfinite(high) && std::abs(high - 1) > 8 * room;
    if (!is_one || count < 8 || 2 * count < e.differences) break;
    Marks marks = e.wrong;  // a zero is right whatever its factor
    for (size_t i = 0; i < e.got.size(); ++i)
      if (float_of(e.expected[i]) == 0) marks.at[i] = 1;
    const Place place = place_of(marks);
    if (!place.is_regular) break;
    const double ratio = low / 2 + high / 2, power = std::round(std::log2(std::abs(ratio)));
    std::string name = fmt::format("{:.8g}, to {:.1g}", ratio, (high - low) / std::abs(ratio));
    if (std::abs(std::abs(ratio) - std::exp2(power)) <= room * std::exp2(power))
      name = fmt::format("{}2^{}", ratio < 0 ? "-" : "", power);
    const auto g_of = [&](bool is_b) {
      const Quantized q = simulator.operand(simulator.base(), is_b);
      return static_cast<double>(q.tensor_multiplier_at(0, 0));
    };
    const double a = g_of(false), b = c.is_gemm ? g_of(true) : a, alpha = a * b;
    std::vector<std::pair<const char*, double>> factors = {{"g", a}};
    if (c.is_gemm) factors = {{"alpha", alpha}, {"g_A", a}, {"g_B", b}};
    for (const auto& [word, g] : factors)
      for (const auto& [form, value] :
           {std::pair{"{} (applied twice)", g}, {"1/{} (left out)", 1 / g}, {"1/{}^2 (divided by it)", 1 / g / g}})
        if (std::abs(g - 1) > room && std::abs(ratio / value - 1) <= room) name = fmt::format(fmt::runtime(form), word);
    const std::string where = place.text == "all" ? "" : " in " + place.text;
    return Cause{{{e.stage, "factor"}},
                 fmt::format("the ratio to the golden {}{} is {}", e.stage, where, name),
                 e.differences,
                 e.differences,
                 1};
  }
  return std::nullopt;
}

}  // namespace fp4::golden
