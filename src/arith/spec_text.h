// Words and JSON of the core's specs. One row per field (name, doc, get, set, when it is alive) serves JSON, the
// command line (`preset,key=value,...`), grids and canonical forms; a word that no row knows is an Error that names the
// place, the word and the accepted words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fp4/presets.h"
#include "src/text/json_reader.h"

namespace fp4 {

template <class T>
struct SpecField {
  const char* name;
  const char* doc;
  Json (*get)(const T&);
  void (*set)(T&, const JsonReader& given);
  // Whether the field can change a result, given the others; dead fields are erased from canonical forms.
  bool (*alive)(const T&);
  std::vector<std::string> (*words)();  // accepted words; null for numbers
};

// Sets the fields that `given` names; what `target` held before is noted as their default.
template <class T>
void set_fields(T& target, const std::vector<SpecField<T>>& fields, JsonReader& given) {
  for (const auto& f : fields)
    if (const auto value = given.find(f.name, {f.doc, given.notes() != nullptr ? f.get(target) : Json()}))
      f.set(target, *value);
}

const std::vector<SpecField<QuantSpec>>& quant_fields();
const std::vector<SpecField<EstimatorSpec>>& estimator_fields();
const std::vector<SpecField<HadamardSpec>>& hadamard_fields();

inline const About preset_about = {"a named spec, before the fields beside it"};

// Full JSON object of every field, defaults included. `set_*` changes the fields named in `given` (an object); a
// "preset" key of a QuantSpec is applied first. Setters check words and types, not combinations (invalid_reason does).
Json to_json(const QuantSpec& s);
Json to_json(const HadamardSpec& h);
Json to_json(const Accumulator& a);    // its name, or an object for one described by parameters
Json fields_of(const Accumulator& a);  // the object
Json to_json(const OperandSpec& o, bool is_fprop);
Json to_json(const GemmSpec& g, bool is_fprop);
void set_quant(QuantSpec& s, const JsonReader& given);
void set_hadamard(HadamardSpec& h, const JsonReader& given);
void set_operand(OperandSpec& o, const JsonReader& given);
void set_gemm(GemmSpec& g, const JsonReader& given);
Accumulator accumulator_from(const JsonReader& given);
// The same for values that stand in no file: `place` opens messages.
inline void set_quant(QuantSpec& s, const Json& given, const std::string& place) { set_quant(s, {given, place}); }
inline void set_hadamard(HadamardSpec& h, const Json& given, const std::string& place) {
  set_hadamard(h, {given, place});
}
inline void set_operand(OperandSpec& o, const Json& given, const std::string& place) { set_operand(o, {given, place}); }
inline void set_gemm(GemmSpec& g, const Json& given, const std::string& place) { set_gemm(g, {given, place}); }
inline Accumulator accumulator_from(const Json& given, const std::string& place) {
  return accumulator_from({given, place});
}

// Dead fields at their defaults, an explicit target equal to its default written as 0.
QuantSpec canonical(QuantSpec s);
EstimatorSpec canonical(EstimatorSpec e);
HadamardSpec canonical(HadamardSpec h);
GemmSpec canonical(GemmSpec g, bool is_fprop);

// Why an accumulator cannot add products of such operands, with the named ones that can; empty when it does.
std::string invalid_reason(const Accumulator& a, const QuantSpec& of_a, const QuantSpec& of_b);
// invalid_reason of a whole product: both operands, estimator, accumulator, K-independent conditions.
std::string invalid_reason(const GemmSpec& g, bool is_fprop);

// `preset`, `preset,key=value,...`, `key=value,...` on top of mxfp4, or a path ending in .json (followed by ,key=value
// too); a value that begins with { is JSON. Throws Error also for impossible combinations.
QuantSpec quant_spec_from_words(std::string_view words, const std::string& place = "--spec");
// The preset whose words a --spec started with, or "".
std::string preset_of_words(std::string_view words);
// An accumulator name or the path of a JSON file.
Accumulator accumulator_from_words(std::string_view words, const std::string& place = "--accumulator");
// `place` opens the Error for another word.
ProductFactor product_factor_of(const std::string& place, const std::string& word);

// A number as people write it: 0.75, 1e-3, 2^-6, 1/6. Throws Error.
double number_from_text(std::string_view text, const std::string& place);
// The shortest decimal that reads back as the same float, as a JSON number.
Json json_number(float x);

}  // namespace fp4
