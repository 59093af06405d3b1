#include "tools/python/arrays.h"

namespace fp4::python {

Operand Operand::transposed() const {
  return {view.transposed(), {static_cast<uint64_t>(view.cols), static_cast<uint64_t>(view.rows)}};
}

Operand operand_of(const Arguments& given, const char* name) {
  const Json& array = given.json(name);
  Operand out = {{}, array.at("shape").get<Shape>()};
  element_count(name, out.shape);
  out.view = {reinterpret_cast<const float*>(array.at("data").get<uintptr_t>()),
              static_cast<int64_t>(matrix_rows(out.shape)), static_cast<int64_t>(matrix_cols(out.shape)),
              array.at("row_stride").get<int64_t>(), array.at("col_stride").get<int64_t>()};
  return out;
}

Bytes bytes_of(const Arguments& given, const char* name) {
  const Json& array = given.json(name);
  return {reinterpret_cast<const uint8_t*>(array.at("data").get<uintptr_t>()), array.at("type").get<std::string>(),
          array.at("shape").get<Shape>()};
}

}  // namespace fp4::python
