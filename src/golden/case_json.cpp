// A case as it stands in a manifest. What comes back may have been written by anybody: every number is bounded before
// it sizes an array, every name before it becomes a path.
#include <fmt/format.h>

#include "src/golden/suite.h"
#include "src/text/named_rows.h"

namespace fp4::golden {
namespace {

// Floats in a manifest: their bits, so that NaN and -0 survive.
Json words_of(const std::vector<float>& v) {
  Json out = Json::array();
  for (const float x : v) out.push_back(bits_of(x));
  return out;
}

std::vector<float> given_floats(const Json& j, int64_t count, const std::string& place) {
  if (!j.is_array() || static_cast<int64_t>(j.size()) != count) throw Error(place + ": given operand of another size");
  std::vector<float> out;
  for (const Json& w : j) {
    if (!w.is_number_unsigned() || w.get<uint64_t>() > 0xFFFFFFFFu) throw Error(place + ": not the bits of a float");
    out.push_back(float_of(w.get<uint32_t>()));
  }
  return out;
}

// Names become paths: nothing that leaves the bundle's folder.
std::string file_word(const std::string& word, const std::string& place) {
  if (word.empty() || word[0] == '.' || word.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
    throw Error(place + ": '" + word + "' cannot be a file's name");
  return word;
}

uint64_t whole(const Json& j, const char* key, uint64_t low, uint64_t high, const std::string& place) {
  const Json& n = j.at(key);
  if (!n.is_number_unsigned() || n.get<uint64_t>() < low || n.get<uint64_t>() > high)
    throw Error(fmt::format("{}.{}: expected a whole number from {} to {}", place, key, low, high));
  return n.get<uint64_t>();
}

std::vector<uint64_t> shape_from(const Json& j, const std::string& place) {
  std::vector<uint64_t> shape;
  for (const Json& n : j) {
    if (!n.is_number_unsigned()) throw Error(place + ".shape: expected whole numbers from 0");
    shape.push_back(n.get<uint64_t>());
  }
  return shape;
}

void set_operands(Case& c, const Json& j, const std::string& place) {
  constexpr int64_t largest = int64_t{1} << 30;  // elements of one array; stress has 2^20
  const auto side = [&](const char* key) { return static_cast<int64_t>(whole(j, key, 1, 1 << 24, place)); };
  c.rows = side("rows");
  c.cols = side("cols");
  if (c.is_gemm) c.rows_b = side("rows_b");
  if (c.rows * c.cols > largest || c.rows_b * c.cols > largest || c.rows * c.rows_b > largest)
    throw Error(place + ": an array of more than 2^30 elements");
  c.given_is_stored = j.contains("given");
  if (j.contains("given_a")) c.given_a = given_floats(j["given_a"], c.rows * c.cols, place + ".given_a");
  if (j.contains("given_b")) c.given_b = given_floats(j["given_b"], c.rows_b * c.cols, place + ".given_b");
}

}  // namespace

Json case_json(const Case& c) {
  Json j = {{"name", c.name},
            {"kind", c.is_gemm ? "gemm" : "quantize"},
            {"words", c.words},
            {"spec", to_json(quant_spec_from_words(c.words))},
            {"input", row_of(input_kind_table, c.input).name},
            {"rows", c.rows},
            {"cols", c.cols},
            {"hadamard", to_json(c.hadamard)},
            {"seed", c.place.seed},
            {"stream", c.place.stream},
            {"step", c.place.step},
            {"transposed_copies", c.with_transpose}};
  if (c.input_type != RealType::fp32) j["input_type"] = row_of(real_type_table, c.input_type).name;
  const bool is_stored = c.given_is_stored || (is_large(c) && !c.given_a.empty());
  if (is_stored) j["given"] = "stored";
  if (!c.given_a.empty() && !is_stored) j["given_a"] = words_of(c.given_a);
  if (!c.given_b.empty() && !is_stored) j["given_b"] = words_of(c.given_b);
  if (c.is_gemm) {
    j["rows_b"] = c.rows_b;
    j["words_b"] = c.words_b.empty() ? c.words : c.words_b;
    j["accumulators"] = c.accumulators;
    if (c.sparsity != Sparsity::none) j["sparse"] = row_of(sparsity_table, c.sparsity).name;
  }
  return j;
}

Case case_from_json(const Json& j, const std::string& place) {
  try {
    Case c;
    c.name = file_word(j.at("name"), place + ".name");
    c.is_gemm = j.at("kind") == "gemm";
    c.words = j.at("words");
    quant_spec_from_words(c.words, place + ".words");
    c.input = named_row(place + ".input", j.at("input").get<std::string>(), input_kind_table).id;
    c.input_type = named_row(place + ".input_type", j.value("input_type", "fp32"), real_type_table).id;
    set_hadamard(c.hadamard, j.at("hadamard"), place + ".hadamard");
    c.place = {whole(j, "seed", 0, ~uint64_t{0}, place), static_cast<uint32_t>(whole(j, "stream", 0, ~0u, place)),
               static_cast<uint32_t>(whole(j, "step", 0, ~0u, place))};
    c.with_transpose = j.at("transposed_copies");
    if (c.is_gemm) {
      c.words_b = j.at("words_b");
      quant_spec_from_words(c.words_b, place + ".words_b");
      if (j.contains("told_apart")) c.told_apart = j["told_apart"].get<std::map<std::string, uint64_t>>();
      c.accumulators = j.at("accumulators").get<std::vector<std::string>>();
    }
    set_operands(c, j, place);
    if (j.contains("sparse")) {
      const Sparsity sparsity = named_row(place + ".sparse", j["sparse"].get<std::string>(), sparsity_table).id;
      const std::string name = c.name;
      if (sparsity != Sparsity::none) make_sparse(c, sparsity);
      c.name = name;
    }
    for (const auto& [name, array] : j.at("arrays").items())
      c.stored[file_word(name, place + ".arrays")] = {
          array.at("dtype"), shape_from(array.at("shape"), place + ".arrays"), array.at("sha256"),
          array.value("file_sha256", ""), array.value("block_sha256", std::vector<std::string>{})};
    return c;
  } catch (const Json::exception& e) {
    throw Error(place + ": not a golden case: " + e.what());
  }
}

}  // namespace fp4::golden
