#include "sweeps/report/forest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace fp4 {

namespace {

constexpr double gap = 24, top = 58, step = 21;
constexpr const char* worse = "#B34700";
constexpr const char* better = "#0060A0";
constexpr const char* unclear = "#666666";
constexpr const char* legend =
    "Difference of the loss with simultaneous 95 % intervals; orange: worse, blue: better; shaded: 2 % of the gap of "
    "the 4-bit format.";

// Letters, not bytes: a name may hold signs of several bytes.
double letters(const std::string& text) {
  return static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string coordinate(double value) { return fmt::format("{:.6g}", value); }

// Two digits with a sign, as on an axis; of `times` the factor behind its binary logarithm.
std::string label(double value, bool times) {
  if (times) return fmt::format("{:.2g} x", std::exp2(value));
  return value == 0 ? "0" : fmt::format("{}{:.2g}", value > 0 ? "+" : "−", std::fabs(value));
}

// Factors less 1 as binary logarithms; one that is not above 0 has none.
std::vector<ReportComparison> as_logarithms(std::vector<ReportComparison> rows) {
  constexpr std::string_view less = ", less 1";
  for (ReportComparison& row : rows) {
    if (row.group.ends_with(less)) row.group.erase(row.group.size() - less.size());
    for (double* value : {&row.difference.mean, &row.difference.low, &row.difference.high, &row.delta})
      *value = std::log2(1 + *value);
  }
  return rows;
}

class Forest {
 public:
  Forest(const std::vector<ReportComparison>& rows, bool times) : rows_(rows), times_(times) {
    for (const ReportComparison& row : rows) {
      if (std::find(tasks_.begin(), tasks_.end(), row.task) == tasks_.end()) tasks_.push_back(row.task);
      if (std::find(groups_.begin(), groups_.end(), row.group) == groups_.end()) groups_.push_back(row.group);
    }
    for (const std::string& group : groups_) {
      lines_.push_back({group, ""});
      for (const ReportComparison& row : rows) {
        const Line line{group, row.name};
        const bool known = std::any_of(lines_.begin(), lines_.end(), [&](const Line& other) {
          return other.group == group && other.name == row.name;
        });
        if (row.group == group && !known) lines_.push_back(line);
      }
    }
    break_columns();
    // Headings of small multiples run over the panels.
    for (const Line& line : lines_)
      if (!line.name.empty() || columns_.size() == 1)
        label_width_ =
            std::max(label_width_, 30 + (line.name.empty() ? 7 * letters(line.group) : 6.3 * letters(line.name)));
    if (columns_.size() > 1) panel_ = 130;
  }

  std::string svg(const ForestWords& words) {
    const double across = label_width_ + static_cast<double>(tasks_.size()) * (panel_ + gap);
    const double width = std::max(across * static_cast<double>(columns_.size()), 860.0);
    const double bottom = top + static_cast<double>(tallest_) * step;
    const double height = bottom + 46;
    text(14, 24, words.title, R"(font-size="15" font-weight="bold")");
    for (size_t k = 0; k < columns_.size(); ++k) {
      const double left = static_cast<double>(k) * across;
      first_ = columns_[k];
      last_ = k + 1 < columns_.size() ? columns_[k + 1] : lines_.size();
      bottom_ = top + static_cast<double>(last_ - first_) * step;
      for (size_t t = 0; t < tasks_.size(); ++t)
        draw_task(tasks_[t], left + label_width_ + static_cast<double>(t) * (panel_ + gap));
      for (size_t i = first_; i < last_; ++i) {
        const double y = top + static_cast<double>(i - first_) * step + 15;
        if (lines_[i].name.empty() && columns_.size() > 1)
          parts_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"17\" fill=\"#ffffff\"/>\n",
                                coordinate(left + 12), coordinate(y - 13), coordinate(across - 24));
        if (lines_[i].name.empty())
          text(left + 14, y, lines_[i].group, R"(font-weight="bold")");
        else
          text(left + 28, y, lines_[i].name);
      }
    }
    text(14, height - 10, words.note.empty() ? legend : words.note, R"(fill="#444444")");
    const std::string w = coordinate(width), h = coordinate(height);
    return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
                       R"(font-family="sans-serif" font-size="12" fill="#222222">)"
                       "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
                       w, h, parts_);
  }

 private:
  struct Line {
    std::string group, name;  // name "": a heading
  };

  // Cuts between groups, so that no column has many more lines than its share.
  void break_columns() {
    const size_t count = lines_.size() > 60 ? std::min<size_t>(1 + lines_.size() / 60, 3) : 1;
    const size_t share = (lines_.size() + count - 1) / count;
    columns_ = {0};
    for (size_t i = 1; i < lines_.size(); ++i) {
      if (!lines_[i].name.empty() || columns_.size() == count) continue;
      size_t end = i + 1;  // of the group that begins here
      while (end < lines_.size() && !lines_[end].name.empty()) ++end;
      if (end - columns_.back() > share + 2) columns_.push_back(i);
    }
    for (size_t k = 0; k < columns_.size(); ++k)
      tallest_ = std::max(tallest_, (k + 1 < columns_.size() ? columns_[k + 1] : lines_.size()) - columns_[k]);
  }

  void text(double x, double y, const std::string& content, const std::string& more = "") {
    parts_ +=
        fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", coordinate(x), coordinate(y), more, svg_escaped(content));
  }

  void draw_task(const std::string& task, double left) {
    std::vector<double> ends;
    double delta = 0;
    for (const ReportComparison& row : rows_) {
      if (row.task != task) continue;
      if (std::isfinite(row.difference.low))
        ends.push_back(std::max(std::fabs(row.difference.low), std::fabs(row.difference.high)));
      if (std::isfinite(row.delta)) delta = row.delta;
    }
    std::sort(ends.begin(), ends.end());
    left_ = left;
    end_ = ends.empty() ? 1 : std::min(ends.back(), 3 * ends[ends.size() / 2]) * 1.06;
    if (!(end_ > 0)) end_ = 1;
    text(left + panel_ / 2, top - 10, task, R"(text-anchor="middle" font-weight="bold")");
    parts_ +=
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#e8eef4\"/>\n", coordinate(x(-delta)),
                    coordinate(top - 2), coordinate(x(delta) - x(-delta)), coordinate(bottom_ - top + 2));
    const double unit = std::pow(10, std::floor(std::log10(end_)));
    const double round = end_ >= 5 * unit ? 5 * unit : end_ >= 2 * unit ? 2 * unit : unit;
    for (const double value : {-round, 0.0, round}) {
      vertical(x(value), value == 0 ? "#555555" : "#dddddd");
      text(x(value), bottom_ + 15, label(value, times_), R"(text-anchor="middle")");
    }
    for (size_t i = first_; i < last_; ++i)
      for (const ReportComparison& row : rows_)
        if (row.task == task && row.group == lines_[i].group && row.name == lines_[i].name)
          draw_row(row, top + static_cast<double>(i - first_) * step + 11);
  }

