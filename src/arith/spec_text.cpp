#include "src/arith/spec_text.h"

#include <fmt/ranges.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "src/arith/element_grids.h"
#include "src/arith/spec_note.h"
#include "src/files/tensor_reader.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

// JSON numbers, and the texts that come from key=value.
double number_from(const JsonReader& v) {
  v.note_form(R"({"type": "string", "pattern": "^[-+0-9.eE]+([/^][-+0-9.eE]+)?$"})");
  return v.json().is_string() ? number_from_text(v.text(), v.place()) : v.number();
}

int integer_from(const JsonReader& v) {
  if (v.notes() != nullptr) v.notes()->say_number(-huge, huge, /*whole=*/true);
  const double d = number_from(v);
  if (d != std::floor(d) || std::abs(d) > 1e9) v.fail("expected a whole number, found " + shown(v.json()));
  return static_cast<int>(d);
}

int hadamard_size_from(const JsonReader& v) {  // editors list the sizes
  if (v.notes() == nullptr) return integer_from(v);
  std::vector<int> sizes(std::begin(hadamard_sizes), std::end(hadamard_sizes));
  sizes.insert(sizes.begin(), 0);
  v.notes()->say_form({{"enum", sizes}});
  v.notes()->say_form({{"type", "string"}, {"pattern", fmt::format("^({})$", fmt::join(sizes, "|"))}});
  return v.json().is_number() ? v.json().get<int>() : 0;
}

float float_from(const JsonReader& v) {
  if (v.notes() != nullptr) v.notes()->say_number(-huge, huge, /*whole=*/false);
  const auto f = static_cast<float>(number_from(v));
  if (!std::isfinite(f)) v.fail("expected a finite fp32 number, found " + shown(v.json()));
  return f;
}

Json block_json(const BlockShape& b) {
  switch (b.kind) {
    case BlockKind::vector: return b.size;
    case BlockKind::square: return Json::array({b.size, b.size});
    case BlockKind::row: return "row";
    case BlockKind::tensor: return "tensor";
  }
  return nullptr;
}

BlockShape block_from(const JsonReader& given) {
  const Json& v = given.json();
  const auto wrong = [&] {
    return Error(given.place() + ": unknown block " + shown(v) +
                 "; accepted: 8, 16, 32, 64, 128, 16x16 (and so on), row, tensor");
  };
  given.note_words({"row", "tensor"});
  given.note_form(R"({"type": "string", "pattern": "^[0-9]+(x[0-9]+)?$"})");
  given.note_form(R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2})");
  if (given.notes() != nullptr) given.notes()->say_number(-huge, huge, /*whole=*/true);
  if (v.is_number()) return {BlockKind::vector, integer_from(given)};
  if (v.is_array()) {
    if (v.size() != 2 || !v[0].is_number_integer() || v[0] != v[1]) throw wrong();
    return {BlockKind::square, integer_from(given.list()[0])};
  }
  if (!v.is_string()) throw wrong();
  const std::string word = given.text();
  if (word == "row") return {BlockKind::row, 0};
  if (word == "tensor") return {BlockKind::tensor, 0};
  const auto x = word.find('x');
  const auto whole = [&](std::string_view digits) {
    int number = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || end != digits.data() + digits.size() || problem != std::errc()) throw wrong();
    return number;
  };
  const int first = whole(std::string_view(word).substr(0, x));
  if (x == std::string::npos) return {BlockKind::vector, first};
  if (whole(std::string_view(word).substr(x + 1)) != first) throw wrong();
  return {BlockKind::square, first};
}

