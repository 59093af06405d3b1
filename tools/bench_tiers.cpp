#include "tools/bench_tiers.h"

#include "fp4/presets.h"
#include "sim/recipe.h"
#include "src/error.h"

namespace fp4::tools {
namespace {

// The backends that quantise the two operands of a product, once where they are the same.
std::string quantizers(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b) {
  const std::vector<float> x(64 * 64, 1.0f);
  QuantizeCall call;
  call.x = view_of(x.data(), 64, 64);
  call.spec = a;
  const std::string first = backend.for_quantize(call).name();
  call.spec = b;
  const std::string second = backend.for_quantize(call).name();
  return first == second ? first : first + ", " + second;
}

}  // namespace

std::string gemm_tier(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) {
  try {
    return backend.for_gemm(a, b, options).name();
  } catch (const Error&) {
    return "-";
  }
}

Table tier_table(const Dispatcher& backend, nlohmann::ordered_json& json) {
  Table table{{{"preset or recipe"}, {"quantize"}, {"accumulator or product"}, {"gemm"}}, {}};
  for (const Preset& preset : preset_table) {
    const std::string quantizer = quantizers(backend, preset.spec, preset.spec);
    for (const AccumulatorInfo& row : accumulator_table) {
      GemmOptions options;
      options.accumulator = row.row;
      const std::string gemm = gemm_tier(backend, preset.spec, preset.spec, options);
      table.rows.push_back({preset.name, quantizer, row.name, gemm});
      json.push_back({{"preset", preset.name}, {"quantize", quantizer}, {"accumulator", row.name}, {"gemm", gemm}});
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
    }
  }
  return table;
}

}  // namespace fp4::tools
