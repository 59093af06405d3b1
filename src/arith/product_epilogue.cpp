#include "src/arith/product_epilogue.h"

#include "src/text/named_rows.h"

namespace fp4 {

OutputType output_type_of(const std::string& place, std::string_view word) {
  return named_row(place, word, output_type_table).id;
}

std::vector<uint8_t> finished(const Epilogue& e, const std::vector<float>& product, int64_t cols, const float* c,
                              const float* bias) {
  const auto bytes = static_cast<size_t>(row_of(output_type_table, e.output).bytes);
  std::vector<uint8_t> out(product.size() * bytes);
  for (size_t i = 0; i < product.size(); ++i) {
    const float v = epilogue_value(e, product[i], c != nullptr ? c[i] : 0.0f,
                                   bias != nullptr ? bias[i % static_cast<size_t>(cols)] : 0.0f);
    const uint32_t bits = stored_bits(e.output, v);
    for (size_t byte = 0; byte < bytes; ++byte) out[i * bytes + byte] = static_cast<uint8_t>(bits >> (8 * byte));
  }
  return out;
}

}  // namespace fp4