// split(), but for separators inside of brackets, braces and quotes, as JSON values have them.
std::vector<std::string> split_outside_json(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      parts.back() += c;
      parts.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == separator && !quoted && depth <= 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Json choice_json(const QuantSpec& s) {
  if (!s.choice.is_on) return "none";
  return {{"grids", Json::array({element_json(s.element), element_json(s.choice.other)})}, {"flag", "scale_sign"}};
}

// `none`, `e2m1|int4`, or an object. The first grid is `element`.
void choice_from(QuantSpec& s, const JsonReader& v) {
  v.note_words({"none"});
  v.note_form(R"({"type": "string", "pattern": "^[^|]+[|][^|]+$"})");
  v.note_form(R"({"type": "object", "required": ["grids"], "properties": {"by": {"enum": ["mse", "mae", "max"]},
      "grids": {"type": "array", "minItems": 2, "maxItems": 2}, "flag": {"enum": ["scale_sign"]}}})");
  if (v.json().is_string() && v.notes() == nullptr) {
    const std::string text = v.text();
    s.choice = {};
    if (text == "none") return;
    const std::vector<std::string> words = split_outside_json(text, '|');
    if (words.size() != 2) v.fail("expected none, two elements such as e2m1|int4, or an object with `grids`");
    s.element = element_from_word(words[0], v.place());
    s.choice = {true, element_from_word(words[1], v.place())};
    return;
  }
  if (!v.json().is_object()) {
    if (v.notes() != nullptr) return;
    v.fail("expected none, two elements such as e2m1|int4, or an object with `grids`, found " + shown(v.json()));
  }
  JsonReader given = v;
  const JsonReader grids = given.at("grids", {"the two elements"});
  const std::vector<JsonReader> list = grids.list(2);
  if (list.size() != 2) grids.fail("a choice has two grids: one bit tells them apart");
  s.element = element_from(list[0]);
  s.choice = {true, element_from(list[1])};
  if (const auto by = given.find("by", {"what is least, as `error`"})) s.error = by->row(trial_error_table).id;
  if (const auto flag = given.find("flag", {"where the bit is stored", "scale_sign"})) flag->word({"scale_sign"});
  given.finish();
}

// The word of a tensor scale, or a number, or a file that holds it: what a kernel is given.
void tensor_scale_from(QuantSpec& s, const JsonReader& v) {
  v.note_words(names_of(tensor_scale_table));
  v.note_form(R"({"type": "string", "pattern": "^[0-9.][-+0-9.eE]*([/^][-+0-9.eE]+)?$|[.](npy|npz|safetensors)$"})");
  if (v.notes() != nullptr) v.notes()->say_number(0, huge, /*whole=*/false);
  const std::string word = v.json().is_string() ? v.text() : "";
  const auto row = find_row(tensor_scale_table, word);
  if (row != nullptr) {
    s.tensor_scale = row->id;
    if (row->id != TensorScale::given) s.factor = 0.0f;
    return;
  }
  const bool is_file = word.ends_with(".npy") || word.ends_with(".npz") || word.ends_with(".safetensors");
  const bool is_number = v.json().is_number() || (!word.empty() && (std::isdigit(word[0]) != 0 || word[0] == '.'));
  if (!is_file && !is_number) {
    std::vector<std::string> names = names_of(tensor_scale_table);
    names.insert(names.end(), {"a number", "a file that holds one"});
    throw unknown_word(v.place(), v.json().is_string() ? word : shown(v.json()), names);
  }
  s.tensor_scale = TensorScale::given;
  if (is_number && !is_file) {
    s.factor = float_from(v);
    if (!(s.factor > 0)) v.fail("expected a positive number, found " + shown(v.json()));
    return;
  }
  const FloatTensor t = load_floats(word);
  if (t.values.size() != 1) v.fail(word + " holds " + std::to_string(t.values.size()) + " numbers; expected one");
  s.factor = t.values[0];
}

bool always(const QuantSpec&) { return true; }
bool with_scale(const QuantSpec& s) { return s.has_scale(); }
bool with_rounded_scale(const QuantSpec& s) { return s.has_scale() && !is_power_of_two_rule(s.scale_rule); }

// Power-of-two scales without tensor scale and prescale give one payload in every order, but for payloads below 2^-149,
// which only directed rounding can see.
bool arithmetic_matters(const QuantSpec& s) {
  const bool directed = s.rounding == Rounding::away_from_zero || s.rounding == Rounding::toward_positive ||
                        s.rounding == Rounding::toward_negative;
  if (!s.has_scale()) return s.prescale != 1.0f;
  return directed || s.prescale != 1.0f || s.compute != Compute::fp32 || s.has_tensor_scale() ||
         !is_power_of_two_rule(s.scale_rule);
}

template <class T>
void get_fields(Json& out, const T& value, const std::vector<SpecField<T>>& fields) {
  for (const auto& f : fields) out[f.name] = f.get(value);
}

template <class T>
T erase_dead(T value, const std::vector<SpecField<T>>& fields) {
  const T defaults;
  for (const auto& f : fields) {
    if (f.alive(value)) continue;
    const Json at_default = f.get(defaults);
    f.set(value, {at_default, f.name});
  }
  return value;
}

}  // namespace

