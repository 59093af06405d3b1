// The GPU kernels without a GPU: the same bodies, run by host loops (src/gpu/host_device.h) in several launches,
// against the reference backend, bit for bit. Inputs lie on the boundaries of codes and scales (src/golden/inputs.h).
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "src/backends.h"
#include "src/golden/inputs.h"
#include "src/gpu/bench.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/host_device.h"
#include "src/gpu/pipeline.h"
#include "src/spec_text.h"

namespace fp4 {
namespace {

using golden::InputKind;

constexpr RandomPlace place = {5, 3, 2};

struct Shape {
  int64_t rows, cols;
};
// Less than a tile, several tiles with ragged ends, long rows.
constexpr Shape shapes[] = {{3, 37}, {70, 64}, {19, 300}};

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string difference(const Quantized& got, const Quantized& expected) {
  if (got.codes != expected.codes) {
    size_t i = 0;
    while (i < got.codes.size() && got.codes[i] == expected.codes[i]) ++i;
    return "code byte " + std::to_string(i) + " of " + std::to_string(expected.codes.size());
  }
  if (got.scales != expected.scales) return "scales";
  if (!same_floats(got.real_scales, expected.real_scales)) return "real scales";
  if (!same_floats(got.tensor_scale, expected.tensor_scale)) return "tensor scale";
  return bits_of(got.amax) == bits_of(expected.amax) ? "" : "amax";
}

class Comparison {
 public:
  explicit Comparison(gpu::MatrixKind unit) : device_(unit), backend_(gpu::make_backend(&device_)) {}

  const Backend& backend() const { return *backend_; }

  void quantize(const QuantizeCall& call, const std::string& what) {
    REQUIRE(backend_->supports_quantize(call));
    Quantized got;
    Quantized expected;
    backend_->quantize(call, got);
    reference_backend().quantize(call, expected);
    const std::string where = difference(got, expected);
    if (!where.empty()) FAIL_CHECK(what << ": " << where);
    std::vector<float> decoded(static_cast<size_t>(expected.rows * expected.cols), -7.0f);
    std::vector<float> truth = decoded;
    backend_->dequantize(expected, decoded.data(), 1);
    reference_backend().dequantize(expected, truth.data(), 1);
    if (!same_floats(decoded, truth)) FAIL_CHECK(what << ": decoded values");
  }

 private:
  gpu::HostDevice device_;
  std::unique_ptr<Backend> backend_;
};

void compare_quantisers(const std::string& words, bool all_shapes) {
  Comparison comparison(gpu::MatrixKind::none);
  const QuantSpec spec = quant_spec_from_words(words);
  for (const golden::InputKindInfo& kind : golden::input_kind_table) {
    for (const Shape& shape : shapes) {
      if (!all_shapes && &shape != &shapes[2]) continue;
      const std::vector<float> x = make_input(kind.id, spec, shape.rows, shape.cols, place);
      QuantizeCall call;
      call.x = view_of(x.data(), shape.rows, shape.cols);
      call.spec = spec;
      call.place = place;
      comparison.quantize(call, words + " on " + kind.name + " input");
    }
  }
}

std::string with(const std::string& preset, const char* axis, const char* name) {
  return preset + "," + axis + "=" + name;
}

TEST_CASE("long division equals the compiler's 128-bit division", "[quick]") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    uint64_t divisor = random() | uint64_t{1} << 63;
    if (i % 5 == 0) divisor = ~uint64_t{0} << (random() % 63 + 1) | uint64_t{1} << 63;  // extreme digits
    if (i % 7 == 0) divisor = uint64_t{1} << 63;
    uint64_t numerator = random() | uint64_t{1} << 63;
    if (i % 3 == 0) numerator = divisor - random() % 3;
    if (numerator >> 63 == 0) numerator = ~uint64_t{0};
    const uint128 wide = static_cast<uint128>(numerator) << 63;
    const LongQuotient q = long_division(numerator >> 1, numerator << 63, divisor);
    REQUIRE(q.quotient == static_cast<uint64_t>(wide / divisor));
    REQUIRE(q.remainder == static_cast<uint64_t>(wide % divisor));
  }
}

TEST_CASE("gpu bodies: every rounding", "[quick]") {
  for (const RoundingInfo& row : rounding_table) {
    for (const char* preset : {"mxfp4", "nvfp4", "mxfp6_e2m3"}) {
      compare_quantisers(with(preset, "rounding", row.name), false);
      if (!row.is_stochastic) continue;
      for (const char* bits : {"4", "16", "32"}) {
        compare_quantisers(with(with(preset, "rounding", row.name), "random_bits", bits), false);
      }
    }
  }
}

