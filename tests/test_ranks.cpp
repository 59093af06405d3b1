// A training shared by several ranks: threads stand for processes here, tests/test_mpi.cpp starts real ones.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "sim/train/gradients.h"
#include "src/gpu/device.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/share.h"
#include "tests/support/support.h"
#include "tests/support/thread_ranks.h"

using namespace fp4;
using namespace fp4::sim;
using fp4::test::ThreadRanks;

namespace {

// The mean that each of `gradients.size()` ranks ends with, and the bytes that it sent.
struct Means {
  std::vector<std::vector<float>> mean;
  std::vector<int64_t> sent;
};

Means mean_of(const std::vector<std::vector<float>>& gradients, const std::string& wire, int hadamard = 0,
              uint32_t step = 1) {
  Means out{gradients, std::vector<int64_t>(gradients.size())};
  ThreadRanks threads(static_cast<int>(gradients.size()));
  threads.run([&](Ranks& ranks) {
    const Dispatcher backend;
    GradientMean mean(wire_from_words(wire, hadamard), ranks, backend, kernels(), 7);
    std::vector<float>& mine = out.mean[static_cast<size_t>(ranks.rank())];
    mean(mine.data(), static_cast<int64_t>(mine.size()), step, 1);
    out.sent[static_cast<size_t>(ranks.rank())] = mean.bytes_sent();
  });
  return out;
}

// Keeps what a rank sends to the others.
class Recorded : public Ranks {
 public:
  explicit Recorded(Ranks& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int count() const override { return ranks_.count(); }
  void exchange(const void* send, void* receive, int64_t bytes) override {
    sent.assign(static_cast<const char*>(send), static_cast<size_t>(bytes * count()));
    ranks_.exchange(send, receive, bytes);
  }
  void gather(const void* mine, void* all, int64_t bytes) override { ranks_.gather(mine, all, bytes); }
  std::string sent;

 private:
  Ranks& ranks_;
};

Json configuration(const std::string& task, const std::string& recipe, int steps) {
  return tasks::canonical({{"task", task}, {"recipe", recipe}, {"train", {{"steps", steps}, {"curve_points", 1}}}});
}

std::vector<History> train_on(int count, const Json& config, const std::string& wire, int hadamard = 0) {
  std::vector<History> out(static_cast<size_t>(count));
  ThreadRanks threads(count);
  threads.run([&](Ranks& ranks) {
    RunOptions options;
    options.ranks = &ranks;
    options.wire = wire_from_words(wire, hadamard);
    out[static_cast<size_t>(ranks.rank())] = tasks::run(config, 3, options);
  });
  return out;
}

}  // namespace

TEST_CASE("gradients in fp32 are added in rank order", "[quick]") {
  // (2^24 + 1) + 1 is 2^24 in fp32, 2^24 + (1 + 1) would be 2^24 + 2; thirds of the sums.
  const std::vector<float> first(3000, 0x1p24f), one(3000, 1.0f);
  const Means m = mean_of({first, one, one}, "fp32");
  for (const auto& mean : m.mean) CHECK(mean == std::vector<float>(3000, 0x1p24f * (1.0f / 3.0f)));
}

TEST_CASE("coded gradients: exact values pass, bytes are those of codes and scales", "[quick]") {
  // 4096 numbers of 2 ranks: 2 rows of 1024 a rank and message. Both are multiples of 0.5 up to 6, as E2M1 is, and the
  // means 2 and 1.5 are, too.
  std::vector<float> a(4096, 3.0f), b(4096, 1.0f);
  for (size_t i = 0; i < a.size(); i += 2) a[i] = 6.0f, b[i] = -3.0f;
  struct Case {
    const char* wire;
    int64_t bytes;  // of one message
  };
  // fp32 4, bf16 2 bytes; mxfp4 half a byte and one for 32 numbers, tensor scale 4. One more says: all finite.
  for (const Case& c : {Case{"fp32", 2048 * 4 + 1}, Case{"bf16", 2048 * 2 + 4 + 1}, Case{"mxfp4", 1024 + 64 + 4 + 1},
                        Case{"mxfp4,rounding=stochastic", 1024 + 64 + 4 + 1}}) {
    INFO(c.wire);
    const Means m = mean_of({a, b}, c.wire);
    for (size_t i = 0; i < a.size(); ++i) REQUIRE(m.mean[0][i] == (i % 2 == 0 ? 1.5f : 2.0f));
    CHECK(m.mean[0] == m.mean[1]);
    CHECK(m.sent == std::vector<int64_t>(2, 2 * c.bytes));
  }
}

TEST_CASE("stochastic codes are right on average and differ between ranks and steps", "[quick]") {
  // 1.2 lies between the E2M1 values 1 and 1.5 of a block whose largest is 6.
  std::vector<float> x(4096, 1.2f);
  for (size_t i = 0; i < x.size(); i += 32) x[i] = 6.0f;
  double sum = 0;
  int n = 0;
  for (uint32_t step = 1; step <= 8; ++step) {
    const Means m = mean_of({x, x}, "mxfp4,rounding=stochastic", 0, step);
    CHECK(m.mean[0] == m.mean[1]);
    for (size_t i = 0; i < x.size(); ++i)
      if (i % 32 != 0) sum += static_cast<double>(m.mean[0][i]), ++n;
  }
  // Two roundings of at most 0.5: standard error below 0.4 / sqrt(31744) = 0.0022. Nearest would give 1.
  CHECK(sum / n == Approx(1.2).margin(0.011));
  const auto mean = [&](uint32_t step) { return mean_of({x, x}, "mxfp4,rounding=stochastic", 0, step).mean[0]; };
  CHECK(mean(1) == mean(1));
  CHECK(mean(1) != mean(2));
}

TEST_CASE("ranks with the same gradients draw their own random bits", "[quick]") {
  for (const bool stochastic : {false, true}) {
    std::array<std::string, 2> sent;
    ThreadRanks threads(2);
    threads.run([&](Ranks& ranks) {
      Recorded recorded(ranks);
      const Dispatcher backend;
      const Wire wire = wire_from_words(stochastic ? "mxfp4,rounding=stochastic" : "mxfp4", 0);
      std::vector<float> x(4096, 1.2f);
      GradientMean(wire, recorded, backend, kernels(), 7)(x.data(), static_cast<int64_t>(x.size()), 1, 1);
      sent[static_cast<size_t>(ranks.rank())] = recorded.sent;
    });
    CHECK((sent[0] == sent[1]) == !stochastic);
  }
}

TEST_CASE("gradients on their way share random bits with no product", "[quick]") {
  // The three streams of an operand: its elements, the scales of its blocks, the signs of its Hadamard.
  const auto of = [](uint32_t stream) {
    const RandomPlace place = {1, stream, 1};
    return std::array{place.stream, place.scale_rounding().stream, place.hadamard_signs().stream};
  };
  const std::array wire = {stream_number(0, 3, 0, Purpose::rounding), stream_number(0, 3, 1, Purpose::rounding)};
  for (uint32_t gemm = 0; gemm < 3; ++gemm)
    for (uint32_t operand = 0; operand < 2; ++operand)
      for (const Purpose purpose : {Purpose::rounding, Purpose::weights, Purpose::data, Purpose::noise,
                                    Purpose::second_part, Purpose::sketch, Purpose::right_factor})
        for (const uint32_t a : of(stream_number(0, gemm, operand, purpose)))
          for (const uint32_t leg : wire)
            for (const uint32_t b : of(leg)) CHECK(a != b);
  // What a rank sends is rounded by the first of them: 1.2 in a block whose scale is 2^-1 becomes 1 or 1.5.
  std::vector<float> x(4096, 1.2f);
  QuantizeCall call;
  call.x = view_of(x.data(), 4, 1024);
  call.spec = wire_from_words("mxfp4,rounding=stochastic", 0).spec;
  Quantized expected;
  std::string sent;
  ThreadRanks threads(2);
  threads.run([&](Ranks& ranks) {
    Recorded recorded(ranks);
    const Dispatcher backend;
    std::vector<float> gradients = x;
    GradientMean(wire_from_words("mxfp4,rounding=stochastic", 0), recorded, backend, kernels(), 7)(gradients.data(),
                                                                                                   4096, 1, 1);
    if (ranks.rank() == 0) sent = recorded.sent;
  });
  for (const uint32_t stream : {wire[0], stream_number(0, 0, 0, Purpose::second_part)}) {
    call.place = {seed_of_rank(7, 0), stream, 1};
    Dispatcher().quantize(call, expected);
    CHECK((sent.compare(0, 1024, reinterpret_cast<const char*>(expected.codes.data()), 1024) == 0) ==
          (stream == wire[0]));
  }
}

TEST_CASE("Hadamards around the code leave the mean near", "[quick]") {
  std::vector<float> a(2048), b(2048);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = std::sin(static_cast<float>(i)), b[i] = std::cos(2.0f * static_cast<float>(i));
  const std::vector<float> mean = mean_of({a, b}, "bf16", 64).mean[0];
  for (size_t i = 0; i < a.size(); ++i) REQUIRE(mean[i] == Approx((a[i] + b[i]) / 2).margin(0.02));
}

TEST_CASE("a gradient that is not finite makes every rank's mean so", "[quick]") {
  for (const char* wire : {"fp32", "bf16", "mxfp4", "mxfp4,nonfinite=saturate"}) {
    std::vector<std::vector<float>> x(2, std::vector<float>(5000, 1.0f));
    x[1][4321] = std::numeric_limits<float>::infinity();
    for (const auto& mean : mean_of(x, wire).mean)
      CHECK(std::any_of(mean.begin(), mean.end(), [](float g) { return !std::isfinite(g); }));
  }
}

TEST_CASE("wires that cannot be are refused by name", "[quick]") {
  CHECK_THROWS_WITH(wire_from_words("mxfp4,block=32x32", 0), Catch::Contains("blocks of one row"));
  CHECK_THROWS_WITH(wire_from_words("mxfp4", 7), Catch::Contains("accepted: 0, 16, 32"));
  CHECK_THROWS_WITH(wire_from_words("nonsense", 0), Catch::Contains("--gradients"));
}

TEST_CASE("one rank is the ordinary run by bits; two take the same batch between them", "[quick]") {
  const bool is_part = test::share() > 1;
  for (const char* task : {"regression", "classifier", "diffusion", "lm", "recommender"}) {
    // What ranks do is the same in every task; instrumented, the examples of five take 20 s to make.
    if (is_part && std::string(task) != "classifier" && std::string(task) != "recommender") continue;
    INFO(task);
    Json plain = configuration(task, "fp32", std::string(task) == "lm" || is_part ? 2 : 12);
    if (is_part) plain["train"]["batch"] = 16;
    const History alone = tasks::run(plain, 3);
    CHECK(train_on(1, plain, "mxfp4")[0].digest == alone.digest);
    // Sums in another order: the losses agree to rounding, after steps that any wrong example would change.
    const std::vector<History> two = train_on(2, plain, "fp32");
    CHECK(two[0].digest == two[1].digest);
    CHECK(two[0].curve.back().train_loss.value() == Approx(alone.curve.back().train_loss.value()).epsilon(1e-4));
    CHECK(two[0].metrics.at("loss") == Approx(alone.metrics.at("loss")).epsilon(1e-3));
    CHECK(two[0].digest != alone.digest);
  }
}

TEST_CASE("the digest depends on ranks and wire alone", "[quick]") {
  const Json config = configuration("classifier", "mxfp4", 10);
  const std::string wire = "mxfp4,rounding=stochastic";
  const std::vector<History> four = train_on(4, config, wire, 16);
  for (const History& h : four) CHECK(h.digest == four[0].digest);
  CHECK(train_on(4, config, wire, 16)[2].digest == four[0].digest);
  CHECK(train_on(2, config, wire, 16)[0].digest != four[0].digest);
  CHECK(train_on(4, config, "bf16")[0].digest != four[0].digest);
  // A recipe whose tensor scales hold the largest value of all ranks.
  const Json held = configuration("classifier", "ue5m3_hold50", 10);
  const std::vector<History> two = train_on(2, held, "fp32");
  CHECK(two[0].digest == two[1].digest);
}

TEST_CASE("ranks on one machine take its devices in turn", "[quick]") {
  const char* const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
  for (const char* name : names) unsetenv(name);
  CHECK(gpu::device_of_rank(4) == 0);
  for (const char* name : names) {
    INFO(name);
    for (int rank = 0; rank < 6; ++rank) {
      setenv(name, std::to_string(rank).c_str(), 1);
      CHECK(gpu::device_of_rank(2) == std::array{0, 1, 0, 1, 0, 1}[static_cast<size_t>(rank)]);
      CHECK(gpu::device_of_rank(1) == 0);  // one device, or one that CUDA_VISIBLE_DEVICES leaves
    }
    for (const char* text : {"", "-1", "x", "1x", "99999999999"}) {
      setenv(name, text, 1);
      CHECK(gpu::device_of_rank(4) == 0);
    }
    unsetenv(name);
  }
}

TEST_CASE("a batch that ranks cannot share is refused", "[quick]") {
  Json config = configuration("classifier", "fp32", 2);
  config["train"]["batch"] = 127;
  ThreadRanks threads(2);
  std::string text;
  threads.run([&](Ranks& ranks) {
    RunOptions options;
    options.ranks = &ranks;
    try {
      tasks::run(config, 1, options);
    } catch (const Error& error) {
      if (ranks.rank() == 0) text = error.what();
    }
  });
  CHECK(text == "train.batch: 127 examples cannot be shared evenly by 2 ranks");
}

TEST_CASE("ranks of other words are named before the first step", "[quick]") {
  const Json config = configuration("classifier", "mxfp4", 3);
  struct Other {
    Json config;
    uint64_t seed;
    const char* wire;
    const char* named;
  };
  const Other others[] = {{configuration("classifier", "nvfp4", 3), 1, "fp32", "recipe"},
                          {configuration("classifier", "mxfp4", 4), 1, "fp32", "training"},
                          {configuration("regression", "nvfp4", 3), 1, "fp32", "recipe, task, training"},
                          {config, 2, "fp32", "task, seed"},
                          {config, 1, "bf16", "way of sending gradients"}};
  for (const Other& other : others) {
    std::vector<std::string> errors(2);
    int steps = 0;
    ThreadRanks(2).run([&](Ranks& ranks) {
      const bool is_other = ranks.rank() == 1;
      RunOptions options;
      options.ranks = &ranks;
      options.wire = wire_from_words(is_other ? other.wire : "fp32", 0);
      options.progress = [&](const sim::Progress&) { return ++steps, true; };
      try {
        tasks::run(is_other ? other.config : config, is_other ? other.seed : 1, options);
      } catch (const Error& error) {
        errors[static_cast<size_t>(ranks.rank())] = error.what();
      }
    });
    INFO(other.named);
    CHECK(errors[0] ==
          std::string("rank 1 differs from rank 0 in: ") + other.named + "; start all with the same words");
    CHECK(errors[1] == errors[0]);
    CHECK(steps == 0);
  }
}

TEST_CASE("batches read from files while training give the same run", "[quick]") {
  const test::TemporaryFolder folder;
  const auto be32 = [](uint32_t n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                       static_cast<char>(n)};
  };
  std::string images = be32(0x803) + be32(400) + be32(8) + be32(8), labels = be32(0x801) + be32(400), text;
  for (int i = 0; i < 400; ++i) {
    labels += static_cast<char>(i % 10);
    for (int p = 0; p < 64; ++p) images += static_cast<char>((i * 7 + p * p) % 251);
  }
  for (int i = 0; i < 30000; ++i) text += static_cast<char>('a' + (i * i / 7) % 26);
  test::write_text(folder / "images", images);
  test::write_text(folder / "labels", labels);
  test::write_text(folder / "text", text);
  const Json train = {{"steps", 6}, {"curve_points", 1}, {"batch", 16}};
  const Json classifier = tasks::canonical(
      {{"task", {{"name", "classifier"}, {"images", folder / "images"}, {"labels", folder / "labels"}}},
       {"train", train}});
  const Json lm = tasks::canonical(
      {{"task", {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 48}, {"context", 16}, {"text", folder / "text"}}},
       {"train", train}});
  for (const Json& config : {classifier, lm}) {
    const std::string digest = tasks::run(config, 1).digest;
    for (const FileReading how : {FileReading::cached, FileReading::cold}) {
      RunOptions options;
      options.files = how;
      CHECK(tasks::run(config, 1, options).digest == digest);
    }
  }
  // Read while training, not before: a file that has lost its end stops the run.
  RunOptions options;
  options.files = FileReading::cached;
  test::write_text(folder / "images", images.substr(0, 100));
  CHECK_THROWS_WITH(tasks::run(classifier, 1, options), Catch::Contains("cannot be read at byte"));
}

