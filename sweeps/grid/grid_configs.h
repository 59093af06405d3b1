// The configuration of a point: the grid's base recipe with the point's values laid over it, as given to the trainer.
#pragma once

#include "sweeps/grid/grid_product.h"

namespace fp4::sweeps {

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