TEST_CASE("gpu bodies: every scale rule and order of operations", "[quick]") {
  for (const ScaleRuleInfo& row : scale_rule_table) {
    for (const char* preset : {"mxfp4", "nvfp4", "ue5m3fp4,prescale=0.75"}) {
      for (const ArithmeticInfo& order : arithmetic_table) {
        const std::string words = std::string(preset) + ",scale_rule=" + row.name + ",arithmetic=" + order.name;
        QuantSpec spec;
        try {
          spec = quant_spec_from_words(words);
        } catch (const std::exception&) {
          continue;  // an impossible combination
        }
        if (invalid_reason(spec).empty()) compare_quantisers(words, false);
      }
    }
  }
}

TEST_CASE("gpu bodies: formats, blocks, policies, presets", "[quick]") {
  for (const Preset& preset : preset_table) compare_quantisers(preset.name, true);
  for (const char* words : {"nvfp4,scale=bf16",
                            "nvfp4,scale=fp32,rounding=stochastic",
                            "nvfp4,scale=ue5m3_122880",
                            "nvfp4,scale=ue1m6",
                            "nvfp4,scale_rounding=stochastic",
                            "nvfp4,scale_rounding=toward_positive",
                            "mxfp4,block=8",
                            "mxfp4,block=64",
                            "mxfp4,block=128",
                            "mxfp4,block=16x16",
                            "nvfp4,block=32x32,rounding=stochastic,scale_rounding=stochastic",
                            "nvfp4,block=16x16,scale_rule=four_over_six",
                            "mxfp4,block=8x8,scale_rule=quest_nearest",
                            "nvfp4,tensor_scale=outer128",
                            "nvfp4,tensor_scale=outer128,arithmetic=te",
                            "mxfp4,block=row",
                            "mxfp4,block=row,scale_rule=quest_nearest,rounding=stochastic",
                            "nvfp4,scale=fp32,block=row,tensor_scale=none,scale_rounding=stochastic",
                            "mxfp4,block=tensor",
                            "nvfp4,scale=fp32,block=tensor,tensor_scale=none,element=e1m2",
                            "nvfp4,block=tensor,scale_rule=four_over_six",
                            "mxfp4,nonfinite=saturate",
                            "mxfp4,negative_zero=drop",
                            "nvfp4,zero_scale=keep",
                            "mxfp4,scale_floor=1",
                            "mxfp4,element=e4m3",
                            "mxfp4,element=e1m2,rounding=stochastic",
                            "mxfp4,element=e3m0",
                            "nvfp4,element=e5m2"}) {
    compare_quantisers(words, true);
  }
}