  void draw_row(const ReportComparison& row, double y) {
    const auto& [mean, low, high] = row.difference;
    if (!std::isfinite(low) || !std::isfinite(high)) return;
    const char* colour = low > 0 ? worse : high < 0 ? better : unclear;
    const std::string fill = fmt::format(R"(fill="{}")", colour);
    if (low > end_) return text(left_ + panel_, y + 4, label(mean, times_) + " ▶", R"(text-anchor="end" )" + fill);
    if (high < -end_) return text(left_, y + 4, "◀ " + label(mean, times_), R"(text-anchor="start" )" + fill);
    parts_ += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                          coordinate(x(low)), coordinate(x(high)), coordinate(y), coordinate(y), colour);
    if (low < -end_) arrow(-1, y, fill);
    if (high > end_) arrow(1, y, fill);
    if (std::fabs(mean) <= end_)
      parts_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" {}/>\n", coordinate(x(mean)), coordinate(y), fill);
    else if (mean > 0)
      text(left_ + panel_ - 10, y - 3, label(mean, times_), R"(text-anchor="end" )" + fill);
    else
      text(left_ + 10, y - 3, label(mean, times_), R"(text-anchor="start" )" + fill);
  }

  void arrow(int side, double y, const std::string& fill) {
    parts_ +=
        fmt::format("<path d=\"M{} {}l{} -4v8z\" {}/>\n", coordinate(x(side * end_)), coordinate(y), -7 * side, fill);
  }

  void vertical(double at, const char* colour) {
    parts_ += fmt::format("<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"{3}\"/>\n", coordinate(at),
                          coordinate(top - 2), coordinate(bottom_), colour);
  }

  double x(double value) const { return left_ + panel_ * (std::clamp(value, -end_, end_) + end_) / (2 * end_); }

  const std::vector<ReportComparison>& rows_;
  const bool times_;
  std::vector<std::string> tasks_, groups_;
  std::vector<Line> lines_;
  std::vector<size_t> columns_;  // the first line of each
  size_t tallest_ = 0;           // lines of the longest column
  double panel_ = 230;
  double label_width_ = 0;
  size_t first_ = 0, last_ = 0;  // the lines of the column that is drawn
  double bottom_ = 0;
  double left_ = 0, end_ = 1;  // of the panel that is drawn
  std::string parts_;
};

}  // namespace

std::string svg_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

std::string forest_svg(const std::vector<ReportComparison>& rows, const ForestWords& words) {
  const std::vector<ReportComparison> drawn = words.times ? as_logarithms(rows) : rows;
  return Forest(drawn, words.times).svg(words);
}

}  // namespace fp4
