#include "fp4/presets.h"
#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "tools/bench/benches.h"
#include "tools/cli/tensor/explain.h"

namespace fp4::tools {
namespace {

// The backends that quantise the two operands of a product, once where they are the same.
std::string quantizers(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b) {
  const std::vector<float> x(64 * 64, 1.0f);
  QuantizeCall call = {.x = view_of(x.data(), 64, 64), .spec = a};
  const std::string first = backend.for_quantize(call).name();
  call.spec = b;
  const std::string second = backend.for_quantize(call).name();
  return first == second ? first : first + ", " + second;
}

// The kernels of a product [64, 256] x [64, 256] of numbers whose rows have outliers.
std::string kernels_of(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) {
  constexpr int64_t rows = 64, cols = 256;
  std::vector<float> x(rows * cols);
  uint32_t state = 1;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    const auto spread = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    v = spread * (state % 61 == 0 ? 8.0f : spread);
  }
  std::vector<float> c(rows * rows);
  MultiplyCall call;
  call.a.x = call.b.x = view_of(x.data(), rows, cols);
  call.a.spec = a;
  call.b.spec = b;
  call.options = options;
  call.c = c.data();
  call.c_stride = rows;
  cpu::gemm_uses.reset();
  backend.multiply(call);
  return kernel_shares(cpu::gemm_uses.read());
}

}  // namespace

std::string gemm_tier(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) {
  try {
    return backend.for_gemm(a, b, options).name();
  } catch (const Error&) {
    return "-";
  }
}

Table tier_table(const Dispatcher& backend, bool has_kernels, nlohmann::ordered_json& json) {
  const auto add = [&](const QuantSpec& a, const QuantSpec& b, const GemmOptions& options, Table& table) {
    if (!has_kernels) return;
    const std::string kernels = table.rows.back().back() == "-" ? "-" : kernels_of(backend, a, b, options);
    table.rows.back().push_back(kernels);
    json.back()["kernels"] = kernels;
  };
  Table table{{"preset or recipe", "quantize", "accumulator or product", "gemm"}, {}};
  if (has_kernels) table.columns.push_back({"kernels"});
  for (const Preset& preset : preset_table) {
    const std::string quantizer = quantizers(backend, preset.spec, preset.spec);
    for (const AccumulatorInfo& row : accumulator_table) {
      if (!invalid_reason(row.row, preset.spec, preset.spec).empty()) continue;
      GemmOptions options;
      options.accumulator = row.row;
      const std::string gemm = gemm_tier(backend, preset.spec, preset.spec, options);
      table.rows.push_back({preset.name, quantizer, row.name, gemm});
      json.push_back({{"preset", preset.name}, {"quantize", quantizer}, {"accumulator", row.name}, {"gemm", gemm}});
      add(preset.spec, preset.spec, options, table);
    }
  }
  for (const std::string& name : sim::recipe_names()) {
    const Recipe recipe = sim::recipe_from_json(name);
    const std::pair<const char*, const GemmSpec*> products[] = {
        {"fprop", &recipe.fprop}, {"dgrad", &recipe.dgrad}, {"wgrad", &recipe.wgrad}};
    for (const auto& [product, spec] : products) {
      GemmOptions options;
      options.accumulator = spec->accumulator;
      const std::string quantizer = quantizers(backend, spec->a.quant, spec->b.quant);
      const std::string gemm = gemm_tier(backend, spec->a.quant, spec->b.quant, options);
      table.rows.push_back({name, quantizer, product, gemm});
      json.push_back({{"recipe", name}, {"product", product}, {"quantize", quantizer}, {"gemm", gemm}});
      add(spec->a.quant, spec->b.quant, options, table);
    }
  }
  return table;
}

}  // namespace fp4::tools
