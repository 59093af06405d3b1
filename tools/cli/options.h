// Options that several commands share, with one spelling and one help text.
#pragma once

#include <concepts>
#include <string>

#include "fp4/rng.h"
#include "src/backends/backends.h"
#include "src/files/tensor_reader.h"
#include "tools/cli/command.h"

namespace fp4::tools {

// --seed S --stream N --step N: where the random bits of a command lie (rng.h).
struct PlaceOptions {
  uint64_t seed = 0;
  uint32_t stream = 0;
  uint32_t step = 0;
  RandomPlace place() const { return {seed, stream, step}; }
};
void add_place_options(CLI::App& app, PlaceOptions& options);

// --backend NAME --threads N. Threads never change a result; 0 stands for all cores.
struct BackendOptions {
  std::string backend = "auto";
  int threads = 0;
  int thread_count() const;
};
void add_backend_options(CLI::App& app, BackendOptions& options);
// --backend alone; `more` follows the accepted words in its help.
CLI::Option* add_backend_option(CLI::App& app, std::string& backend, const std::string& more);

// --dtype T --shape RxC for raw files, --dtype T for opaque numpy types, --entry NAME for archives, --bf16 for bfloat16
// kept as uint16.
struct InputOptions {
  std::string dtype, shape, entry;
  bool uint16_is_bfloat16 = false;
  OpenOptions open_options() const;
};
void add_input_options(CLI::App& app, InputOptions& options);

void add_force_option(CLI::App& app, bool& force);
// --no-sync: results are renamed into place without waiting for the disk (src/files/output.h).
void add_sync_option(CLI::App& app);
/// Help shows the first long name only; the others are older words that scripts may use.
inline void keep_older_names(CLI::Option* option) { option->configurable(false); }

void add_json_option(CLI::App& app, bool& json);

// Checks of an option: a finite number above 0, or from 0.
CLI::Validator above_zero();
CLI::Validator from_zero();

// One line per note on stderr: "fp4sim: note: x.npy: float64 rounded to float32".
void print_notes(const std::vector<std::string>& notes);

// Error for a width of draws that does not exist and for positions beyond 2^64 - 1.
void check_draws(int bits, uint64_t first, uint64_t count);

// `--random-words FILE`: the random bits that a kernel took, in place of Philox's (fp4/backend.h, QuantizeCall).
void add_random_words_option(CLI::App& app, const std::string& name, std::string& path, const std::string& of);
// The bytes of an array of unsigned integers (.npy and others; a raw file takes --dtype and --shape), low bytes first.
// Error for other types and for an empty file.
std::vector<uint32_t> load_random_words(const std::string& option, const std::string& path);

// 1234567 -> "1,234,567".
std::string grouped(int64_t value);
template <std::unsigned_integral Count>
std::string grouped(Count value) {
  return grouped(static_cast<int64_t>(value));
}

}  // namespace fp4::tools
