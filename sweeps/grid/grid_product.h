// The points of a grid's product, by number: what `exclude` leaves of tasks times axes.
#pragma once

#include "sweeps/grid/grid.h"

namespace fp4::sweeps {

// Values by axis (of the grid, or of an `include` entry).
using Choice = std::vector<std::pair<const Axis*, const Json*>>;

struct Point {
  std::string task;
  Choice choice;
  std::vector<std::string> labels;
};

class GridProduct {
 public:
  GridProduct(const Grid& grid, const Simulator& simulator);

  size_t size() const { return size_; }

  // Point `index`, the last axis fastest; nothing when excluded.
  bool point(size_t index, Point& point) const;

 private:
  void check_rule(const std::string& key, const Json& wanted, const std::string& place) const;

  bool holds(const std::pair<const std::string, Json>& entry, const Point& point,
             const std::vector<size_t>& digits) const;

  const Grid& grid_;
  size_t size_ = 1;
};

}  // namespace fp4::sweeps
