#include <catch2/catch.hpp>
#include <cstring>

#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "tests/support/filled_codes.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/share.h"

namespace fp4::test {
namespace {

void compare_products(gpu::Device& device, const std::string& words_a, const std::string& words_b,
                      const Accumulator& accumulator, Shape shape_a, int64_t rows_b, InputKind kind) {
  const std::unique_ptr<Backend> backend = gpu::make_backend(&device);
  MultiplyCall call;
  const QuantSpec spec_a = quant_spec_from_words(words_a);
  const QuantSpec spec_b = quant_spec_from_words(words_b);
  if (!next_case_runs()) return;
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
  REQUIRE(backend->multiply(call) == is_known(accumulator));
  if (!is_known(accumulator)) return;  // the core's
  Quantized qa;
  Quantized qb;
  reference_backend().quantize(call.a, qa);
  reference_backend().quantize(call.b, qb);
  reference_backend().gemm(qa, qb, call.options, expected.data(), call.c_stride);
  INFO(words_a << " | " << words_b << " on " << device.description() << ", input "
               << row_of(golden::input_kind_table, kind).name);
  CHECK(same_floats(got, expected));
  std::fill(got.begin(), got.end(), -7.0f);
  backend->gemm(qa, qb, call.options, got.data(), call.c_stride);
  CHECK(same_floats(got, expected));
}

}  // namespace

void compare_accumulators(gpu::Device& device) {
  for (const AccumulatorInfo& row : accumulator_table) {
    if (row.row.kind == AccumulatorKind::integer) continue;  // no device is asked
    for (const InputKind kind : {InputKind::boundary, InputKind::special}) {
      for (const char* words : {"mxfp4", "nvfp4", "mxfp6_e3m2"}) {
        compare_products(device, words, words, row.row, {5, 133}, 18, kind);
      }
      compare_products(device, "mxfp4,block=8", "mxfp4,block=16x16,prescale=0.75", row.row, {5, 70}, 3, kind);
      compare_products(device, "nvfp4,tensor_scale=outer128", "graphcore_2509_encode", row.row, {3, 260}, 4, kind);
      compare_products(device, "bf16", "mxfp4", row.row, {3, 40}, 4, kind);
    }
  }
}

// Accumulators that 64-bit integers serve, over several tiles and chunks of K; heavy tails spread too far for some.
void compare_wide_products(gpu::Device& device) {
  for (const char* name : {"exact", "k64_rz", "k64_rz_snap", "fused35_rz"}) {
    const Accumulator& row = find_row(accumulator_table, std::string_view(name))->row;
    for (const InputKind kind : {InputKind::gaussian, InputKind::heavy_tailed, InputKind::subnormal}) {
      for (const char* words : {"mxfp4", "nvfp4", "ue5m3fp4,block=32x32"}) {
        const QuantSpec spec = quant_spec_from_words(words);
        REQUIRE(gpu::widest_spread(spec, spec, row, 200) >= 0);
        compare_products(device, words, words, row, {17, 200}, 9, kind);
      }
      compare_products(device, "mxfp4,element=e2m3", "nvfp4,scale=ue1m6,block=64", row, {20, 150}, 12, kind);
    }
    compare_products(device, "mxfp4", "mxfp4", row, {140, 136}, 70, InputKind::gaussian);
  }
  CHECK(gpu::widest_spread(quant_spec_from_words("mxfp4,block=8"), mxfp4_spec, accumulator_table[0].row, 64) == -1);
  CHECK(gpu::widest_spread(mxfp4_spec, mxfp4_spec, fp32_block, 64) == -1);
}

// Several tiles, batches of 16 columns whole and cut, sums of -0.
void compare_ordered_products(gpu::Device& device) {
  const Accumulator& row = find_row(accumulator_table, std::string_view("fma_sequential"))->row;
  for (const InputKind kind :
       {InputKind::gaussian, InputKind::boundary, InputKind::heavy_tailed, InputKind::special, InputKind::subnormal}) {
    for (const char* words : {"fp32", "bf16", "mxfp4", "nvfp4"})
      compare_products(device, words, words, row, {9, 70}, 21, kind);
    compare_products(device, "fp32", "bf16,prescale=0.75", row, {3, 16}, 2, kind);
  }
  for (const int64_t k : {1, 15, 16, 17, 64})
    compare_products(device, "fp32", "fp32", row, {5, k}, 7, InputKind::subnormal);
  compare_products(device, "fp32", "fp32", fp32_block, {140, 90}, 130, InputKind::gaussian);
}

// Where the matrix units serve; the larger shape has several tiles and more than one batch of K. Heavy tails and
// special values have powers of two too far apart for bf16.
void compare_block_products(gpu::Device& device) {
  for (const InputKind kind :
       {InputKind::boundary, InputKind::gaussian, InputKind::heavy_tailed, InputKind::special, InputKind::subnormal}) {
    for (const char* words : {"mxfp4", "nvfp4", "mxfp4,element=e2m3", "mxfp6_e3m2", "mxfp4,element=e3m0,block=16",
                              "ue5m3fp4", "nvfp4,scale=ue2m5"}) {
      const QuantSpec spec = quant_spec_from_words(words);
      REQUIRE(gpu::matrix_plan(spec, spec, fp32_block).fits);
      compare_products(device, words, words, fp32_block, {9, 40}, 21, kind);
    }
    compare_products(device, "mxfp4,block=16", "mxfp4,element=e1m2,block=64", fp32_block, {33, 300}, 17, kind);
    compare_products(device, "mxfp4", "nvfp4,block=32,prescale=0.75", fp32_block, {9, 90}, 21, kind);
    compare_products(device, "nvfp4", "mxfp4", fp32_block, {9, 40}, 21, kind);
  }
  compare_products(device, "mxfp4", "mxfp4,rounding=stochastic", fp32_block, {150, 290}, 139, InputKind::gaussian);
  compare_products(device, "nvfp4", "nvfp4,block=16x16", fp32_block, {150, 290}, 139, InputKind::gaussian);
}

// The largest integers that a block can hold, of both signs, where sums underflow and overflow and at both ends of the
// exponents that are folded in.
void compare_extreme_products(gpu::Device& device) {
  for (const int sum : {0, 80, 100, 101, 104, 106, 107, 153, 154, 155, 156, 254, 355, 356, 361, 370, 380, 508}) {
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
      float got[9] = {};
      float expected[9] = {};
      gpu::make_backend(&device)->gemm(q[0], q[1], {}, got, 3);
      reference_backend().gemm(q[0], q[1], {}, expected, 3);
      INFO("exponents " << sum << " element " << static_cast<int>(element));
      CHECK(std::memcmp(got, expected, sizeof got) == 0);
    }
  }
}