double number_from_text(std::string_view text, const std::string& place) {
  const auto plain = [&](std::string_view t) {
    const auto v = real_from_text(t);
    if (!v) throw Error(place + ": " + shown(std::string(text)) + " is not a number; accepted: 0.75, 1e-3, 2^-6, 1/6");
    return *v;
  };
  if (const auto caret = text.find('^'); caret != std::string_view::npos)
    return std::pow(plain(text.substr(0, caret)), plain(text.substr(caret + 1)));
  if (const auto slash = text.find('/'); slash != std::string_view::npos)
    return plain(text.substr(0, slash)) / plain(text.substr(slash + 1));
  return plain(text);
}

Json json_number(float x) {
  if (x == std::floor(x) && std::abs(x) < 1e9f) return static_cast<int64_t>(x);
  char buffer[32];
  const char* end = std::to_chars(buffer, buffer + sizeof buffer, x).ptr;
  double d = 0;
  std::from_chars(buffer, end, d);
  return d;
}

// A field of an enum axis: its words are the rows of a table.
#define FP4_AXIS_FIELD(Type, member, table, doc, alive)                                                   \
  {                                                                                                       \
#member,                                                                                                \
   doc,                                                                                                    \
   [](const Type& s) -> Json { return row_of(table, s.member).name; },                                     \
   [](Type& s, const JsonReader& v) { s.member = v.row(table).id; },                                       \
   alive,                                                                                                  \
   [] { return names_of(table); } \
  }
#define FP4_NUMBER_FIELD(Type, member, doc, alive, to, from)                                                        \
  {                                                                                                                 \
#member, doc,                                                                                                   \
        [](const Type& s) -> Json { return to(s.member); }, [](Type & s,                                            \
                                                               const JsonReader& v) { s.member = from(v); }, alive, \
                                                                                                          nullptr   \
  }
#define FP4_ALIVE(Type, ...) [](const Type& s) -> bool { return __VA_ARGS__; }

