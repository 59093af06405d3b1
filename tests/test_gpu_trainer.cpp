// A training that lives on a device, without a device: its kernels run as host loops, in memory that the host may not
// touch between them, and every digest has to be the CPU's.
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "sim/rules/recipe.h"
#include "sim/train/device_training.h"
#include "src/files/temporaries.h"
#include "tasks/run.h"
#include "tests/support/guarded_device.h"
#include "tests/support/same_floats.h"
#include "tests/support/thread_ranks.h"

namespace fp4 {
namespace {

using sim::Json;
using sim::Kernels;

using test::GuardedDevice;

// Numbers of every kind: ordinary, large, tiny, zeros of both signs and, with `wild`, infinities and NaN.
std::vector<float> numbers(int64_t n, uint32_t seed, bool wild) {
  const uint32_t special[] = {0x00000000, 0x80000000, 0x00000001, 0x80400000, 0x7F000000,
                              0xFF000000, 0x7F800000, 0xFF800000, 0x7FC00000};
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t draw = seed >> 8;
    v = static_cast<float>(static_cast<int32_t>(draw % 4001) - 2000) / 400.0f;
    if (wild && draw % 13 == 0) v = float_of(special[draw / 13 % std::size(special)]);
  }
  return x;
}

// The same loop on the device and on the generic CPU: f(kernels, array) with `array(values)` giving memory that holds
// them; what it holds afterwards has to be the same bits.
class TwoPlaces {
 public:
  TwoPlaces(const Kernels& k, bool is_device) : k_(k), is_device_(is_device) {}
  float* operator()(const std::vector<float>& values) {
    const auto n = static_cast<int64_t>(values.size());
    float* memory = nullptr;
    if (is_device_) {
      memory = device_.take<float>(n);
      k_.device->upload(memory, values.data(), n * 4);
    } else {
      memory = host_.take<float>(n);
      std::copy(values.begin(), values.end(), memory);
    }
    arrays_.push_back({memory, n});
    return memory;
  }
  const int32_t* whole(const std::vector<int32_t>& values) {
    if (!is_device_) return values.data();
    int32_t* const memory = device_.take<int32_t>(static_cast<int64_t>(values.size()));
    k_.device->upload(memory, values.data(), static_cast<int64_t>(values.size()) * 4);
    return memory;
  }
  std::vector<float> all() const {
    std::vector<float> out;
    for (const auto& [memory, n] : arrays_) {
      std::vector<float> values(static_cast<size_t>(n));
      if (is_device_)
        k_.device->download(values.data(), memory, n * 4);
      else
        std::copy(memory, memory + n, values.begin());
      for (const float value : values) out.push_back(canonical(value));  // one NaN stands for all, as in a digest
    }
    return out;
  }