TEST_CASE("gpu bodies: Hadamards, transposes, bands, smooth maxima", "[quick]") {
  Comparison comparison(gpu::MatrixKind::none);
  for (const char* words :
       {"mxfp4,rounding=stochastic", "nvfp4", "mxfp4,block=16x16", "mxfp4,block=128", "nvfp4,tensor_scale=outer128",
        "nvfp4,tensor_scale=hold", "mxfp4,block=row", "mxfp4,block=tensor"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (const int size : {0, 16, 64, 256}) {
      for (const InputKind kind : {InputKind::gaussian, InputKind::special, InputKind::subnormal}) {
        const std::vector<float> x = make_input(kind, spec, 70, 100, place);
        for (int variant = 0; variant < 4; ++variant) {
          QuantizeCall call;
          call.x = view_of(x.data(), 70, 100);
          if (variant == 1) call.x = view_of(x.data(), 100, 70).transposed();
          if (variant == 2) call.x = {x.data() + 1, 33, 49, 100, 2};  // neither contiguous nor a transpose
          call.spec = spec;
          call.place = place;
          call.hadamard = {size, HadamardSigns::per_step,
                           size == 64 ? HadamardNormalise::fold : HadamardNormalise::sqrt};
          if (variant == 3) {
            call.held_amax = 3.5f;
            call.soft_alpha = spec.block.kind == BlockKind::vector ? 1.0f : 0.0f;
            const bool may_be_band = spec.tensor_scale == TensorScale::none || spec.tensor_scale == TensorScale::hold;
            if (may_be_band && spec.block.kind != BlockKind::tensor) call.row_offset = 128;
          }
          comparison.quantize(
              call, std::string(words) + " hadamard " + std::to_string(size) + " variant " + std::to_string(variant));
        }
      }
    }
  }
  const std::vector<float> x = make_input(InputKind::special, mxfp4_spec, 20, 300, place);
  for (const int size : hadamard_sizes) {
    for (const bool inverse : {false, true}) {
      for (const HadamardNormaliseInfo& normalise : hadamard_normalise_table) {
        const HadamardSpec h = {size, HadamardSigns::per_step, normalise.id};
        std::vector<float> got(static_cast<size_t>(20 * hadamard_padded(h, 300)), -7.0f);
        std::vector<float> expected = got;
        comparison.backend().hadamard(view_of(x.data(), 20, 300), h, place, inverse, got.data(), 1);
        reference_backend().hadamard(view_of(x.data(), 20, 300), h, place, inverse, expected.data(), 1);
        CHECK(same_floats(got, expected));
      }
    }
  }
}

TEST_CASE("gpu bodies: row and column copies in one pass", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::none);
  gpu::Pool pool(device);
  const RandomPlace other = {5, 19, 2};
  for (const char* words :
       {"mxfp4", "mxfp4,block=16,rounding=stochastic", "ue5m3fp4", "nvfp4,tensor_scale=none,block=64"}) {
    const QuantSpec along_spec = quant_spec_from_words(words);
    const QuantSpec across_spec = quant_spec_from_words("mxfp4,rounding=stochastic,block=64");
    REQUIRE(gpu::can_quantize_both_ways(along_spec, across_spec));
    for (const Shape& shape : shapes) {
      const std::vector<float> x = make_input(InputKind::boundary, along_spec, shape.rows, shape.cols, place);
      const MatrixView view = view_of(x.data(), shape.rows, shape.cols);
      gpu::Buffer<float> data(pool, shape.rows * shape.cols);
      data.upload(x.data());
      gpu::Resident along = make_resident(pool, along_spec, shape.rows, shape.cols);
      gpu::Resident across = make_resident(pool, across_spec, shape.cols, shape.rows);
      quantize_both_ways(pool, {data.data(), shape.rows, shape.cols, shape.cols, 1}, place, other, along, across);
      Quantized got[2];
      download(along, got[0]);
      download(across, got[1]);
      Quantized expected[2];
      reference_backend().quantize({.x = view, .spec = along_spec, .place = place}, expected[0]);
      reference_backend().quantize({.x = view.transposed(), .spec = across_spec, .place = other}, expected[1]);
      CHECK(difference(got[0], expected[0]) == "");
      CHECK(difference(got[1], expected[1]) == "");
    }
  }
  CHECK_FALSE(gpu::can_quantize_both_ways(nvfp4_spec, mxfp4_spec));
}

void compare_products(gpu::MatrixKind unit, const std::string& words_a, const std::string& words_b,
                      const Accumulator& accumulator, Shape shape_a, int64_t rows_b, InputKind kind,
                      gpu::ExactUnit exact = gpu::ExactUnit::none) {
  gpu::HostDevice device(unit, 2);
  device.use_exact_unit(exact);
  const std::unique_ptr<Backend> backend = gpu::make_backend(&device);
  MultiplyCall call;
  const QuantSpec spec_a = quant_spec_from_words(words_a);
  const QuantSpec spec_b = quant_spec_from_words(words_b);
  const std::vector<float> a = make_input(kind, spec_a, shape_a.rows, shape_a.cols, place);
  const std::vector<float> b = make_input(kind, spec_b, rows_b, shape_a.cols, place.second_operand());
  call.a = {.x = view_of(a.data(), shape_a.rows, shape_a.cols), .spec = spec_a, .place = place};
  call.b = {.x = view_of(b.data(), rows_b, shape_a.cols), .spec = spec_b, .place = place.second_operand()};
  call.options.accumulator = accumulator;
  call.options.hadamard_divisor = 16.0f;
  call.c_stride = rows_b + 3;
  std::vector<float> got(static_cast<size_t>(shape_a.rows * call.c_stride), -7.0f);
  std::vector<float> expected = got;
  call.c = got.data();
  REQUIRE(backend->multiply(call));
  Quantized qa;
  Quantized qb;
  reference_backend().quantize(call.a, qa);
  reference_backend().quantize(call.b, qb);
  reference_backend().gemm(qa, qb, call.options, expected.data(), call.c_stride);
  INFO(words_a << " | " << words_b << " unit " << static_cast<int>(unit) << " input " << static_cast<int>(kind));
  CHECK(same_floats(got, expected));
  std::fill(got.begin(), got.end(), -7.0f);
  backend->gemm(qa, qb, call.options, got.data(), call.c_stride);
  CHECK(same_floats(got, expected));
}

