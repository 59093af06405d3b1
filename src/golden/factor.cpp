#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "src/golden/accidents.h"

namespace fp4::golden {
namespace {

// got / expected of the numbers that differ.
struct Ratios {
  double low = HUGE_VAL, high = -HUGE_VAL;
  uint64_t count = 0, zeros = 0;  // right zeros, which are right whatever their factor
  void add(double ratio) { low = std::min(low, ratio), high = std::max(high, ratio), ++count; }
  bool is_one(double room) const { return high - low <= room * std::abs(high); }
};

// Those of all numbers, as far as they are one; it stops soon where they are not.
std::optional<Ratios> ratios_of(const ArrayPair& e, double least, double room) {
  const auto width = static_cast<size_t>(e.cols);
  Ratios all;
  std::mutex mutex;
  std::atomic<bool> is_one = true;
  for_bands(e.rows, e.cols, [&](int64_t first, int64_t last) {
    Elements x(width), y(width);
    Ratios mine;
    for (int64_t r = first; r < last && is_one; ++r) {
      e.copy_row(r, x, y);
      const uint8_t* const wrong = &e.wrong.at[static_cast<size_t>(r) * width];
      for (size_t i = 0; i < width; ++i) {
        const float right = float_of(x[i]), got = float_of(y[i]);
        mine.zeros += (right == 0) & (wrong[i] == 0);
        if (wrong[i] == 0 || !is_finite(right) || right == 0) continue;
        if (static_cast<double>(magnitude(got)) >= least)
          mine.add(static_cast<double>(got) / static_cast<double>(right));
      }
      if (mine.count > 0 && !mine.is_one(room)) is_one = false;
    }
    const std::lock_guard lock(mutex);
    all = {std::min(all.low, mine.low), std::max(all.high, mine.high), all.count + mine.count, all.zeros + mine.zeros};
  });
  return is_one && all.is_one(room) ? std::optional(all) : std::nullopt;
}

}  // namespace

// Of a factor that is left out, or not meant.
std::optional<Cause> factor_accident(const Case& c, const std::vector<ArrayPair>& evidence,
                                     const Simulator& simulator) {
  const ArrayPair& e = evidence[0];
  if (evidence.size() > 1 || !e.is_float() || !e.is_matrix() || c.epilogue.activation != Activation::none)
    return std::nullopt;
  const RealTypeInfo& type = row_of(real_type_table, e.type != RealType::fp32 ? e.type : c.epilogue.output);
  const double room = std::max(std::ldexp(2.0, 1 - type.digits), 1e-6);
  const auto found = ratios_of(e, std::ldexp(1.0, type.smallest_exponent), room);
  if (!found || !std::isfinite(found->high) || std::abs(found->high - 1) <= 8 * room || found->count < 8 ||
      2 * found->count < e.differences)
    return std::nullopt;
  Place place = {"all", true};
  if (e.differences + found->zeros < e.got.size()) {
    Marks marks = e.wrong;
    for_bands(e.rows, e.cols, [&](int64_t first, int64_t last) {
      Elements x(static_cast<size_t>(e.cols));
      for (int64_t r = first; r < last; ++r) {
        const size_t begin = static_cast<size_t>(r) * x.size();
        e.expected.copy(begin, x.size(), x.data());
        for (size_t i = 0; i < x.size(); ++i) marks.at[begin + i] |= static_cast<uint8_t>(e.plain(x[i]) == 0);
      }
    });
    place = place_of(marks);
  }
  if (!place.is_regular) return std::nullopt;
  const double ratio = found->low / 2 + found->high / 2, power = std::round(std::log2(std::abs(ratio)));
  std::string name = fmt::format("{:.8g}, to {:.1g}", ratio, (found->high - found->low) / std::abs(ratio));
  if (std::abs(std::abs(ratio) - std::exp2(power)) <= room * std::exp2(power))
    name = fmt::format("{}2^{}", ratio < 0 ? "-" : "", power);
  const auto g_of = [&](bool is_b) {
    return static_cast<double>(simulator.operand(simulator.base(), is_b).tensor_multiplier_at(0, 0));
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

}  // namespace fp4::golden
