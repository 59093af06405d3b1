// A variant added to an axis as README.md says (add_variants.py, which adds one to every axis of a copy of
// include/fp4): does every backend decline it, or give the reference's bits, without a line of a fast path being
// changed? And the kernels of the trainer? This program is compiled with that copy.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <random>

#include "fp4/presets.h"
#include "sim/engine/estimator_gradient.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"
#include "tests/support/host_device.h"
#include "tests/support/same_floats.h"

using namespace fp4;

namespace {

template <class Id>
void set_last(Id& field, Id last) {
  REQUIRE(field != last);
  field = last;
}

// One change of a spec a line: the variant of an axis.
struct Change {
  const char* axis;
  void (*apply)(QuantSpec&);
};
constexpr Change changes[] = {
    {"element", [](QuantSpec& s) { set_last(s.element, Element::variant); }},
    {"element of 4 bits", [](QuantSpec& s) { set_last(s.element, Element::variant4); }},
    {"scale", [](QuantSpec& s) { set_last(s.scale, Scale::variant); }},
    {"scale rule", [](QuantSpec& s) { set_last(s.scale_rule, ScaleRule::variant); }},
    {"rounding", [](QuantSpec& s) { set_last(s.rounding, Rounding::variant); }},
    {"drawn rounding", [](QuantSpec& s) { set_last(s.rounding, Rounding::variant_drawn); }},
    {"arithmetic", [](QuantSpec& s) { set_last(s.arithmetic, Arithmetic::variant); }},
    {"payload order", [](QuantSpec& s) { set_last(s.payload, PayloadOrder::variant); }},
    {"tensor scale", [](QuantSpec& s) { set_last(s.tensor_scale, TensorScale::variant); }},
    {"zero block", [](QuantSpec& s) { set_last(s.zero_block, ZeroBlock::variant); }},
    {"zero scale", [](QuantSpec& s) { set_last(s.zero_scale, ZeroScale::variant); }},
    {"negative zero", [](QuantSpec& s) { set_last(s.negative_zero, NegativeZero::variant); }},
    {"nonfinite", [](QuantSpec& s) { set_last(s.nonfinite, Nonfinite::variant); }},
    {"ragged", [](QuantSpec& s) { set_last(s.ragged, Ragged::variant); }},
};

// Presets that the vector kernels take by different ways.
std::vector<QuantSpec> specs() {
  std::vector<QuantSpec> list = {mxfp4_spec, nvfp4_spec};
  list.push_back(mxfp4_spec);
  list.back().rounding = Rounding::stochastic;
  list.push_back(nvfp4_spec);
  list.back().arithmetic = Arithmetic::te;
  list.back().zero_scale = ZeroScale::keep;
  list.push_back(mxfp4_spec);
  list.back().element = Element::e4m3;
  list.back().block = {BlockKind::square, 16};
  return list;
}

// Every kind of value: blocks of zeros, tiny and huge ones, an infinity, a NaN.
std::vector<float> values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int>(random() % 65) - 32) / static_cast<float>(1 + random() % 16);
    if (i / 32 % 7 == 3) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (i / 32 % 7 == 5) x[i] *= 1e-30f;
  }
  x[40] = float_of(float_infinity_bits);
  x[200] = float_of(canonical_nan_bits);
  return x;
}

const std::vector<const Backend*>& backends() {
  static gpu::HostDevice device(gpu::MatrixKind::nvidia);
  static const std::unique_ptr<Backend> host_gpu = gpu::make_backend(&device);
  static const std::vector<const Backend*> list = [] {
    std::vector<const Backend*> available = {host_gpu.get()};
    for (const Backend* b : all_backends()) {
      if (b->available() && b != &reference_backend()) available.push_back(b);
    }
    return available;
  }();
  return list;
}

constexpr int64_t rows = 21, cols = 130;

