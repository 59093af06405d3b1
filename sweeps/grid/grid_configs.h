// The points of a grid's product, by number: what `exclude` leaves of tasks times axes; and the configuration of a
// point: the grid's base recipe with the point's values laid over it, as given to the trainer.
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

// Each point's configuration.
class GridConfigs {
 public:
  GridConfigs(const Grid& grid, const Simulator& simulator);

  // The configuration as given to the trainer, and the name of its recipe.
  Json given(const std::string& task, const Choice& choice, std::string& recipe_name) const;

  Json reference(const Json& canonical, const std::string& name) const;

  // The recipes that the grid names by file, in full.
  std::map<std::string, Json> recipes_of_files() const;

 private:
  Json named_base();
  Json recipe(const std::string& word) const;
  void remember(AxisKind kind, const Json& value, const std::string& place);
  void check() const;
  std::string longer_path(const std::string& task, const Axis& axis, size_t value) const;

  void apply(Json& recipe, const Axis& axis, const Json& value, std::string& recipe_name) const;

  Json config(const std::string& task, const Choice& choice, Json recipe) const;

  const Grid& grid_;
  const Simulator& simulator_;
  std::string base_name_;
  std::map<std::string, Json> recipes_;
  Json base_;
};

}  // namespace fp4::sweeps
