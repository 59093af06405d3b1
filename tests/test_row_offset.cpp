// A tensor handed over in bands of rows has the same codes and scales as in one piece, random draws included.
#include <catch2/catch.hpp>
#include <vector>

#include "fp4/presets.h"
#include "src/backends/backends.h"

TEST_CASE("bands of rows equal the whole operand", "[quick]") {
  constexpr int64_t rows = 37, cols = 45;
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = fp4::random_uniform({7, 3, 1}, i) * 8.0f - 4.0f;
  fp4::QuantSpec vector = fp4::find_preset("ue5m3fp4")->spec;
  vector.rounding = fp4::Rounding::stochastic;
  vector.scale_rounding = fp4::Rounding::stochastic;
  fp4::QuantSpec square = vector;
  square.block = {fp4::BlockKind::square, 8};
  const fp4::Dispatcher backend;
  for (const fp4::QuantSpec& spec : {vector, square}) {
    fp4::QuantizeCall call = {.x = fp4::view_of(x.data(), rows, cols), .spec = spec, .place = {5, 2, 1}};
    fp4::Quantized whole, band;
    backend.quantize(call, whole);
    std::vector<uint8_t> codes, scales;
    for (int64_t first = 0; first < rows; first += 16) {
      const int64_t count = std::min<int64_t>(16, rows - first);
      call.x = fp4::view_of(x.data() + first * cols, count, cols);
      call.row_offset = first;
      backend.quantize(call, band);
      codes.insert(codes.end(), band.codes.begin(), band.codes.end());
      scales.insert(scales.end(), band.scales.begin(), band.scales.end());
    }
    CHECK(codes == whole.codes);
    CHECK(scales == whole.scales);
  }
}
