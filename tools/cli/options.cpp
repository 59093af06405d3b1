// Spelling and help of shared options.
#include "tools/cli/options.h"

#include <fmt/core.h>

#include <cmath>

#include "src/files/output.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "src/threads/parallel.h"
#include "tools/cli/streams.h"

namespace fp4::tools {

void add_place_options(CLI::App& app, PlaceOptions& options) {
  option(app, "--seed S", options.seed, "Key of the random bits (default 0)");
  option(app, "--stream N", options.stream, "Stream of the first operand's element rounding (default 0)");
  option(app, "--step N", options.step, "Training step (default 0)");
}

int BackendOptions::thread_count() const { return threads > 0 ? threads : threads_of_machine(); }

CLI::Option* add_backend_option(CLI::App& app, std::string& backend, const std::string& more) {
  return app.add_option("--backend", backend, joined(backend_names()) + more);
}

void add_backend_options(CLI::App& app, BackendOptions& options) {
  add_backend_option(app, options.backend, "; a forced one is never replaced")->type_name("BACKEND");
  option(app, "--threads N", options.threads, "Threads (default: all cores); they never change a result")
      ->check(CLI::Range(1, 4096));
}

OpenOptions InputOptions::open_options() const { return open_options_of(dtype, shape, entry, uint16_is_bfloat16); }

void add_input_options(CLI::App& app, InputOptions& options) {
  option(app, "--dtype TYPE", options.dtype,
         "Element type of a raw file (with --shape), or of a .npy whose type is opaque (|V1, <V2): bf16, f8_e4m3, ...");
  option(app, "--shape SHAPE", options.shape, "Shape of a raw file: 128x4096");
  option(app, "--entry NAME", options.entry, "Array of a .npz or .safetensors with several (also FILE:NAME)");
  app.add_flag("--bf16", options.uint16_is_bfloat16,
               "uint16 or opaque 2-byte elements are bfloat16 (numpy has no such type)");
}

void add_force_option(CLI::App& app, bool& force) {
  app.add_flag("-f,--force", force, "Replace existing results");
  // A file that cannot be written there is told before any work; a folder is (StagedFolder).
  app.parse_complete_callback([&app, &force] {
    for (const char* name : {"--out", "--csv", "--json", "--trace", "--requests", "--figure"}) {
      const CLI::Option* option = app.get_option_no_throw(name);
      if (option == nullptr || option->empty() || !option->get_type_name().starts_with("FILE")) continue;
      const std::string file = option->results().back();
      if (file != "-" && option->get_type_name() != "FILE|DIR") StagedFile(file, force);
    }
  });
}

void add_sync_option(CLI::App& app) {
  app.add_flag_callback(
      "--no-sync", [] { set_output_sync(false); }, "Do not wait until results are on the disk");
}

void add_json_option(CLI::App& app, bool& json) { app.add_flag("--json", json, "Print JSON"); }

static CLI::Validator finite_number(const char* words, bool with_zero) {
  return {[words, with_zero](const std::string& text) {
            double value = 0;
            const bool is_good = CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
                                 (value > 0 || (with_zero && value == 0));
            return is_good ? std::string() : "'" + text + "' is no number " + words;
          },
          ""};
}

CLI::Validator above_zero() { return finite_number("above 0", /*with_zero=*/false); }
CLI::Validator from_zero() { return finite_number("from 0", /*with_zero=*/true); }

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say("fp4sim: note: {}\n", note);
}

void check_draws(int bits, uint64_t first, uint64_t count) {
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16 && bits != 32)
    throw Error(fmt::format("random --bits: {} is not a draw's width; accepted: 1, 2, 4, 8, 16, 32", bits));
  if (count > 0 && first > UINT64_MAX - (count - 1)) throw Error("random --first: positions end at 2^64 - 1");
}

std::vector<uint32_t> load_random_words(const std::string& option, const std::string& path) {
  if (path.empty()) return {};
  const RawTensor tensor = load_raw(path);
  if (info(tensor.dtype).kind != DtypeKind::integer)
    throw Error(fmt::format("{} {}: holds {}; random bits are unsigned integers: uint8, uint16 or uint32", option, path,
                            info(tensor.dtype).name));
  if (tensor.bytes.empty()) throw Error(fmt::format("{} {}: is empty", option, path));
  std::vector<uint32_t> words((tensor.bytes.size() + 3) / 4, 0);
  for (size_t i = 0; i < tensor.bytes.size(); ++i)
    words[i / 4] |= static_cast<uint32_t>(tensor.bytes[i]) << (8 * (i % 4));
  return words;
}

void add_random_words_option(CLI::App& app, const std::string& name, std::string& path, const std::string& of) {
  option(app, name + " FILE", path,
         fmt::format("Random bits {} in place of Philox's, an array of unsigned integers: position i takes random_bits "
                     "bits from bit i*random_bits on, low bits first",
                     of));
}

std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

}  // namespace fp4::tools