// long: one table of fields
const std::vector<SpecField<QuantSpec>>& quant_fields() {
  static const std::vector<SpecField<QuantSpec>> fields = {
      {"element", "element format: a name, a list of values or the .json file of one",
       [](const QuantSpec& s) { return element_json(s.element); },
       [](QuantSpec& s, const JsonReader& v) { s.element = element_from(v); }, always,
       [] { return names_of(element_table); }},
      FP4_AXIS_FIELD(QuantSpec, scale, scale_table, "scale format", always),
      FP4_NUMBER_FIELD(
          QuantSpec, block,
          "elements that share a scale: 8, 16, 32, 64 or 128 along K, [32, 32] or 32x32 squared, a row, the tensor",
          with_scale, block_json, block_from),
      FP4_AXIS_FIELD(QuantSpec, scale_rule, scale_rule_table, "block maximum to scale code", with_scale),
      FP4_AXIS_FIELD(QuantSpec, error, trial_error_table, "what four_over_six, mse and choice minimise over a block",
                     FP4_ALIVE(QuantSpec, s.has_scale() && (tries_codes(s.scale_rule) || s.choice.is_on))),
      {"choice", "two grids of which each block takes the better by `error`; none: `element` alone", choice_json,
       choice_from, with_scale, nullptr},
      FP4_AXIS_FIELD(QuantSpec, error_order, error_order_table, "how that error is worked out",
                     FP4_ALIVE(QuantSpec, s.has_scale() && (tries_codes(s.scale_rule) || s.choice.is_on))),
      FP4_AXIS_FIELD(QuantSpec, scale_rounding, rounding_table, "rounding of scale codes", with_rounded_scale),
      FP4_AXIS_FIELD(QuantSpec, scale_overflow, scale_overflow_table, "scales beyond the format's largest",
                     FP4_ALIVE(QuantSpec, with_rounded_scale(s) && format_of(s.scale).has_nan())),
      FP4_AXIS_FIELD(QuantSpec, arithmetic, arithmetic_table, "order of operations", arithmetic_matters),
      FP4_AXIS_FIELD(QuantSpec, payload, payload_order_table, "order of the payload, where it has one of its own",
                     arithmetic_matters),
      FP4_AXIS_FIELD(QuantSpec, payload_type, payload_type_table, "what payloads are rounded to before their codes",
                     with_scale),
      FP4_AXIS_FIELD(QuantSpec, compute, compute_table, "type of these operations", with_scale),
      FP4_AXIS_FIELD(QuantSpec, exponent, exponent_table, "where rules of powers of two take log2 from",
                     FP4_ALIVE(QuantSpec, s.has_scale() && family_of(s.scale_rule) == ScaleFamily::power)),
      FP4_AXIS_FIELD(QuantSpec, decode, decode_table, "order of the decode, which says what is stored for a tensor",
                     FP4_ALIVE(QuantSpec, s.has_tensor_scale())),
      FP4_AXIS_FIELD(QuantSpec, rounding, rounding_table, "rounding of elements", always),
      FP4_NUMBER_FIELD(QuantSpec, random_bits, "bits of a random draw: 4, 8, 16 or 32",
                       FP4_ALIVE(QuantSpec, s.draws_random_bits()), Json, integer_from),
      FP4_AXIS_FIELD(QuantSpec, random_stream, random_stream_table, "where the bits of element rounding come from",
                     FP4_ALIVE(QuantSpec, is_stochastic(s.rounding))),
      FP4_NUMBER_FIELD(QuantSpec, prescale, "1 or 0.75, undone in the decode", always, json_number, float_from),
      {"tensor_scale", "second-level scale: a word, or the number that a kernel is given, or a file that holds it",
       [](const QuantSpec& s) -> Json { return row_of(tensor_scale_table, s.tensor_scale).name; },
       [](QuantSpec& s, const JsonReader& v) { tensor_scale_from(s, v); }, with_scale,
       [] { return names_of(tensor_scale_table); }},
      FP4_NUMBER_FIELD(QuantSpec, factor, "of tensor_scale given: S of orders that start from it, else g; 0: none",
                       FP4_ALIVE(QuantSpec, s.has_scale() && s.tensor_scale == TensorScale::given), json_number,
                       float_from),
      FP4_AXIS_FIELD(
          QuantSpec, factor_order, factor_order_table, "how S is worked out of the amax",
          FP4_ALIVE(QuantSpec, s.has_tensor_scale() && s.tensor_scale != TensorScale::given &&
                                   s.factor_format != FactorFormat::mantissa8 && starts_from_multiplier(s.arithmetic))),
      FP4_AXIS_FIELD(QuantSpec, factor_format, factor_format_table, "what its factors are stored in",
                     FP4_ALIVE(QuantSpec, s.has_tensor_scale())),
      FP4_NUMBER_FIELD(QuantSpec, target, "largest block scale aimed at; 0: the default",
                       FP4_ALIVE(QuantSpec, s.has_tensor_scale() && s.factor_format != FactorFormat::mantissa8 &&
                                                s.target != default_target(s)),
                       json_number, float_from),
      FP4_NUMBER_FIELD(QuantSpec, hold_steps, "steps between samples of `hold`",
                       FP4_ALIVE(QuantSpec, s.has_scale() && s.tensor_scale == TensorScale::hold), Json, integer_from),
      FP4_AXIS_FIELD(QuantSpec, zero_scale, zero_scale_table, "scales that round to zero",
                     FP4_ALIVE(QuantSpec, s.has_scale() && format_of(s.scale).has_zero)),
      FP4_AXIS_FIELD(QuantSpec, zero_block, zero_block_table, "scale of all-zero blocks", with_scale),
      FP4_NUMBER_FIELD(QuantSpec, scale_floor, "smallest scale", with_scale, json_number, float_from),
      FP4_NUMBER_FIELD(QuantSpec, scale_ceiling, "largest scale; 0: that of the format", with_scale, json_number,
                       float_from),
      FP4_NUMBER_FIELD(QuantSpec, scale_add, "added to the scale of quest_floor: 1e-8 in Quartet's code",
                       FP4_ALIVE(QuantSpec, s.has_scale() && s.scale_rule == ScaleRule::quest_floor), json_number,
                       float_from),
      FP4_AXIS_FIELD(QuantSpec, headroom, headroom_table, "share of the element range that scales aim at",
                     FP4_ALIVE(QuantSpec,
                               s.has_scale() && (s.scale_rule == ScaleRule::amax || tries_codes(s.scale_rule)))),
      FP4_AXIS_FIELD(QuantSpec, negative_zero, negative_zero_table, "negatives that round to zero", always),
      FP4_AXIS_FIELD(QuantSpec, nonfinite, nonfinite_table, "infinity and NaN",
                     FP4_ALIVE(QuantSpec,
                               s.has_scale() && (format_of(s.scale).has_nan() || s.nonfinite == Nonfinite::max ||
                                                 s.nonfinite == Nonfinite::max_signed))),
      FP4_AXIS_FIELD(QuantSpec, subnormals, subnormals_table, "fp32 subnormals of the input", always),
      FP4_AXIS_FIELD(QuantSpec, ragged, ragged_table, "K that is no multiple of the block",
                     FP4_ALIVE(QuantSpec, s.has_scale() && s.block.size > 0)),
  };
  return fields;
}