TEST_CASE("weight rules act alike on all ranks; a condition on the gradient is refused", "[train]") {
  const auto config = [](const Json& recipe) {
    return tasks::canonical(
        {{"task", "classifier"}, {"recipe", recipe}, {"train", {{"steps", 12}, {"curve_points", 1}}}});
  };
  const Json stochastic = {{"rounding", "stochastic"}};
  const Json weights = {{"reset", {{"every", 6}, {"window", 5}, {"threshold", 0.5}}}};
  const std::vector<History> two =
      train_on(2, config({{"base", "mxfp4"}, {"fprop", {{"b", stochastic}}}, {"weights", weights}}), "fp32");
  CHECK(two[0].status == Status::finished);
  CHECK(two[0].digest == two[1].digest);
  const Json phases = Json::parse(R"([{}, {"when": "gradient_noise_ratio < 2", "recipe": "bf16"}])");
  std::vector<std::string> refusals(2);  // Catch's checks are for one thread
  ThreadRanks(2).run([&](Ranks& ranks) {
    RunOptions options;
    options.ranks = &ranks;
    try {
      tasks::run(config({{"base", "mxfp4"}, {"phases", phases}}), 1, options);
    } catch (const Error& error) {
      refusals[static_cast<size_t>(ranks.rank())] = error.what();
    }
  });
  for (const std::string& refusal : refusals) CHECK(refusal.find("several ranks") != std::string::npos);
}
