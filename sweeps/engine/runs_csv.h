// The runs of a store as a table that people read, git keeps and `sweep import` takes back: one line for each run, with
// its keys, results, metrics, curve and digest, and at its end a hash of the line, so that a changed number is found.
// Failed runs are left out; hosts are too. A store made of the table lacks nothing that `sweep run` would do again.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sweeps/engine/store.h"

namespace fp4::sweeps {

struct RunRow {
  std::string sweep;   // the grid's name
  std::string recipe;  // "" where neither the store's plan nor an imported table holds the configuration
  std::string version, signature, train_signature;
  RunRecord run;
  std::string place;  // "runs.csv, line 7": opens messages
};

// By (task, recipe, hash, seed); a last line `#grid` holds the store's grid and the recipes that it names by file.
std::string runs_csv(const Store& store);

struct GridTexts {
  std::string name, grid, recipes;  // as a store keeps them; all "" of a table without a grid
};
// Throws as parse_runs_csv does.
GridTexts parse_runs_grid(const std::string& text, const std::string& place);

// Throws Error naming the line and the word: exit code 1 for a line whose hash does not fit, 2 for one that is no row.
std::vector<RunRow> parse_runs_csv(const std::string& text, const std::string& place);

// Puts the rows into the store of `folder`, which is made where it is missing; returns how many of them it had not. The
// runs of one sweep serve any other that asks for the same configurations: the store keeps the name it has, or none.
// `signature` and `train_signature` are the program's, which the rows must have; throws Error (exit code 1) naming the
// first line with another.
size_t import_runs(const std::vector<RunRow>& rows, const std::filesystem::path& folder, const std::string& signature,
                   const std::function<std::string(const std::string& task)>& train_signature);

}  // namespace fp4::sweeps