TEST_CASE("gpu bodies: every accumulator on plain arithmetic", "[quick]") {
  for (const AccumulatorInfo& row : accumulator_table) {
    for (const InputKind kind : {InputKind::boundary, InputKind::special}) {
      for (const char* words : {"mxfp4", "nvfp4", "mxfp6_e3m2"}) {
        compare_products(gpu::MatrixKind::none, words, words, row.row, {5, 133}, 18, kind);
      }
      compare_products(gpu::MatrixKind::none, "mxfp4,block=8", "mxfp4,block=16x16,prescale=0.75", row.row, {5, 70}, 3,
                       kind);
      compare_products(gpu::MatrixKind::none, "nvfp4,tensor_scale=outer128", "graphcore_2509_encode", row.row, {3, 260},
                       4, kind);
      compare_products(gpu::MatrixKind::none, "bf16", "mxfp4", row.row, {3, 40}, 4, kind);
    }
  }
}

// Both vendors' fragment layouts, emulated lane by lane; the third shape has several tiles and more than one chunk of
// K.
TEST_CASE("gpu bodies: fp32_block on the integer matrix units", "[quick]") {
  for (const gpu::MatrixKind unit : {gpu::MatrixKind::nvidia, gpu::MatrixKind::amd}) {
    for (const InputKind kind :
         {InputKind::boundary, InputKind::heavy_tailed, InputKind::special, InputKind::subnormal}) {
      for (const char* words :
           {"mxfp4", "nvfp4", "mxfp4,element=e2m3", "mxfp4,element=e3m0,block=16", "ue5m3fp4", "nvfp4,scale=ue2m5"}) {
        const QuantSpec spec = quant_spec_from_words(words);
        REQUIRE(gpu::matrix_plan(spec, spec, fp32_block).fits);
        compare_products(unit, words, words, fp32_block, {9, 40}, 21, kind);
      }
      compare_products(unit, "mxfp4,block=16", "mxfp4,element=e1m2,block=64", fp32_block, {33, 300}, 17, kind);
    }
    compare_products(unit, "mxfp4", "mxfp4,rounding=stochastic", fp32_block, {150, 290}, 139, InputKind::gaussian);
    compare_products(unit, "nvfp4", "nvfp4,block=16x16", fp32_block, {150, 290}, 139, InputKind::gaussian);
  }
  const Accumulator& exact = accumulator_table[0].row;
  CHECK_FALSE(gpu::matrix_plan(mxfp4_spec, mxfp4_spec, exact).fits);
  CHECK_FALSE(gpu::matrix_plan(mxfp4_spec, nvfp4_spec, fp32_block).fits);
  const QuantSpec wide = quant_spec_from_words("nvfp4,scale=ue1m6");  // 12 + 7 + 7 bits
  CHECK_FALSE(gpu::matrix_plan(wide, wide, fp32_block).fits);
}

struct UnitCase {
  gpu::MatrixKind kind;
  gpu::ExactUnit unit;
};
constexpr UnitCase exact_units[] = {{gpu::MatrixKind::nvidia, gpu::ExactUnit::bf16},
                                    {gpu::MatrixKind::amd, gpu::ExactUnit::bf16},
                                    {gpu::MatrixKind::amd, gpu::ExactUnit::scaled}};

// Sets how many bits the emulated floating-point units keep, for the life of the object.
class EmulatedBits {
 public:
  explicit EmulatedBits(int bits) : before_(gpu::emulated_fraction_bits) { gpu::emulated_fraction_bits = bits; }
  ~EmulatedBits() { gpu::emulated_fraction_bits = before_; }

 private:
  int before_;
};

TEST_CASE("gpu bodies: sums that no order rounds on floating-point units", "[quick]") {
  for (const UnitCase& u : exact_units) {
    for (const InputKind kind : {InputKind::boundary, InputKind::gaussian, InputKind::heavy_tailed, InputKind::special,
                                 InputKind::subnormal}) {
      compare_products(u.kind, "mxfp4", "mxfp4", fp32_block, {9, 40}, 21, kind, u.unit);
      compare_products(u.kind, "mxfp4,element=e2m3", "mxfp4,prescale=0.75", fp32_block, {9, 40}, 21, kind, u.unit);
      compare_products(u.kind, "mxfp4,block=16", "mxfp4,element=e1m2,block=64", fp32_block, {33, 300}, 17, kind,
                       u.unit);
    }
    compare_products(u.kind, "mxfp4", "mxfp4,rounding=stochastic", fp32_block, {150, 290}, 139, InputKind::gaussian,
                     u.unit);
    compare_products(u.kind, "nvfp4", "nvfp4", fp32_block, {30, 70}, 20, InputKind::gaussian, u.unit);
  }
}

