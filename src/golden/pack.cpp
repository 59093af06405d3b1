#include "fp4/random_words.h"
#include "src/backends/backends.h"
#include "src/backends/signature.h"
#include "src/files/manifest.h"
#include "src/files/output.h"
#include "src/files/sha256.h"
#include "src/files/tensor_writer.h"
#include "src/golden/bundle.h"
#include "src/golden/suite.h"
#include "src/layout/digit_layout.h"
#include "src/text/error.h"
#include "src/text/version.h"

namespace fp4::golden {
namespace {

using nlohmann::ordered_json;

constexpr RandomPlace pack_place = {2026, 0, 1};

// Rounding modes as clause 4.7.4 of the IEEE P3109 interim report names them. Its formats are none of these: they have
// one zero, one NaN and another bias, so that Binary4p2sf is not e2m1, nor Binary8p4se e4m3.
struct StandardName {
  Rounding id;
  const char* name;
};
constexpr StandardName p3109_names[] = {{Rounding::nearest_even, "NearestTiesToEven"},
                                        {Rounding::nearest_away, "NearestTiesToAway"},
                                        {Rounding::toward_positive, "TowardPositive"},
                                        {Rounding::toward_negative, "TowardNegative"},
                                        {Rounding::toward_zero, "TowardZero"},
                                        {Rounding::odd, "ToOdd"},
                                        {Rounding::stochastic_truncated, "StochasticA"},
                                        {Rounding::stochastic_midpoint, "StochasticB"},
                                        {Rounding::stochastic, "StochasticC"}};

class Pack {
 public:
  Pack(const std::filesystem::path& dir, bool force) : folder_(dir, force) {}

  void add(const std::string& name, Dtype dtype, const std::vector<uint64_t>& shape, const void* elements) {
    const std::filesystem::path file = folder_.file(name);
    save_tensor(file.string(), dtype, shape, elements);
    files_[name] = {{"dtype", info(dtype).name}, {"shape", shape}, {"sha256", sha256_file(file)}};
    size_.files += 1;
    size_.bytes += std::filesystem::file_size(file);
  }
  void add(const std::string& folder, const Array& a) {
    add(folder + "/" + a.name + ".npy", parse_dtype("golden pack", a.dtype), a.shape, a.bytes.data());
  }
  PackSize commit(ordered_json manifest) {
    manifest["files"] = files_;
    write_file(folder_.file("manifest.json"), sealed_manifest(std::move(manifest), 1), false);
    folder_.commit();
    return size_;
  }

