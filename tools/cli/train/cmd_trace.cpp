// `fp4sim trace plot`: the file of `train --trace` as small multiples, one row of panels for each quantity, one panel
// for each operand and product, one line for each layer over the steps. Panels of a row share their axis, which is
// logarithmic where positive values span more than two decades; those of an operand stand below one another.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "src/files/output_file.h"
#include "src/text/byte_source.h"
#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "sweeps/report/forest.h"
#include "tools/cli/options.h"

namespace fp4::tools {
namespace {

struct PlotOptions {
  std::string file, out;
  std::vector<std::string> quantities, layers;
  bool force = false;
};

using Line = std::vector<std::pair<double, double>>;  // step, value
struct Panel {
  std::string gemm, operand;
  std::map<std::string, Line> lines;  // by layer
};
struct PictureRow {
  std::string quantity;
  std::vector<Panel> panels;
};
struct Picture {
  std::vector<std::string> layers;
  std::vector<std::pair<std::string, std::string>> columns;  // product and operand
  std::vector<PictureRow> rows;
  double first = 0, last = 0;
};

constexpr const char* columns[] = {"step", "layer", "gemm", "operand", "quantity", "value"};
// Okabe and Ito's colours, told apart by colour-blind readers, then dashed.
constexpr const char* colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9"};
constexpr int panel_width = 150, panel_height = 80, gap = 14, left = 62, heading = 34, foot = 22;

bool wanted(const std::vector<std::string>& words, const std::string& word) {
  return words.empty() || std::find(words.begin(), words.end(), word) != words.end();
}

template <class List, class Same>
auto& found_or_added(List& list, const Same& same, typename List::value_type value) {
  const auto at = std::find_if(list.begin(), list.end(), same);
  if (at != list.end()) return *at;
  list.push_back(std::move(value));
  return list.back();
}

template <class List>
void add_once(List& list, const typename List::value_type& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

Picture read(const PlotOptions& o) {
  std::istringstream in(read_file(o.file));
  std::string text;
  Picture picture;
  std::vector<std::string> quantities, layers;
  for (int64_t number = 1; std::getline(in, text); ++number) {
    const auto fail = [&](const std::string& what) {
      throw Error(fmt::format("{}: line {}: {}", o.file, number, what));
    };
    const std::vector<std::string> fields = csv_fields(text);
    if (number == 1) {
      if (!std::equal(fields.begin(), fields.end(), std::begin(columns), std::end(columns)))
        fail("expected the columns step,layer,gemm,operand,quantity,value of `train --trace`");
      continue;
    }
    if (fields.size() != std::size(columns)) fail(fmt::format("expected 6 fields, found {}", fields.size()));
    double step = 0, value = 0;
    try {
      step = std::stod(fields[0]), value = std::stod(fields[5]);
    } catch (const std::exception&) {
      fail("step and value must be numbers");
    }
    add_once(quantities, fields[4]);
    add_once(layers, fields[1]);
    if (!wanted(o.quantities, fields[4]) || !wanted(o.layers, fields[1]) || !std::isfinite(value)) continue;
    add_once(picture.layers, fields[1]);
    add_once(picture.columns, {fields[2], fields[3]});
    PictureRow& row = found_or_added(
        picture.rows, [&](const PictureRow& r) { return r.quantity == fields[4]; }, PictureRow{fields[4], {}});
    Panel& panel = found_or_added(
        row.panels, [&](const Panel& p) { return p.gemm == fields[2] && p.operand == fields[3]; },
        Panel{fields[2], fields[3], {}});
    panel.lines[fields[1]].emplace_back(step, value);
    if (picture.last == 0) picture.first = step;
    picture.first = std::min(picture.first, step), picture.last = std::max(picture.last, step);
  }
  for (const std::string& word : o.quantities) accepted_index("--quantity", word, quantities);
  for (const std::string& word : o.layers) accepted_index("--layer", word, layers);
  if (picture.rows.empty()) throw Error(o.file + ": no values to draw");
  return picture;
}

// Of the product: fprop Y = X W, dgrad dX = dY W, wgrad dW = dY X.
std::string title_of(const Panel& p) {
  static const std::map<std::string, std::array<const char*, 3>> names = {
      {"fprop", {"X", "W", "Y"}}, {"dgrad", {"dY", "W", "dX"}}, {"wgrad", {"dY", "X", "dW"}}};
  const auto found = names.find(p.gemm);
  if (found == names.end() || p.operand.empty()) return p.gemm;
  return p.gemm + " " + found->second[p.operand == "a" ? 0 : p.operand == "b" ? 1 : 2];
}

void line_style(fmt::memory_buffer& out, size_t layer) {
  fmt::format_to(std::back_inserter(out), R"(stroke="{}"{})", colours[layer % std::size(colours)],
                 layer >= std::size(colours) ? R"( stroke-dasharray="4 2")" : "");
}

void draw_row(fmt::memory_buffer& out, const Picture& picture, const PictureRow& row, int top) {
  const auto put = std::back_inserter(out);
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const Panel& panel : row.panels)
    for (const auto& [layer, line] : panel.lines)
      for (const auto& [step, value] : line) low = std::min(low, value), high = std::max(high, value);
  if (high == low) low = std::min(low, 0.0), high = std::max(high, 0.0);  // a constant is seen against 0
  if (high == low) high = 1;
  // Positive values over more than two decades: a logarithmic axis.
  const bool is_log = low > 0 && high > 100 * low;
  if (!is_log && low > 0 && low < high / 2) low = 0;
  const auto on_axis = [&](double value) { return is_log ? std::log10(value) : value; };
  const double span = high > low ? on_axis(high) - on_axis(low) : 1,
               steps = std::max(picture.last - picture.first, 1.0);
  fmt::format_to(put, "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}{}</text>\n", top + 12, svg_escaped(row.quantity),
                 is_log ? " (logarithmic)" : "");
  for (const auto& [value, y] : {std::pair(high, top + heading), std::pair(low, top + heading + panel_height)})
    fmt::format_to(put, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 5, y + 4,
                   std::fabs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value));
  for (const Panel& panel : row.panels) {
    const auto column = std::find(picture.columns.begin(), picture.columns.end(), std::pair(panel.gemm, panel.operand));
    const int x = left + static_cast<int>(column - picture.columns.begin()) * (panel_width + gap);
    const int y = top + heading;
    fmt::format_to(put, "<text x=\"{}\" y=\"{}\">{}</text>\n", x, y - 6, svg_escaped(title_of(panel)));
    fmt::format_to(put, "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#bbb\"/>\n", x, y,
                   panel_width, panel_height);
    for (size_t i = 0; i < picture.layers.size(); ++i) {
      const auto line = panel.lines.find(picture.layers[i]);
      if (line == panel.lines.end()) continue;
      fmt::format_to(put, "<polyline fill=\"none\" stroke-width=\"1.4\" ");
      line_style(out, i);
      fmt::format_to(put, " points=\"");
      for (const auto& [step, value] : line->second)
        fmt::format_to(put, "{:.1f},{:.1f} ", x + panel_width * (step - picture.first) / steps,
                       y + panel_height * (on_axis(high) - on_axis(value)) / span);
      fmt::format_to(put, "\"><title>{}</title></polyline>\n", svg_escaped(line->first));
    }
  }
}

std::string draw(const Picture& picture) {
  const int row_height = heading + panel_height + gap;
  const int width = left + static_cast<int>(picture.columns.size()) * (panel_width + gap);
  std::vector<std::pair<int, int>> places;  // of the layers' names
  int x = left, y = 14 + static_cast<int>(picture.rows.size()) * row_height + foot;
  for (const std::string& layer : picture.layers) {
    const int needed = 30 + 7 * static_cast<int>(layer.size());
    if (x > left && x + needed > width) x = left, y += 18;
    places.emplace_back(x, y);
    x += needed;
  }
  fmt::memory_buffer out;
  const auto put = std::back_inserter(out);
  fmt::format_to(put,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                 "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
                 width, y + 14);
  int top = 14;
  for (const PictureRow& row : picture.rows) {
    draw_row(out, picture, row, top);
    top += row_height;
  }
  fmt::format_to(put, "<text x=\"{}\" y=\"{}\">steps {:g} to {:g}</text>\n", left, top + 2, picture.first,
                 picture.last);
  for (size_t i = 0; i < picture.layers.size(); ++i) {
    const auto [px, py] = places[i];
    fmt::format_to(put, "<path d=\"M{} {}h18\" stroke-width=\"2\" ", px, py - 4);
    line_style(out, i);
    fmt::format_to(put, "/><text x=\"{}\" y=\"{}\">{}</text>\n", px + 22, py, svg_escaped(picture.layers[i]));
  }
  fmt::format_to(put, "</svg>\n");
  return fmt::to_string(out);
}

void add_plot(CLI::App& app) {
  auto o = std::make_shared<PlotOptions>();
  app.add_option("FILE", o->file, "What `fp4sim train --trace FILE` wrote")->required();
  option(app, "-o,--out FILE", o->out, "The picture, an SVG")->required();
  option(app, "--quantity NAME", o->quantities, "Only these quantities (repeatable; default: all)")
      ->allow_extra_args(false);
  option(app, "--layer NAME", o->layers, "Only these layers (repeatable; default: all)")->allow_extra_args(false);
  add_force_option(app, o->force);
  add_sync_option(app);
  app.callback([o] {
    const std::string picture = draw(read(*o));
    OutputFile file(o->out, o->force);
    file.write(picture);
    file.commit();
  });
  set_example(app, "fp4sim trace plot trace.csv --quantity nmse --out nmse.svg");
}

}  // namespace

void command_trace(CLI::App& app, Invocation&) {
  app.require_subcommand(1);
  add_plot(*app.add_subcommand("plot", "Draw a trace over the steps as small multiples (SVG)"));
  set_example(app, "fp4sim trace plot trace.csv --out trace.svg");
}

}  // namespace fp4::tools