TEST_CASE("gpu probe: a unit that keeps too few bits is refused", "[quick]") {
  for (const UnitCase& u : exact_units) {
    gpu::HostDevice device(u.kind);
    gpu::Pool pool(device);
    for (const int bits : {12, 22, 23, 24}) {
      const EmulatedBits emulated(bits);
      INFO("unit " << static_cast<int>(u.kind) << static_cast<int>(u.unit) << ", " << bits << " bits");
      CHECK(gpu::probe_exact_unit(pool, u.kind, u.unit) == (bits >= 23));
    }
  }
}

// The largest integers that a block can hold, of both signs, at both ends of the exponents that the fast path takes:
// the worst case of "the bits of 1.5*2^23 plus D".
TEST_CASE("gpu bodies: worst case of the float that starts at its bits", "[quick]") {
  for (const gpu::MatrixKind unit : {gpu::MatrixKind::nvidia, gpu::MatrixKind::amd}) {
    for (const int sum : {106, 107, 108, 254, 359, 360, 361}) {
      for (const Element element : {Element::e2m1, Element::e3m0, Element::e2m3}) {
        Quantized q[2];
        for (int i = 0; i < 2; ++i) {
          QuantSpec spec;
          spec.element = element;
          q[i].spec = spec;
          q[i].rows = 3;
          q[i].cols = 64;
          q[i].geometry = geometry_of(spec, 3, 64);
          q[i].codes.assign(static_cast<size_t>(3 * q[i].code_row_bytes()), 0);
          const uint32_t largest = format_of(element).largest_code;
          const uint32_t sign = format_of(element).sign_code();
          for (int64_t r = 0; r < 3; ++r) {
            for (int64_t k = 0; k < 64; ++k) {
              const bool minus = r == 1 || (r == 2 && k < 32 && i == 0);
              q[i].set_code(r, k, largest | (minus ? sign : 0u));
            }
          }
          q[i].scales.assign(6, static_cast<uint8_t>(i == 0 ? sum / 2 : sum - sum / 2));
          q[i].tensor_scale = {1.0f};
        }
        gpu::HostDevice device(unit);
        float got[9] = {};
        float expected[9] = {};
        gpu::make_backend(&device)->gemm(q[0], q[1], {}, got, 3);
        reference_backend().gemm(q[0], q[1], {}, expected, 3);
        INFO("exponents " << sum << " element " << static_cast<int>(element));
        CHECK(std::memcmp(got, expected, sizeof got) == 0);
      }
    }
  }
}

TEST_CASE("gpu bodies: bit comparison", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::none);
  gpu::Pool pool(device);
  std::vector<uint32_t> a(100000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint32_t>(i * 2654435761u);
  std::vector<uint32_t> b = a;
  gpu::Buffer<uint32_t> on_a(pool, 100000);
  gpu::Buffer<uint32_t> on_b(pool, 100000);
  const auto compare = [&] {
    on_a.upload(a.data());
    on_b.upload(b.data());
    return gpu::compare_bits(pool, on_a.data(), on_b.data(), 100000);
  };
  CHECK(compare().count == 0);
  CHECK(compare().first == -1);
  b[77777] ^= 1;
  b[99999] ^= 0x80000000u;
  CHECK(compare().count == 2);
  CHECK(compare().first == 77777);
}

// Only that it measures what it says, on data that small.
TEST_CASE("gpu bench: bits first, then ratios", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::nvidia);
  const std::vector<gpu::Measurement> rows = gpu::bench(device, {32, 64, 16, 8, 1});
  REQUIRE(rows.size() == 17);
  for (const gpu::Measurement& row : rows) {
    INFO(row.what);
    CHECK(row.same_bits);
    CHECK(row.seconds > 0);
    CHECK((row.yardstick == "copy") == (row.unit == "GB/s" && row.what != "copy"));
  }
  if (gpu_backend().available()) return;
  CHECK_THROWS_WITH(gpu::bench(), Catch::Contains(gpu_status()));
}

TEST_CASE("gpu backend: memory is pooled, a missing device is named", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::nvidia);
  {
    gpu::Pool pool(device);
    for (int step = 0; step < 5; ++step) gpu::Buffer<float>(pool, 1000 + step);
    CHECK(pool.allocations() == 1);
  }
  CHECK_FALSE(gpu::make_backend(nullptr)->available());
  gpu::Pool pool(device);
  CHECK_FALSE(gpu::probe_native(pool));  // host loops have no conversion of their own
  if (gpu_backend().available()) return;
  CHECK_THROWS_WITH(Dispatcher("gpu"), Catch::Contains(gpu_status()));
}

}  // namespace
}  // namespace fp4