 private:
  StagedFolder folder_;
  ordered_json files_ = ordered_json::object();
  PackSize size_;
};

template <class Row>
ordered_json described(const Row& row) {
  return {{"name", row.name}, {"doc", row.doc}, {"source", row.source}};
}

// Arrays of a case that stand for themselves; orders of codes and scales have a room of their own.
bool is_plain(const std::string& array) {
  for (const char* name : {"input", "codes", "scales", "tensor_scale", "dequantized", "random"})
    if (array == name) return true;
  return false;
}

ordered_json preset_rows(Pack& pack, const std::string& backend, int threads) {
  auto rows = ordered_json::array();
  uint32_t stream = 0;
  for (const Preset& p : preset_table) {
    if (p.spec.element == Element::fp32) continue;
    for (const bool bf16 : {false, true})
      for (const InputKind kind : {InputKind::boundary, InputKind::special}) {
        if (bf16 && kind == InputKind::special) continue;
        Case c = make_case(p.name, kind, 8, 0, 160, {pack_place.seed, 128 * stream++, pack_place.step});
        if (bf16) c.input_type = RealType::bf16;
        const std::string folder =
            std::string("presets/") + p.name + "/" + row_of(input_kind_table, kind).name + (bf16 ? "_bf16" : "");
        for (const Array& a : make_arrays(c, backend, threads))
          if (is_plain(a.name)) pack.add(folder, a);
      }
    rows.push_back(described(p));
    rows.back()["spec"] = to_json(p.spec);
  }
  return rows;
}

ordered_json accumulator_rows(Pack& pack, const std::string& backend, int threads) {
  auto rows = ordered_json::array();
  const Dispatcher dispatcher(backend);
  for (const AccumulatorInfo& row : accumulator_table)
    rows.push_back(described(row)), rows.back()["parameters"] = to_json(row.row);
  for (const char* operands : {"mxfp4", "nvfp4", "mxfp8"}) {
    const std::string folder = std::string("accumulators/") + operands + "/";
    const QuantSpec spec = quant_spec_from_words(operands);
    Quantized q[2];
    for (const bool is_b : {false, true}) {
      const int64_t height = is_b ? 5 : 6;
      const RandomPlace place = is_b ? pack_place.second_operand() : pack_place;
      const std::vector<float> x = make_input(InputKind::spread, spec, height, 256, place);
      Quantized& made = q[is_b ? 1 : 0];
      dispatcher.quantize({.x = view_of(x.data(), height, 256), .spec = spec, .place = place, .threads = threads},
                          made);
      const std::string side = folder + (is_b ? "b_" : "a_");
      const auto tall = static_cast<uint64_t>(height);
      pack.add(side + "codes.npy", Dtype::u8, {tall, static_cast<uint64_t>(made.code_row_bytes())}, made.codes.data());
      pack.add(side + "scales.npy", Dtype::u8, {tall, static_cast<uint64_t>(made.geometry.scale_cols)},
               made.scales.data());
      pack.add(side + "tensor_scale.npy", Dtype::f32, {1}, made.tensor_scale.data());
    }
    for (const AccumulatorInfo& row : accumulator_table) {
      float c[30];
      try {
        dispatcher.gemm(q[0], q[1], {row.row, 1.0f, threads}, c, 5);
      } catch (const Error&) {
        continue;  // an adder of other operands
      }
      pack.add(folder + row.name + ".npy", Dtype::f32, {6, 5}, c);
    }
  }
  return rows;
}

ordered_json packing_rows(Pack& pack) {
  auto rows = ordered_json::array();
  constexpr uint64_t words = 64;
  std::vector<uint32_t> all;
  for (uint64_t i = 0; i < words; ++i) all.push_back(random_draw(pack_place, i, 32));
  pack.add("packings/words.npy", Dtype::u32, {words}, all.data());
  for (const RandomPackingInfo& row : random_packing_table) {
    rows.push_back(described(row));
    rows.back()["elements_of_a_word"] = row.group, rows.back()["bits"] = row.bits;
    if (row.group == 0) continue;  // as many as its bits say: `fp4sim random`
    std::vector<uint32_t> draws;
    for (uint64_t i = 0; i < words * static_cast<uint64_t>(row.group); ++i)
      draws.push_back(packed_draw(row.id, pack_place, i, row.bits));
    pack.add(std::string("packings/") + row.name + ".npy", Dtype::u32, {words, static_cast<uint64_t>(row.group)},
             draws.data());
  }
  return rows;
}

ordered_json layout_rows(Pack& pack) {
  auto rows = ordered_json::array();
  constexpr int64_t height = 40, codes = 96, blocks = 6;
  std::vector<uint8_t> code(height * codes), six(height * codes), scale(height * blocks);
  for (size_t i = 0; i < code.size(); ++i) {
    code[i] = static_cast<uint8_t>(random_draw(pack_place, i, 4));
    six[i] = static_cast<uint8_t>(random_draw(pack_place, i, 8) & 63u);
  }
  for (size_t i = 0; i < scale.size(); ++i) scale[i] = static_cast<uint8_t>(random_draw(pack_place, i, 8));
  pack.add("layouts/codes.npy", Dtype::u8, {height, codes}, code.data());
  pack.add("layouts/codes_of_six_bits.npy", Dtype::u8, {height, codes}, six.data());
  pack.add("layouts/scales.npy", Dtype::u8, {height, blocks}, scale.data());
  const auto describe = [&](const char* axis, const auto& row) {
    rows.push_back({{"axis", axis}});
    rows.back().update(described(row));
    rows.back()["address"] = address_text(row.placing);
  };
  for (const CodeLayoutInfo& row : code_layout_table) {
    describe("nibbles", row);
    const std::vector<uint8_t> moved = to_layout(row.id, row.bits == 6 ? six : code, height, codes);
    pack.add(std::string("layouts/nibbles_") + row.name + ".npy", row.word_bytes == 4 ? Dtype::u32 : Dtype::u8,
             {moved.size() / static_cast<size_t>(row.word_bytes)}, moved.data());
  }
  for (const ScaleLayoutInfo& row : scale_layout_table) {
    describe("scale-layout", row);
    const std::vector<uint8_t> moved = to_layout(row.id, scale, height, blocks);
    pack.add(std::string("layouts/scales_") + row.name + ".npy", Dtype::u8, {moved.size()}, moved.data());
  }
  return rows;
}

ordered_json format_rows(Pack& pack) {
  auto rows = ordered_json::array();
  const auto take = [&](const auto& table, const char* use) {
    for (const auto& row : table) {
      const int bits = row.format.code_bits();
      if (std::string_view(row.name) == "none" || bits > 16) continue;
      rows.push_back({{"name", row.name}, {"use", use}, {"source", row.source}, {"bits", bits}, {"p3109", nullptr}});
      std::vector<double> values;
      for (uint32_t code = 0; code < uint32_t{1} << bits; ++code)
        values.push_back(static_cast<double>(decode(row.format, code)));
      pack.add(std::string("formats/") + use + "_" + row.name + ".npy", Dtype::f64, {values.size()}, values.data());
    }
  };
  take(element_table, "element");
  take(scale_table, "scale");
  return rows;
}

ordered_json rounding_rows() {
  auto rows = ordered_json::array();
  for (const RoundingInfo& row : rounding_table) {
    ordered_json standard = nullptr;
    for (const StandardName& n : p3109_names)
      if (n.id == row.id) standard = n.name;
    rows.push_back({{"name", row.name}, {"doc", row.doc}, {"source", row.source}, {"p3109", standard}});
  }
  return rows;
}

}  // namespace

PackSize write_pack(const std::filesystem::path& dir, bool force, const std::string& backend, int threads) {
  Pack pack(dir, force);
  ordered_json manifest = {{"schema", 1},
                           {"what", "fp4sim conformance pack"},
                           {"version", version()},
                           {"signature", arithmetic_signature()},
                           {"sha256_of", "the whole .npy"},
                           {"codes", "two of four bits a byte, the even column low; wider ones a byte each"}};
  manifest["presets"] = preset_rows(pack, backend, threads);
  manifest["accumulators"] = accumulator_rows(pack, backend, threads);
  manifest["packings"] = packing_rows(pack);
  manifest["layouts"] = layout_rows(pack);
  manifest["formats"] = format_rows(pack);
  manifest["roundings"] = rounding_rows();
  return pack.commit(std::move(manifest));
}

}  // namespace fp4::golden
