#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

using sweeps::ExtraTokens;
using sweeps::FrontPoint;

std::string extra_text(const std::optional<ExtraTokens>& extra) { return extra ? text(*extra) : ""; }

std::string interval_text(const std::optional<ExtraTokens>& extra) {
  if (!extra || !extra->raw) return "";
  return fmt::format("{:+.1f} .. {:+.1f}", 100 * extra->raw->low, 100 * extra->raw->high);
}

}  // namespace

std::string relative_text(const sweeps::ContextFront& front, const FrontPoint& point, const std::string& y) {
  if (point.y.n == 0 || !(front.scale.loss > 0)) return "";
  const double percent = 100 * shown_mean(point, y) / front.scale.loss;
  return percent != 0 && std::fabs(percent) < 1e-3 ? "~0 %" : fmt::format("{:.3g} %", percent);
}

std::string scale_text(const sweeps::ContextFront& front) {
  if (!(front.scale.loss > 0)) return "";
  return fmt::format("`relative`: of fp32's loss{}, {:.4g}. ",
                     front.scale.above_irreducible ? " above its irreducible part" : "", front.scale.loss);
}

void print_tokens(const sweeps::Results& results, const sweeps::ContextFront& front,
                  const std::vector<const FrontPoint*>& points) {
  const auto any = [&](auto column) {
    return std::any_of(points.begin(), points.end(),
                       [&](const FrontPoint* point) { return (point->*column).has_value(); });
  };
  if (!any(&FrontPoint::extra_fp32)) return;
  const bool mxfp8 = any(&FrontPoint::extra_mxfp8);
  Table table{{">over fp32", ">raw 95 %"}, {}};
  if (mxfp8) table.columns.insert(table.columns.end(), {">over mxfp8", ">raw 95 %"});
  if (front.target) table.columns.push_back(">tokens");
  table.columns.insert(table.columns.end(), {">x speed-up", "setting"});
  for (const FrontPoint* point : points) {
    std::vector<std::string> row = {extra_text(point->extra_fp32), interval_text(point->extra_fp32)};
    if (mxfp8) row.insert(row.end(), {extra_text(point->extra_mxfp8), interval_text(point->extra_mxfp8)});
    if (front.target)
      row.push_back(point->tokens_to_target ? fmt::format("{:.4g}", *point->tokens_to_target) : "not reached");
    row.push_back(point->quartet ? fmt::format("{:.3f}", *point->quartet) : "");
    row.push_back(setting_of(results, *point->config));
    table.rows.push_back(std::move(row));
  }
  fmt::print("\n");
  print_wrapped(
      front.target
          ? fmt::format("Extra tokens for a loss of {:.5g}, along curves of a constant learning rate:", *front.target)
          : "Extra tokens for the same loss, along the ladder of budgets (`train.steps`):");
  print_table(table);
}

}  // namespace fp4::tools
