// Is every function of elementary.h as accurate as its header states, total, and the same in vector code?
// Literals: mpmath at 50 digits; sweeps: the C library in double, whose error is below 1e-8 of a float's ulp.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fp4/elementary.h"
#include "sim/kernels/train_kernels.h"
#include "src/cpu/vector_backends.h"

using namespace fp4;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Distance of `got` from the true value in units of the last place of the true value's binade.
double ulps(float got, double truth) {
  const float nearest = static_cast<float>(truth);
  if (got == nearest || (std::isnan(got) && std::isnan(truth))) return 0;
  if (std::isnan(got) || std::isnan(truth) || std::isinf(got) != std::isinf(nearest)) return 1e9;
  const float base = std::fabs(nearest);
  return std::fabs(got - truth) / (std::nextafter(base, infinity) - base);
}

struct Function {
  std::string name;
  float (*ours)(float);
  double (*truth)(double);
  double bound;
  float low, high;
};
double sigmoid_in_double(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double rsqrt_in_double(double x) { return 1.0 / std::sqrt(x); }

const Function functions[] = {
    {"exp", elementary::exp, std::exp, 1.05, -infinity, infinity},
    {"log", elementary::log, std::log, 0.85, 0.0f, infinity},
    {"tanh", elementary::tanh, std::tanh, 1.4, -infinity, infinity},
    {"sigmoid", elementary::sigmoid, sigmoid_in_double, 2.5, -infinity, infinity},
    {"rsqrt", elementary::rsqrt, rsqrt_in_double, 1.5, 0.0f, infinity},
    {"sin", elementary::sin, std::sin, 1.6, -10.0f, 10.0f},
    {"cos", elementary::cos, std::cos, 1.6, -10.0f, 10.0f},
    {"sin", elementary::sin, std::sin, 2.5, -8192.0f, 8192.0f},
    {"cos", elementary::cos, std::cos, 2.5, -8192.0f, 8192.0f},
};

void sweep(const Function& f, uint64_t step) {
  double worst = 0;
  float at = 0;
  for (uint64_t b = 0; b < (uint64_t{1} << 32); b += step) {
    const float x = float_of(static_cast<uint32_t>(b));
    if (!(x >= f.low && x <= f.high)) continue;
    const double error = ulps(f.ours(x), f.truth(static_cast<double>(x)));
    if (error > worst) worst = error, at = x;
  }
  INFO(f.name << " at " << at);
  CHECK(worst <= f.bound);
}

struct Literal {
  std::string name;
  float x;
  double truth;
};
const Literal literals[] = {
    {"exp", 1.0f, 2.7182818284590452},
    {"exp", -1.0f, 0.36787944117144232},
    {"exp", 0.5f, 1.6487212707001281},
    {"exp", 88.0f, 1.6516362549940019e+38},
    {"exp", -87.0f, 1.6458114310822737e-38},
    {"exp", -100.0f, 3.720075976020836e-44},
    {"exp", 0.0010000000474974513f, 1.0010005002142533},
    {"exp", 10.5f, 36315.502674246638},
    {"log", 2.0f, 0.69314718055994531},
    {"log", 10.0f, 2.3025850929940457},
    {"log", 0.10000000149011612f, -2.3025850780928846},
    {"log", 9.99994610111476e-41f, -92.103409109664877},
    {"log", 3.0000000054977558e+38f, 88.596845824274431},
    {"log", 1.5f, 0.40546510810816438},
    {"log", 0.9900000095367432f, -0.010050326220427584},
    {"tanh", 0.10000000149011612f, 0.099667996100269556},
    {"tanh", 0.6000000238418579f, 0.53704958396337098},
    {"tanh", 0.699999988079071f, 0.60436776955047788},
    {"tanh", -2.5f, -0.98661429815143029},
    {"tanh", 9.999999747378752e-06f, 9.9999997470454183e-6},
    {"tanh", 9.0f, 0.99999996954004097},
    {"sigmoid", 0.0f, 0.5},
    {"sigmoid", 1.0f, 0.73105857863000488},
    {"sigmoid", -1.0f, 0.26894142136999512},
    {"sigmoid", -80.0f, 1.8048513878454152e-35},
    {"sigmoid", 20.0f, 0.99999999793884638},
    {"sin", 1.0f, 0.84147098480789651},
    {"sin", 3.0f, 0.14112000805986722},
    {"sin", -3.1415927410125732f, 8.7422780003724745e-8},
    {"sin", 100.0f, -0.50636564110975879},
    {"sin", 8000.0f, 0.99784303236238185},
    {"sin", 9.999999747378752e-05f, 9.9999997307120862e-5},
    {"cos", 1.0f, 0.54030230586813972},
    {"cos", 3.0f, -0.98999249660044546},
    {"cos", 1.5707963705062866f, -4.3711390001862414e-8},
    {"cos", 100.0f, 0.86231887228768393},
    {"cos", 8000.0f, 0.065645127510323014},
};
struct PowerLiteral {
  float x, y;
  double truth;
};
const PowerLiteral power_literals[] = {
    {2.0f, 0.5f, 1.414213562373095},        {0.30000001192092896f, -0.800000011920929f, 2.620010239637823},
    {10.0f, -2.25f, 0.0056234132519034908}, {9.999999350456404e-39f, 0.20000000298023224f, 2.5118857438658708e-8},
    {7.0f, 44.0f, 1.5286700631942576e+37},
};

bool same(float a, float b) { return bits_of(a) == bits_of(b); }

}  // namespace