const std::vector<SpecField<EstimatorSpec>>& estimator_fields() {
  static const auto uses = [](const EstimatorSpec& s, std::initializer_list<Estimator> list) {
    for (const Estimator e : list) {
      if (s.estimator == e || (s.scale_gradient != ScaleGradient::none && s.scale_estimator == e)) return true;
    }
    return false;
  };
  static const auto is_dge = [](const EstimatorSpec& s) {
    return uses(s, {Estimator::dge, Estimator::dge_raw, Estimator::dge_raw_as_published});
  };
  static const auto is_clipped = [](const EstimatorSpec& s) {
    return uses(
        s, {Estimator::sigmoid, Estimator::spline, Estimator::sigmoid_as_published, Estimator::spline_as_published});
  };
  static const std::vector<SpecField<EstimatorSpec>> fields = {
      FP4_AXIS_FIELD(EstimatorSpec, estimator, estimator_table, "backward of the element grid",
                     FP4_ALIVE(EstimatorSpec, static_cast<void>(s), true)),
      FP4_AXIS_FIELD(EstimatorSpec, scale_gradient, scale_gradient_table, "gradient through the block scale",
                     FP4_ALIVE(EstimatorSpec, static_cast<void>(s), true)),
      FP4_AXIS_FIELD(EstimatorSpec, scale_estimator, estimator_table, "backward of the scale grid",
                     FP4_ALIVE(EstimatorSpec, s.scale_gradient != ScaleGradient::none)),
      FP4_NUMBER_FIELD(EstimatorSpec, estimator_k, "k of dge", FP4_ALIVE(EstimatorSpec, is_dge(s)), json_number,
                       float_from),
      FP4_NUMBER_FIELD(EstimatorSpec, estimator_cap, "cap of dge", FP4_ALIVE(EstimatorSpec, uses(s, {Estimator::dge})),
                       json_number, float_from),
      FP4_NUMBER_FIELD(EstimatorSpec, temperature, "T of sigmoid",
                       FP4_ALIVE(EstimatorSpec, uses(s, {Estimator::sigmoid, Estimator::sigmoid_as_published})),
                       json_number, float_from),
      FP4_NUMBER_FIELD(EstimatorSpec, lb, "lower clip of the slope", FP4_ALIVE(EstimatorSpec, is_clipped(s)),
                       json_number, float_from),
      FP4_NUMBER_FIELD(EstimatorSpec, ub, "upper clip of the slope", FP4_ALIVE(EstimatorSpec, is_clipped(s)),
                       json_number, float_from),
      FP4_NUMBER_FIELD(EstimatorSpec, alpha, "sharpness of the softmax",
                       FP4_ALIVE(EstimatorSpec, s.scale_gradient != ScaleGradient::none &&
                                                    row_of(scale_gradient_table, s.scale_gradient).ops > 2),
                       json_number, float_from),
  };
  return fields;
}

const std::vector<SpecField<HadamardSpec>>& hadamard_fields() {
  static const std::vector<SpecField<HadamardSpec>> fields = {
      FP4_NUMBER_FIELD(HadamardSpec, size, "0 (none), 16, 32, 64, 128 or 256",
                       FP4_ALIVE(HadamardSpec, static_cast<void>(s), true), Json, hadamard_size_from),
      FP4_AXIS_FIELD(HadamardSpec, signs, hadamard_signs_table, "sign policy", FP4_ALIVE(HadamardSpec, s.size > 0)),
      FP4_AXIS_FIELD(HadamardSpec, normalise, hadamard_normalise_table, "normalisation",
                     FP4_ALIVE(HadamardSpec, s.size > 0)),
      FP4_AXIS_FIELD(HadamardSpec, output, hadamard_output_table, "type of the transformed operand",
                     FP4_ALIVE(HadamardSpec, s.size > 0)),
  };
  return fields;
}

