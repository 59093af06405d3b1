#include "src/model/model_tensors.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/files/safetensors.h"
#include "src/files/tensor_reader.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

std::uint64_t product(const Shape& shape) { return element_count("model", shape); }

// The tensors of one file; its header's _quantization_metadata, where there is one, in `marks`.
std::vector<TensorPlace> places_in(const std::string& file, std::string* metadata = nullptr) {
  std::vector<TensorPlace> places;
  const Bytes bytes = open_file(file);
  if (file.ends_with(".gguf")) {
    for (GgufTensor& t : list_gguf(bytes)) {
      const TensorInfo info = {std::move(t.name), t.type->dtype, std::move(t.shape)};
      places.push_back({file, info, {info, bytes, t.offset}, t.type});
    }
    return places;
  }
  if (file.ends_with(".safetensors")) {  // one look at the header for both
    SafetensorsHeader header = parse_safetensors(bytes);
    for (SafetensorsEntry& entry : header.entries)
      places.push_back({file, entry.tensor, {entry.tensor, bytes, entry.begin}});
    if (metadata != nullptr) *metadata = header.metadata["_quantization_metadata"];
    return places;
  }
  for (ArrayPlace& array : list_arrays(bytes)) {
    TensorInfo info = array.info;
    if (info.name.empty()) info.name = fs::path(file).filename().string();
    places.push_back({file, std::move(info), std::move(array)});
  }
  return places;
}

// Adds the formats that a ComfyUI mark gives: {"layers": {"blocks.0.q": {"format": "nvfp4"}}}.
void add_marks(ModelNames& names, const std::string& file, const std::string& text) {
  if (text.empty()) return;
  const std::string place = file + ": _quantization_metadata";
  const nlohmann::json document = parse_json(text, place);
  JsonReader reader(document, place);
  for (const auto& [layer, value] : reader.at("layers").entries())
    if (const auto format = value.json().find("format"); format != value.json().end()) {
      if (!format->is_string()) throw Error(fmt::format("{}: {}: format is {}, no text", place, layer, format->dump()));
      names.marks[layer] = format->get<std::string>();
    }
}

// The same of one layer: STEM.comfy_quant holds {"format": "nvfp4"} as bytes.
void add_mark(ModelNames& names, const TensorPlace& place) {
  constexpr std::uint64_t most = 65536;
  constexpr std::string_view ending = ".comfy_quant";
  const std::string where = place.file + ": " + place.info.name;
  if (place.info.dtype != Dtype::u8 || product(place.info.shape) > most)
    throw Error(fmt::format("{}: {} {} is no JSON of bytes, which ComfyUI writes", where, info(place.info.dtype).name,
                            shape_text(place.info.shape)));
  std::string text(static_cast<size_t>(product(place.info.shape)), '\0');
  place.array.bytes->read(place.array.offset, text.data(), text.size());
  const nlohmann::json mark = parse_json(text, where);
  if (!mark.is_object() || !mark.contains("format") || !mark["format"].is_string())
    throw Error(fmt::format("{}: '{}' names no format", where, text));
  names.marks[place.info.name.substr(0, place.info.name.size() - ending.size())] = mark["format"].get<std::string>();
}

// config.json beside a shard says how many rows of a fused qkv matrix are whose, and MLX's mode.
void add_config(ModelNames& names, const std::string& file) {
  const std::string path = (fs::path(file).parent_path() / "config.json").string();
  if (!fs::is_regular_file(path)) return;
  const nlohmann::json whole = parse_json(read_text_file(path, "configuration of the model").text, path);
  if (const auto mlx = whole.find("quantization"); mlx != whole.end() && mlx->is_object() && mlx->contains("mode"))
    names.mlx_mode = (*mlx)["mode"].is_string() ? (*mlx)["mode"].get<std::string>() : (*mlx)["mode"].dump();
  const nlohmann::json& config = whole.contains("text_config") ? whole["text_config"] : whole;
  const auto number = [&](const char* key) -> std::uint64_t {
    constexpr std::uint64_t most = 1 << 24;  // products of two stay below 2^64
    const auto at = config.find(key);
    return at != config.end() && at->is_number_unsigned() && at->get<std::uint64_t>() <= most ? at->get<std::uint64_t>()
                                                                                              : 0;
  };
  const std::uint64_t heads = number("num_attention_heads");
  if (heads == 0) return;
  const std::uint64_t size = number("head_dim") > 0 ? number("head_dim") : number("hidden_size") / heads;
  const std::uint64_t key_heads = number("num_key_value_heads") > 0 ? number("num_key_value_heads") : heads;
  names.query_rows = heads * size;
  names.key_rows = key_heads * size;
}

}  // namespace

TensorReader reader_of(const TensorPlace& place, const OpenOptions& options) {
  if (place.gguf != nullptr) {
    OpenOptions raw;
    raw.raw_dtype = place.info.dtype;
    raw.raw_shape = place.gguf->values == GgufValues::plain ? place.info.shape : Shape{place.bytes()};
    const std::string name = place.file + ": " + place.info.name;
    return TensorReader(open_part(place.array.bytes, name, place.array.offset, place.bytes()), raw);
  }
  if (place.array.bytes == nullptr) return TensorReader(place.file, options);  // the options say what it is
  return reader_at(place.array, options);
}

std::uint64_t TensorPlace::bytes() const {
  if (gguf != nullptr) return product(info.shape) / gguf->block * gguf->bytes;
  return byte_count(info.name, info.dtype, info.shape);
}

std::string ModelTensor::scheme_name() const {
  if (scheme != nullptr) return scheme->name;
  return fp8 ? (*fp8->name == '\0' ? "fp8" : fp8->name) : "";
}

std::string ModelTensor::layout_words() const {
  std::string words;
  if (nibbles != golden::CodeLayout::low_first)
    words = fmt::format("nibbles {}", row_of(golden::code_layout_table, nibbles).name);
  if (scale_layout != golden::ScaleLayout::linear)
    add_word(words, fmt::format("scale layout {}", row_of(golden::scale_layout_table, scale_layout).name));
  return words;
}

std::string ModelTensor::type() const {
  const TensorPlace& first = parts.front();
  return first.gguf != nullptr && first.gguf->values != GgufValues::plain ? first.gguf->name
                                                                          : info(first.info.dtype).name;
}

std::uint64_t ModelTensor::bytes() const {
  std::uint64_t all = 0;
  for (const TensorPlace& part : parts) all += part.bytes();
  return all;
}

double ModelTensor::bits_per_element() const {
  const std::uint64_t elements = product(shape);
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes()) / static_cast<double>(elements);
}

std::vector<ModelTensor> model_tensors(const std::vector<std::string>& files, const Layouts& told) {
  ModelNames names;
  for (const std::string& file : files) {
    std::string metadata;
    for (TensorPlace& place : places_in(file, &metadata)) {
      std::string name = place.info.name;
      if (name.ends_with(".comfy_quant") && file.ends_with(".safetensors")) add_mark(names, place);
      const auto [at, is_new] = names.all.emplace(name, std::move(place));
      if (!is_new) throw Error(file + ": a tensor " + name + " is in " + at->second.file + ", too");
      names.order.push_back(std::move(name));
    }
    add_marks(names, file, metadata);
  }
  if (!files.empty()) add_config(names, files.front());
  return recognised(names, told);
}

}  // namespace fp4
