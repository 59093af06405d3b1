#include "tools/cli/golden/own_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "src/arith/spec_text.h"
#include "src/text/named_rows.h"

namespace fp4::tools {
namespace {

// A file's matrix. Beyond 2^20 elements a bundle holds it as a file of its own and hashes of the answers.
FloatTensor given(const std::string& option, const std::string& path, const OpenOptions& open) {
  FloatTensor t = load_floats(path, open);
  if (t.values.empty() || t.values.size() > size_t{1} << 30)
    throw Error(fmt::format("{} {}: {} elements; a case has 1 to 2^30", option, path, t.values.size()));
  print_notes(t.notes);
  return t;
}

}  // namespace

void add_own_case_options(CLI::App& app, OwnCase& own) {
  option(app, "--spec SPEC", own.spec, "Instead of a bundle or suite one case: PRESET,key=value,..");
  option(app, "--input-b FILE", own.input_b, "Second operand [N, K] beside a file");
  option(app, "--input-type TYPE", own.type, "fp32 (default), or bf16 or fp16, which then hold every input exactly");
  add_place_options(app, own.place);
}

golden::RealType input_type(const std::string& command, const std::string& word) {
  return named_row(command + " --input-type", word, golden::real_type_table).id;
}

namespace {

// The words with the values of an element's file in the place of its name, since a bundle is made again from them.
std::string with_own_values(const std::string& spec, const std::string& place) {
  constexpr std::string_view key = "element=", ending = ".json";
  const size_t at = spec.find(key);
  if (at == std::string::npos || (at > 0 && spec[at - 1] != ',')) return spec;
  const size_t begin = at + key.size(), end = std::min(spec.find(',', begin), spec.size());
  if (!std::string_view(spec).substr(begin, end - begin).ends_with(ending)) return spec;
  return spec.substr(0, begin) + to_json(quant_spec_from_words(spec, place)).at("element").dump() + spec.substr(end);
}

}  // namespace

golden::Case own_case(const std::string& command, const OwnCase& o) {
  const bool from_file = !o.input.empty() && find_row(golden::input_kind_table, o.input) == nullptr;
  if (from_file && !std::filesystem::exists(o.input)) {
    if (o.input.find_first_of("./") != std::string::npos)  // no kind of numbers looks so
      throw Error(command + " --input " + o.input + ": cannot be read: there is no such file");
    std::vector<std::string> kinds = names_of(golden::input_kind_table);
    kinds.emplace_back("a file");
    throw unknown_word(command + " --input", o.input, kinds);
  }
  const std::string spec = with_own_values(o.spec, command + " --spec");
  if (spec.find(".json") != std::string::npos)
    throw Error(command + " --spec: a bundle is made again from words: PRESET,key=value,.. instead of a file");
  quant_spec_from_words(spec, command + " --spec");
  std::vector<int64_t> sides;
  FloatTensor a, b;
  if (from_file) {
    a = given(command + " --input", o.input, o.open);
    sides = {static_cast<int64_t>(matrix_rows(a.shape)), static_cast<int64_t>(matrix_cols(a.shape))};
    if (!o.input_b.empty()) {
      b = given(command + " --input-b", o.input_b, o.open);
      sides.insert(sides.begin() + 1, static_cast<int64_t>(matrix_rows(b.shape)));
      if (matrix_cols(b.shape) != matrix_cols(a.shape))
        throw Error(command + " --input-b " + o.input_b + ": its rows are not as long as those of " + o.input);
    }
    if (!o.shape.empty()) throw Error(command + " --shape: a file has a shape of its own");
  } else {
    if (!o.input_b.empty()) throw Error(command + " --input-b: only beside a file for --input");
    for (const uint64_t side : parse_shape(command + " --shape", o.shape)) sides.push_back(static_cast<int64_t>(side));
    element_count(command + " --shape", parse_shape(command + " --shape", o.shape));
  }
  if ((sides.size() != 2 && sides.size() != 3) || *std::min_element(sides.begin(), sides.end()) < 1)
    throw Error(command + " --shape: expected MxK (a quantisation) or MxNxK (a product), sides from 1");
  const bool is_gemm = sides.size() == 3;
  const std::string kind = from_file ? "boundary" : !o.input.empty() ? o.input : is_gemm ? "spread" : "boundary";
  golden::Case c = golden::make_case(spec, find_row(golden::input_kind_table, kind)->id, sides.front(),
                                     is_gemm ? sides[1] : 0, sides.back(), o.place.place());
  if (from_file && command == "verify") {  // no folder is named after it: the file's name says more than a suite's word
    const std::string word = "." + kind + ".", stem = std::filesystem::path(o.input).stem().string();
    if (const size_t at = c.name.find(word); at != std::string::npos) c.name.replace(at, word.size(), "." + stem + ".");
  }
  c.given_a = std::move(a.values);
  c.given_b = std::move(b.values);
  const std::string accumulators = command + (command == "verify" ? " --accumulator" : " --accumulators");
  if (!is_gemm && !o.accumulators.empty()) throw Error(accumulators + ": a shape MxK has no product");
  for (const std::string& name : o.accumulators) accumulator_from(name, accumulators);
  if (!o.accumulators.empty()) c.accumulators = o.accumulators;
  c.input_type = input_type(command, o.type);
  const Sparsity sparsity = named_row(command + " --sparse", o.sparse, sparsity_table).id;
  if (sparsity != Sparsity::none) golden::make_sparse(c, sparsity);
  return c;
}

}  // namespace fp4::tools