// A call on `x` and what the reference makes of it; every backend that takes the call must make the same.
Quantized compare_operand(const QuantSpec& spec, const HadamardSpec& h, const std::vector<float>& x) {
  QuantizeCall call;
  call.x = view_of(x.data(), rows, cols);
  call.spec = spec;
  call.hadamard = h;
  call.place = {5, 3, 2};
  Quantized expected;
  reference_backend().quantize(call, expected);
  std::vector<float> decoded(static_cast<size_t>(expected.rows * expected.cols));
  reference_backend().dequantize(expected, decoded.data(), 1);
  for (const Backend* b : backends()) {
    INFO(b->name());
    if (b->supports_quantize(call)) {
      Quantized got;
      b->quantize(call, got);
      CHECK(got.codes == expected.codes);
      CHECK(got.scales == expected.scales);
      CHECK(test::same_floats(got.tensor_scale, expected.tensor_scale));
    }
    if (b->supports_dequantize(expected)) {
      std::vector<float> got(decoded.size(), -7.0f);
      b->dequantize(expected, got.data(), 1);
      CHECK(test::same_floats(got, decoded));
    }
  }
  return expected;
}

void compare_product(const Quantized& a, const Quantized& b, const GemmOptions& options) {
  std::vector<float> expected(static_cast<size_t>(a.rows * b.rows), -7.0f);
  reference_backend().gemm(a, b, options, expected.data(), b.rows);
  for (const Backend* backend : backends()) {
    INFO(backend->name());
    if (!backend->supports_gemm(a.spec, b.spec, options)) continue;
    std::vector<float> got(expected.size(), -7.0f);
    backend->gemm(a, b, options, got.data(), b.rows);
    CHECK(test::same_floats(got, expected));
  }
}

// Quantised on the way, which fast paths do by other code.
void compare_multiply(const QuantSpec& spec, const HadamardSpec& h, const GemmOptions& options,
                      const std::vector<float>& x) {
  std::vector<float> expected(static_cast<size_t>(rows * rows), -7.0f);
  MultiplyCall call;
  call.a.x = call.b.x = view_of(x.data(), rows, cols);
  call.a.spec = call.b.spec = spec;
  call.a.hadamard = call.b.hadamard = h;
  call.options = options;
  call.c_stride = rows;
  call.c = expected.data();
  static const Dispatcher reference("reference");
  reference.multiply(call);
  for (const Backend* backend : backends()) {
    INFO(backend->name());
    std::vector<float> got(expected.size(), -7.0f);
    call.c = got.data();
    if (backend->multiply(call)) CHECK(test::same_floats(got, expected));
  }
}

TEST_CASE("variants of specs that no fast path knows", "[quick]") {
  const std::vector<float> x = values(rows * cols, 1);
  int compared = 0;
  for (const Change& change : changes) {
    for (QuantSpec spec : specs()) {
      change.apply(spec);
      if (!invalid_reason(spec).empty()) continue;
      INFO(change.axis << ", e" << static_cast<int>(spec.element) << " s" << static_cast<int>(spec.scale));
      const Quantized q = compare_operand(spec, {}, x);
      compare_product(q, q, {});
      compare_multiply(spec, {}, {}, x);
      ++compared;
      QuantizeCall call;
      call.spec = spec;
      for (const Backend* b : backends()) CHECK_FALSE(b->supports_quantize(call));
    }
  }
  CHECK(compared == 66);
}

