// Bundles on disk: DIR/manifest.json and DIR/<case>/<array>.npy, the same bytes on every machine, with any backend and
// any number of threads.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/golden/suite.h"

namespace fp4::golden {

using CaseProgress = std::function<void(size_t done, size_t all)>;

// Writes a suite (or any list of cases) as a folder that appears whole or not at all. Answers of cases of more than
// 2^20 elements are not written: the manifest has the SHA-256 of every 2^20 bytes of them. With `as_readmemh` the words
// of readmemh_files() stand beside the arrays.
void write_bundle(const std::string& suite, const std::vector<Case>& cases, const std::filesystem::path& dir,
                  bool force, const std::string& backend, int threads, const CaseProgress& progress = {},
                  bool as_readmemh = false);

// What was read or made of one case, so that each array is at hand once.
struct LoadedCase {
  std::string name;
  std::vector<uint32_t> random_words;
  std::shared_ptr<const CaseInputs> inputs;
  std::vector<LazyArray> to_make;
  std::map<std::string, Array> arrays;
};

struct Bundle {
  std::filesystem::path dir;
  std::string signature;  // of the arithmetic that made it, as its manifest says; none for a case made on the way
  std::vector<Case> cases;
  std::shared_ptr<LoadedCase> loaded = std::make_shared<LoadedCase>();  // of the case that was asked for last
};
// Error with exit code 2 for a folder that is no bundle, 1 for one whose manifest is damaged.
Bundle open_bundle(const std::filesystem::path& dir);
// The same for a manifest at hand; `dir` is where load_array() looks.
Bundle bundle_of(const Json& manifest, const std::filesystem::path& dir);

// A bundle of one case that is nowhere on disk.
Bundle made_bundle(Case c, const std::string& backend, int threads);
// Whether an array of answers that the bundle does not hold is `a`, by the hash of its bytes.
bool is_hash_of(const Case& c, const Array& a);

// One array of a case as stored. Its hash is checked: Error with exit code 1 that names the file and calls the bundle
// damaged when it is missing or not what the manifest says.
// "codes_marlin_uint32" or "scales_8x4" that the bundle does not hold is worked out from its codes or scales. Valid
// until another case is asked for.
const Array& load_array(const Bundle& bundle, const Case& c, const std::string& name);
const CaseInputs& load_inputs(const Bundle& bundle, const Case& c);

// What load_array() will give, without reading it; no value where the case has no such array.
std::optional<ArrayRecord> find_array(const Case& c, const std::string& name);

struct Difference {
  std::string file;
  std::string what;  // a sentence: damage, or other bytes than this version computes
};
// Reads every array that the manifest names, recomputes every case and compares. "CASE: output_fp32_sequential" of what
// the backend declines goes into `declined`; without it that is an Error.
std::vector<Difference> check_bundle(const Bundle& bundle, const std::string& backend, int threads,
                                     const CaseProgress& progress = {}, std::vector<std::string>* declined = nullptr);

// The bundle as text, one line a case: "case=NAME kind=.. spec=.. rows=.. cols=.. ... x=HEX,.. codes=HEX,.. ..." so
// that an implementation in any language can be judged through a pipe. Questions only (no answers) when `answers` is
// false.
std::string stream_line(const Case& c, const std::string& backend, int threads, bool answers,
                        std::vector<std::string>* declined = nullptr);

// Cases as text for hardware simulators: words in hexadecimal, a row or an output a line, that $readmemh reads. A line
// of codes is one packed word: element k at bits k*n and up, n its bits, so that the first is the last digit.
struct TextFile {
  std::string name, text;
};

// Of a product whose arrays are at hand: a.hex, b.hex, a_scales.hex, b_scales.hex, output_ADDER.hex and case.svh with
// widths and counts. Error for a case that no dot unit has.
std::vector<TextFile> readmemh_files(const Case& c, const std::vector<Array>& arrays, const std::string& backend,
                                     int threads);

// Bytes of such a file, little end first; comments and white space do not count. Error, which `place` opens.
std::vector<unsigned char> bytes_of_hex(const std::string& place, std::string_view text);

// The conformance pack: what every preset, adder, order, packing and format of this version does, as .npy files and one
// manifest.json, for implementations that do not have this program. tools/examples/read_pack.py reads it with numpy.
struct PackSize {
  size_t files = 0;
  uint64_t bytes = 0;
};

// A folder that appears whole or not at all:
//   presets/NAME/KIND/{input,codes,scales,tensor_scale,dequantized}.npy   [8, 160] of boundary, special and bf16 inputs
//   accumulators/OPERANDS/{a,b}_{codes,scales,tensor_scale}.npy, NAME.npy  products [6, 5] over K = 256
//   packings/words.npy, NAME.npy                                           draws that a word of 32 bits gives
//   layouts/{codes,scales}.npy, nibbles_NAME.npy, scales_NAME.npy
//   formats/NAME.npy                                                       value of every code, float64
// The manifest has shape, type and SHA-256 of every file, the spec of every preset, the address of every layout, and
// the names of IEEE P3109 where it has the same thing.
PackSize write_pack(const std::filesystem::path& dir, bool force, const std::string& backend, int threads);

}  // namespace fp4::golden