// Negative dots times a scale of zero are -0, and sums of those +0.
void compare_zero_scales(gpu::Device& device) {
  for (const AccumulatorInfo& row : accumulator_table) {
    if (row.row.kind == AccumulatorKind::integer) continue;  // no device is asked
    for (const char* words : {"nvfp4", "ue5m3fp4", "mxfp8,scale=ue4m3,block=16", "mxfp6_e3m2,scale=ue5m3,block=8"}) {
      Quantized q[2];
      for (const bool is_left : {false, true}) {
        Quantized& x = q[is_left ? 0 : 1];
        x = operand(words, 20, 70, 0);
        const FloatFormat& f = format_of(x.spec.element);
        for (int64_t r = 0; r < x.rows; ++r) {
          for (int64_t k = 0; k < x.cols; ++k) x.set_code(r, k, f.largest_code | (is_left ? f.sign_code() : 0u));
        }
        for (int64_t r = 0; is_left && r < 12; ++r) x.scales[static_cast<size_t>(r * x.geometry.scale_cols)] = 0;
        for (int64_t i = 0; is_left && i < 6 * x.geometry.scale_cols; ++i) x.scales[static_cast<size_t>(i)] = 0;
      }
      GemmOptions options;
      options.accumulator = row.row;
      std::vector<float> got(400, -7.0f);
      std::vector<float> expected(400, -7.0f);
      gpu::make_backend(&device)->gemm(q[0], q[1], options, got.data(), 20);
      reference_backend().gemm(q[0], q[1], options, expected.data(), 20);
      INFO(words << " " << row.name);
      CHECK(same_floats(got, expected));
    }
  }
}

void compare_bit_comparison(gpu::Device& device) {
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

}  // namespace fp4::test