TEST_CASE("variants of Hadamards that no fast path knows", "[quick]") {
  const std::vector<float> x = values(rows * cols, 2);
  HadamardSpec signs = {16, HadamardSigns::variant, HadamardNormalise::sqrt};
  HadamardSpec normalise = {32, HadamardSigns::per_step, HadamardNormalise::variant};
  for (const HadamardSpec& h : {signs, normalise}) {
    for (const QuantSpec& spec : specs()) {
      compare_operand(spec, h, x);
      compare_multiply(spec, h, {}, x);
    }
    for (const bool inverse : {false, true}) {
      const auto count = static_cast<size_t>(rows * hadamard_padded(h, cols));
      std::vector<float> expected(count, -7.0f);
      const MatrixView view = view_of(x.data(), rows, cols);
      reference_backend().hadamard(view, h, {5, 3, 2}, inverse, expected.data(), 1);
      for (const Backend* b : backends()) {
        CHECK_FALSE(b->supports_hadamard(h));
        if (!b->supports_hadamard(h)) continue;
        std::vector<float> got(count, -7.0f);
        b->hadamard(view, h, {5, 3, 2}, inverse, got.data(), 1);
        CHECK(test::same_floats(got, expected));
      }
    }
  }
}

TEST_CASE("variants of accumulators that no fast path knows", "[quick]") {
  std::vector<float> x = values(rows * cols, 3);
  x[40] = x[200] = 1.0f;  // sums that are numbers
  int seen = 0;
  for (const AccumulatorInfo& info : accumulator_table) {
    if (std::string_view(info.name).substr(0, 8) != "variant_") continue;
    ++seen;
    GemmOptions options;
    options.accumulator = info.row;
    for (const QuantSpec& spec : specs()) {
      INFO(info.name);
      const Quantized q = compare_operand(spec, {}, x);
      compare_product(q, q, options);
      compare_multiply(spec, {}, options, x);
    }
  }
  CHECK(seen == 3);
}

// The definition, block by block.
std::vector<float> defined_gradient(const Quantized& q, const EstimatorSpec& e, const std::vector<float>& x,
                                    const std::vector<float>& upstream, const std::vector<float>& decoded) {
  std::vector<float> out(x.size());
  const int64_t block = q.geometry.block_cols, width = q.cols;
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int64_t c = 0; c < width; c += block) {
      const int64_t at = r * width + c;
      const BlockView view = {x.data() + at, width, 1, 1, block, block};
      block_gradient(resolve(q.spec), e, view, q.scales[static_cast<size_t>(at / block)], {},
                     {upstream.data() + at, decoded.data() + at, out.data() + at});
    }
  }
  return out;
}

TEST_CASE("variants of estimators that no kernel knows", "[quick]") {
  constexpr int width = 64, height = 20;
  std::vector<float> x = values(width * height, 4), upstream = values(width * height, 5);
  x[40] = x[200] = upstream[40] = upstream[200] = 1.0f;
  for (const Estimator estimator : {Estimator::ste, Estimator::variant}) {
    for (const ScaleGradient scale_gradient : {ScaleGradient::none, ScaleGradient::variant}) {
      EstimatorSpec e;
      e.estimator = estimator;
      e.scale_gradient = scale_gradient;
      if (e.is_straight_through()) continue;
      QuantizeCall call;
      call.x = view_of(x.data(), height, width);
      call.spec = mxfp4_spec;
      Quantized q;
      reference_backend().quantize(call, q);
      std::vector<float> decoded(x.size());
      reference_backend().dequantize(q, decoded.data(), 1);
      const std::vector<float> expected = defined_gradient(q, e, x, upstream, decoded);
      for (const char* name : {"generic", "avx2", "avx512"}) {
        INFO(name << " estimator " << static_cast<int>(estimator) << " scale " << static_cast<int>(scale_gradient));
        const sim::Kernels* kernels = nullptr;
        try {
          kernels = &sim::kernels(name);
        } catch (const std::exception&) {
          continue;  // not on this machine
        }
        sim::Arena arena;
        sim::Pass pass;
        sim::Tape tape(arena, *kernels, pass);
        std::vector<float> got(x.size(), -7.0f);
        sim::ForwardOperand operand;
        operand.estimator = e;
        operand.x = {x.data(), height, width};
        operand.quantized = &q;
        sim::estimator_gradient(tape, Dispatcher("reference"), operand, {upstream.data(), height, width}, true,
                                {got.data(), height, width});
        CHECK(test::same_floats(got, expected));
      }
    }
  }
}

}  // namespace