TEST_CASE("elementary functions agree with mpmath", "[quick]") {
  for (const Literal& l : literals)
    for (const Function& f : functions)
      if (f.name == l.name && l.x >= f.low && l.x <= f.high) {
        INFO(l.name << "(" << l.x << ")");
        CHECK(ulps(f.ours(l.x), l.truth) <= f.bound);
      }
  for (const PowerLiteral& l : power_literals) CHECK(ulps(elementary::pow(l.x, l.y), l.truth) <= 0.51);
}

TEST_CASE("elementary functions keep their stated error", "[quick]") {
  for (const Function& f : functions) sweep(f, 9973);
}

TEST_CASE("elementary functions keep their stated error on every float", "[exhaustive]") {
  for (const Function& f : functions) sweep(f, 17);
}

TEST_CASE("pow keeps its stated error", "[quick]") {
  for (float y : {-0.8f, 0.2f, 3.0f, -2.5f, 100.0f}) {
    double worst = 0;
    for (uint64_t b = 0; b < 0x7F800000u; b += 9973) {
      const float x = float_of(static_cast<uint32_t>(b));
      worst = std::max(worst, ulps(elementary::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y))));
    }
    INFO("y = " << y);
    CHECK(worst <= 0.51);
  }
}

TEST_CASE("special values are those of C", "[quick]") {
  CHECK(same(elementary::exp(-infinity), 0.0f));
  CHECK(same(elementary::exp(infinity), infinity));
  CHECK(same(elementary::exp(89.0f), infinity));
  CHECK(same(elementary::exp(-104.0f), 0.0f));
  CHECK(same(elementary::exp(0.0f), 1.0f));
  CHECK(same(elementary::exp(-0.0f), 1.0f));
  CHECK(same(elementary::log(0.0f), -infinity));
  CHECK(same(elementary::log(-0.0f), -infinity));
  CHECK(same(elementary::log(1.0f), 0.0f));
  CHECK(same(elementary::log(infinity), infinity));
  CHECK(std::isnan(elementary::log(-1e-45f)));
  CHECK(same(elementary::tanh(infinity), 1.0f));
  CHECK(same(elementary::tanh(-infinity), -1.0f));
  CHECK(same(elementary::tanh(-0.0f), -0.0f));
  CHECK(same(elementary::sigmoid(infinity), 1.0f));
  CHECK(same(elementary::sigmoid(-infinity), 0.0f));
  CHECK(same(elementary::rsqrt(0.0f), infinity));
  CHECK(same(elementary::rsqrt(4.0f), 0.5f));
  CHECK(same(elementary::sin(-0.0f), 0.0f));  // r = x - n*pi/2 with n = 0 gives +0
  CHECK(same(elementary::cos(0.0f), 1.0f));
  CHECK(std::isnan(elementary::sin(8193.0f)));
  CHECK(std::isnan(elementary::cos(infinity)));
  for (const Function& f : functions) CHECK(std::isnan(f.ours(not_a_number)));
  // pow against the C library on every pair of special values with x >= 0.
  const float values[] = {0.0f, 1e-45f, 0.5f, 1.0f, 2.0f, infinity};
  for (float x : values)
    for (float y : {0.0f, -0.0f, 0.5f, -0.5f, 1e30f, -1e30f, infinity, -infinity}) {
      INFO("pow(" << x << ", " << y << ")");
      CHECK(ulps(elementary::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y))) <= 0.51);
    }
  CHECK(same(elementary::pow(not_a_number, 0.0f), 1.0f));
  CHECK(same(elementary::pow(1.0f, not_a_number), 1.0f));
  CHECK(std::isnan(elementary::pow(not_a_number, 2.0f)));
  CHECK(std::isnan(elementary::pow(2.0f, not_a_number)));
  CHECK(std::isnan(elementary::pow(-2.0f, 2.0f)));
}

TEST_CASE("every instruction set gives the same bits", "[quick]") {
  // silu uses exp and a division; normals use Philox, log, sqrt and cos; sin_cos both sines.
  const int n = 4099;
  std::vector<std::string> names;
  for (const Backend* backend : vector_backends())
    if (backend->available()) names.emplace_back(backend->name());
  std::vector<std::vector<float>> results;
  for (const std::string& name : names) {
    const sim::Kernels& k = sim::kernels(name);
    std::vector<float> x(n), y(4 * n);
    k.normals(x.data(), 3, n, 5, 4, 0);
    k.silu(y.data(), y.data() + n, x.data(), n);
    k.sin_cos(y.data() + 2 * n, y.data() + 3 * n, x.data(), n);
    y.insert(y.end(), x.begin(), x.end());
    y.push_back(k.sum(x.data(), n));
    y.push_back(k.dot(x.data(), x.data() + 1, n - 1));
    for (int i = 0; i < n; ++i)
      REQUIRE(same(y[static_cast<size_t>(2 * n + i)], elementary::sin(x[static_cast<size_t>(i)])));
    results.push_back(y);
  }
  for (size_t i = 1; i < results.size(); ++i)
    CHECK(std::memcmp(results[0].data(), results[i].data(), sizeof(float) * results[0].size()) == 0);
}