Json to_json(const QuantSpec& s) {
  Json out = Json::object();
  get_fields(out, s, quant_fields());
  return out;
}

Json to_json(const HadamardSpec& h) {
  Json out = Json::object();
  get_fields(out, h, hadamard_fields());
  return out;
}

void set_quant(QuantSpec& s, const JsonReader& from) {
  JsonReader given = from;
  if (const auto preset = given.find("preset", preset_about)) s = preset->row(preset_table).spec;
  set_fields(s, quant_fields(), given);
  given.finish();
}

void set_hadamard(HadamardSpec& h, const JsonReader& from) {
  JsonReader given = from;
  given.note_type("hadamard");
  set_fields(h, hadamard_fields(), given);
  given.finish();
  bool known = h.size == 0;
  for (int size : hadamard_sizes) known = known || h.size == size;
  if (!known)
    throw Error(given.at("size").place() + ": " + std::to_string(h.size) +
                " is no Hadamard size; accepted: 0, 16, 32, 64, 128, 256");
}

QuantSpec canonical(QuantSpec s) { return erase_dead(s, quant_fields()); }
EstimatorSpec canonical(EstimatorSpec e) { return erase_dead(e, estimator_fields()); }
HadamardSpec canonical(HadamardSpec h) { return erase_dead(h, hadamard_fields()); }

#undef FP4_AXIS_FIELD
#undef FP4_NUMBER_FIELD
#undef FP4_ALIVE

namespace {

bool ends_with_json(std::string_view w) { return w.ends_with(".json"); }

// A spec, or a manifest of `quantize`, which holds one.
void set_quant_from_file(QuantSpec& s, const std::string& path, const std::string& place) {
  const NamedText file = read_text_file(path, place);
  const Json document = parse_json(file.text, file.place);
  JsonReader given(document, file.place);
  if (const auto spec = given.find("spec")) return set_quant(s, *spec);
  if (given.find("fprop"))
    given.fail("this is a recipe; a spec describes one operand, as `fp4sim show NAME --kind preset` prints it");
  set_quant(s, given);
}

}  // namespace

QuantSpec quant_spec_from_words(std::string_view words, const std::string& place) {
  QuantSpec s = mxfp4_spec;
  bool first = true;
  for (const std::string& word : split_outside_json(words, ',')) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      const std::string value = word.substr(equals + 1);
      const bool is_object = value.starts_with('{');
      set_quant(s, Json{{word.substr(0, equals), is_object ? parse_json(value, place) : Json(value)}}, place);
    } else if (first && ends_with_json(word)) {
      set_quant_from_file(s, word, place);
    } else if (first) {
      set_quant(s, Json{{"preset", word}}, place);
    } else {
      throw Error(place + ": '" + word +
                  "' is not key=value; a preset stands first, and several specs stand apart by blanks");
    }
    first = false;
  }
  if (const std::string reason = invalid_reason(s); !reason.empty()) throw Error(place + ": " + reason);
  return s;
}

std::string note_of(const QuantSpec& s) {
  if (!s.has_scale() || !is_power_of_two_rule(s.scale_rule) || format_of(s.scale).mantissa_bits == 0) return "";
  return fmt::format("scale_rule={} gives powers of two alone: the mantissa of {} is unused; scale_rule=amax uses it",
                     row_of(scale_rule_table, s.scale_rule).name, row_of(scale_table, s.scale).name);
}

std::string preset_of_words(std::string_view words) {
  const std::string first = split_outside_json(words, ',')[0];
  return find_preset(first) != nullptr ? first : "";
}

ProductFactor product_factor_of(const std::string& place, const std::string& word) {
  return named_row(place, word, product_factor_table).id;
}

Accumulator accumulator_from_words(std::string_view words, const std::string& place) {
  if (ends_with_json(words)) {
    const NamedText file = read_text_file(std::string(words), place);
    return accumulator_from(parse_json(file.text, file.place), file.place);
  }
  return accumulator_from(std::string(words), place);
}

}  // namespace fp4