 private:
  const Kernels& k_;
  bool is_device_;
  sim::Arena host_, device_{&sim::device::table.device->memory};
  std::vector<std::pair<float*, int64_t>> arrays_;
};

template <class Loop>
void compare(const std::string& what, const Loop& loop) {
  TwoPlaces cpu(sim::generic::table, false), device(sim::device::table, true);
  const float expected = loop(sim::generic::table, cpu);
  const float got = loop(sim::device::table, device);
  INFO(what);
  CHECK(test::same_floats({canonical(got)}, {canonical(expected)}));
  CHECK(test::same_floats(device.all(), cpu.all()));
}

struct Sizes {
  int rows, cols;
};
constexpr Sizes sizes[] = {{1, 1}, {3, 10}, {16, 16}, {17, 33}, {33, 17}, {70, 64}, {5, 260}};

TEST_CASE("gpu trainer: loops over elements, rows and columns equal the CPU's", "[quick]") {
  GuardedDevice guarded;
  const sim::DeviceScope scope(guarded);
  for (const bool wild : {false, true}) {
    for (const auto& [rows, cols] : sizes) {
      const int64_t n = int64_t{rows} * cols;
      const auto x = numbers(n, 1, wild), y = numbers(n, 2, wild), z = numbers(n, 3, wild), w = numbers(rows, 4, wild);
      const auto row = numbers(cols, 5, wild);
      const std::string where = std::to_string(rows) + " x " + std::to_string(cols) + (wild ? ", wild" : "");
      std::vector<int32_t> labels;
      for (int r = 0; r < rows; ++r) labels.push_back(r * 7 % cols);
      compare("elements " + where, [&, r = rows, c = cols](const Kernels& k, TwoPlaces& at) {
        float* a = at(x);
        k.add(a, at(y), n);
        k.multiply(a, at(z), n);
        k.scale(at(y), a, 0.375f, n);
        k.sum_of(at(x), a, at(z), n);
        k.relu(at(z), a, n);
        k.relu_backward(at(z), a, at(y), n);
        k.add_bias(at(x), at(row), r, c);
        k.column_sums(at(row), at(y), r, c);
        float* hidden = at(x);
        k.bias_relu(hidden, at(row), r, c);
        k.bias_relu_backward(at(y), at(row), hidden, r, c);
        return k.sum(a, n);
      });
      compare("gates " + where, [&](const Kernels& k, TwoPlaces& at) {
        float *s = at(x), *out = at(x);
        k.silu(out, s, at(x), n);
        k.silu_backward(at(x), at(y), out, s, n);
        float *s2 = at(x), *gate = at(x), *up = at(y);
        k.swiglu(at(x), s2, gate, up, n);
        k.swiglu_backward(at(x), at(x), at(z), gate, up, s2, n);
        return k.dot(out, up, n);
      });
      compare("losses " + where, [&, r = rows, c = cols](const Kernels& k, TwoPlaces& at) {
        const int32_t* right = at.whole(labels);
        float *p = at(x), *weights = at(w);
        k.softmax_loss(p, at(w), at(y), right, r, c);
        k.softmax_loss_backward(at(x), p, right, weights, 0.25f, r, c);
        k.softmax_loss_backward(at(x), p, right, nullptr, 0.25f, r, c);
        k.square_loss(at(w), at(x), at(y), r, c);
        k.square_loss_backward(at(z), at(x), at(y), weights, 0.5f, r, c);
        k.square_loss_backward(at(z), at(x), at(y), nullptr, 0.5f, r, c);
        return k.dot(weights, at(w), r);
      });
      compare("norms " + where, [&, r = rows, c = cols](const Kernels& k, TwoPlaces& at) {
        float *roots = at(w), *gain = at(row);
        k.rmsnorm(at(x), roots, at(y), gain, 1e-5f, r, c);
        k.rmsnorm_backward(at(x), at(row), at(z), at(y), roots, gain, r, c);
        return k.all_finite(at(x), n) ? 1.0f : 0.0f;
      });
      compare("updates " + where, [&](const Kernels& k, TwoPlaces& at) {
        std::vector<float> squares = x;
        for (float& v : squares) v = v * v;
        float *weights = at(y), *m = at(z), *v = at(squares);
        const bool good = k.adam(weights, m, v, at(x), n, {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 2.0f, 1.5f, 0.75f});
        return (good ? 1.0f : 0.0f) + (k.sgd(at(y), at(z), at(x), n, 1e-2f, 0.9f, 0.1f, 0.75f) ? 2.0f : 0.0f);
      });
    }
  }
}

TEST_CASE("gpu trainer: attention's loops and products equal the CPU's", "[quick]") {
  GuardedDevice guarded;
  const sim::DeviceScope scope(guarded);
  for (const bool wild : {false, true}) {
    for (const int n : {1, 5, 16, 33, 64}) {
      const int64_t square = int64_t{n} * n;
      const auto s = numbers(square, 1, wild), d = numbers(square, 2, wild);
      INFO(n);
      compare("causal softmax", [&](const Kernels& k, TwoPlaces& at) {
        float *p = at(s), *dp = at(d);
        k.causal_softmax(p, 0.25f, n, 1);
        k.causal_softmax_backward(dp, p, 0.25f, n, 1);
        return 0.0f;
      });
      const int heads = 3, width = 8, rows = 2 * n;
      const auto x = numbers(int64_t{rows} * heads * width, 3, wild), angle = numbers(int64_t{n} * width / 2, 4, false);
      compare("rope", [&](const Kernels& k, TwoPlaces& at) {
        k.rope(at(x), at(x), at(angle), at(angle), -1.0f, rows, heads, width, n);
        return 0.0f;
      });
    }
    // A m k, B k n, as they lie and transposed.
    for (const auto& [m, n, k] : {std::array{1, 1, 1}, std::array{70, 5, 33}, std::array{65, 130, 16}})
      for (const bool turned : {false, true}) {
        const auto a = numbers(int64_t{m} * k, 1, wild), b = numbers(int64_t{k} * n, 2, wild);
        const auto c = numbers(int64_t{m} * n, 3, false);
        compare("product", [&, m = m, n = n, k = k](const Kernels& kernels, TwoPlaces& at) {
          const sim::Products p = {at(c), {n, 1},
                                   at(a), turned ? sim::Products::Place{1, m} : sim::Products::Place{k, 1},
                                   at(b), turned ? sim::Products::Place{1, k} : sim::Products::Place{n, 1},
                                   m,     n,
                                   k};
          if (kernels.device != nullptr) {
            kernels.device->products(p);
            return 0.0f;
          }
          const int panel = kernels.panel_width;
          std::vector<float> packed(static_cast<size_t>((n + panel - 1) / panel * panel * k));
          kernels.pack(packed.data(), p.b, p.at_b.row, p.at_b.col, k, n);
          kernels.gemm(p.c, n, p.a, p.at_a.row, p.at_a.col, packed.data(), m, n, k);
          return 0.0f;
        });
      }
  }
}

// Small: an emulated product works through a whole tile of 128 x 128 outputs.
const std::map<std::string, Json>& small_trainings() {
  static const std::map<std::string, Json> list = {
      {"regression",
       {{"task",
         {{"name", "regression"},
          {"inputs", 40},
          {"width", 32},
          {"depth", 1},
          {"outputs", 24},
          {"outliers", {{"gradient", 0.5}}}}},
        {"train", {{"batch", 24}, {"clip", 0.3}}}}},
      {"classifier",
       {{"task", {{"name", "classifier"}, {"size", 6}, {"width", 32}, {"outliers", {{"token", 0.25}}}}},
        {"train", {{"batch", 96}, {"optimizer", "sgd"}, {"lr", 0.01}}}}},
      {"diffusion", {{"task", {{"name", "diffusion"}, {"width", 32}, {"depth", 1}}}, {"train", {{"batch", 24}}}}},
      {"lm",
       {{"task", {{"name", "lm"}, {"width", 32}, {"layers", 1}, {"heads", 2}, {"ffn", 48}, {"context", 20}}},
        {"train", {{"batch", 2}}}}}};
  return list;
}

// Three steps of four: the full evaluation would follow the last.
sim::History run_small(const std::string& task, const std::string& recipe, sim::RunOptions options) {
  Json config = small_trainings().at(task);
  config["recipe"] = recipe;
  config["train"].update({{"steps", 4}, {"curve_points", 1}});
  if (recipe == "tetrajet_qramping") config["train"].erase("optimizer");  // it needs Adam's moments
  options.stop_at = options.checkpoint_to.empty() ? 3 : 2;
  return tasks::run(tasks::canonical(config), 1, options);
}
sim::History run_small(const std::string& task, const std::string& recipe, gpu::Device* device,
                       const std::string& resume_from = "", const std::string& checkpoint_to = "") {
  sim::RunOptions options;
  options.device = device;
  options.resume_from = resume_from;
  options.checkpoint_to = checkpoint_to;
  return run_small(task, recipe, options);
}

// What History says of the place.
std::string compare_training(const std::string& task, const std::string& recipe) {
  GuardedDevice device;
  const sim::History h = run_small(task, recipe, &device);
  INFO(task << " " << recipe << ": " << h.placement);
  CHECK(h.digest == run_small(task, recipe, nullptr).digest);
  CHECK((h.placement == "all") == (device.launches() > 0));
  return h.placement;
}

// All of them: what trains in the device's memory, and what leaves it products alone. results/gpu/README.md has the
// counts.
TEST_CASE("gpu trainer: every recipe has the CPU's digest on every task", "[train]") {
  std::map<std::string, std::set<std::string>> tasks_left;  // by recipe
  int count = 0;
  for (const auto& [task, config] : small_trainings())
    for (const std::string& recipe : sim::recipe_names()) {
      const std::string placement = compare_training(task, recipe);
      ++count;
      if (placement == "all") continue;
      CHECK(placement.rfind("products; ", 0) == 0);
      tasks_left[recipe].insert(task);
    }
  CHECK(count == 4 * static_cast<int>(sim::recipe_names().size()));
  // Slopes of estimators, parts of products, weights with rules or masks of their own; then formats without kernels.
  const std::set<std::string> everywhere = {
      "dge_wang",   "hot_channels", "metis", "occ_wang", "quartet", "tetrajet2", "tetrajet_qema", "tetrajet_qramping",
      "nvfp4_4to8", "hifloat4",     "if4",   "mbs_alto", "mixfp4",  "mx9",       "nvint4",        "quartet2",
      "razer",      "nve0m3"};
  const std::set<std::string> of_attention = {"attn_fp4", "attn_fp4_backward", "attn_qat"};
  for (const auto& [recipe, tasks] : tasks_left) {
    INFO(recipe << " on " << *tasks.begin());
    CHECK((of_attention.count(recipe) == 1 ? tasks == std::set<std::string>{"lm"}
                                           : everywhere.count(recipe) == 1 && tasks.size() == 4));
  }
  CHECK(tasks_left.size() == everywhere.size() + of_attention.size());
}

TEST_CASE("gpu trainer: ranks with a device each have the digest of ranks on the CPU", "[train]") {
  struct Rank {
    std::string digest, placement;
    bool operator==(const Rank&) const = default;
  };
  const auto train = [](const std::string& recipe, const std::string& wire, bool has_devices) {
    std::vector<Rank> out(2);
    test::ThreadRanks threads(2);
    threads.run([&](sim::Ranks& ranks) {
      GuardedDevice device;
      sim::RunOptions options;
      if (has_devices) options.device = &device;
      options.ranks = &ranks;
      options.wire = sim::wire_from_words(wire, 0);
      const sim::History h = run_small("regression", recipe, options);
      out[static_cast<size_t>(ranks.rank())] = {h.digest, h.placement};
    });
    return out;
  };
  // Held amaxes are those of all ranks; stochastic codes differ by rank.
  for (const auto& [recipe, wire] : {std::array{"mxfp4", "fp32"}, std::array{"ue5m3_hold50", "bf16"},
                                     std::array{"tetrajet", "mxfp4,rounding=stochastic"}}) {
    INFO(recipe << " " << wire);
    const std::string digest = train(recipe, wire, false)[0].digest;
    CHECK(train(recipe, wire, true) == std::vector<Rank>(2, {digest, "all"}));
  }
}

TEST_CASE("gpu trainer: a checkpoint goes from the device to the CPU and back", "[train]") {
  const std::string whole = run_small("regression", "ue5m3_hold50", nullptr).digest;
  ScratchFolder folder("gpu-trainer");
  for (const bool first : {true, false}) {
    GuardedDevice device;
    const std::string path = folder.file(first ? "of-device" : "of-cpu").string();
    run_small("regression", "ue5m3_hold50", first ? &device : nullptr, "", path);
    CHECK(run_small("regression", "ue5m3_hold50", first ? nullptr : &device, path).digest == whole);
  }
}

}  // namespace
}  // namespace fp4
