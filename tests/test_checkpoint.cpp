// Is a damaged, foreign or old checkpoint ever believed? Every flipped bit, every cut and every other program's
// signature must be an error that names the file.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <random>

#include "sim/train/checkpoint.h"
#include "src/files/sha256.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/json_places.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

Json small_run(int steps) {
  return tasks::canonical({{"task", {{"name", "regression"}, {"inputs", 8}, {"width", 8}, {"outputs", 4}}},
                           {"recipe", "ue5m3_hold50"},
                           {"train", {{"steps", steps}, {"batch", 16}, {"curve_points", 3}}}});
}

std::string written_checkpoint(const Json& config, const std::string& file, int stop_at) {
  sim::RunOptions options;
  options.checkpoint_to = file;
  options.stop_at = stop_at;
  const sim::History h = tasks::run(config, 5, options);
  CHECK(h.status == (stop_at > 0 ? sim::Status::stopped : sim::Status::finished));
  CHECK(h.steps_done == (stop_at > 0 ? stop_at : config.at("train").at("steps").get<int>()));
  return test::read_text(file);
}

// The exit code of the error; 0 when the bytes are believed.
int refusal(std::string_view bytes, std::string& message) {
  try {
    sim::parse_checkpoint(bytes, "some.checkpoint");
    return 0;
  } catch (const Error& e) {
    message = e.what();
    return e.kind;
  }
}

}  // namespace

TEST_CASE("no flipped bit and no cut of a checkpoint is believed", "[train]") {
  const test::TemporaryFolder folder;
  const std::string bytes = written_checkpoint(small_run(7), folder / "c", 4);
  std::string message;
  REQUIRE(refusal(bytes, message) == 0);
  std::mt19937 random(1);
  int tried = 0, silent = 0, unnamed = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1 << random() % 8);
    const int code = refusal(flipped, message);
    ++tried;
    silent += code == 0;
    unnamed += code != 1 || message.find("some.checkpoint: the checkpoint is damaged") == std::string::npos;
  }
  for (size_t length = 1; length < bytes.size(); length += 1 + length / 50) {
    ++tried;
    silent += refusal(bytes.substr(0, length), message) == 0;
    unnamed += message.find("some.checkpoint: the checkpoint is damaged") == std::string::npos;
  }
  silent += refusal(bytes + '\0', message) == 0;
  WARN("checkpoint: " << tried << " flips and cuts tried, " << tried - silent << " refused, " << silent << " believed");
  CHECK(silent == 0);
  CHECK(unnamed == 0);
}

TEST_CASE("what is no checkpoint, or an old one, is said so", "[train]") {
  std::string message;
  for (const char* text : {"", "no checkpoint", "{\"digest\": 1}"}) {
    CHECK(refusal(text, message) == 2);
    CHECK_THAT(message, Catch::Contains("some.checkpoint: not a checkpoint"));
  }
  // Version 1 was this map, without a hash.
  Json old = {{"checkpoint", 1}};
  for (const char* key : {"config", "seed", "step", "next_point", "weights", "optimizer", "held_amax", "recent",
                          "curve_sum", "curve_count", "curve"})
    old[key] = 0;
  std::string bytes;
  Json::to_cbor(old, bytes);
  CHECK(refusal(bytes, message) == 2);
  CHECK_THAT(message, Catch::Contains("version 1") && Catch::Contains("no hash"));
  const test::TemporaryFolder folder;
  for (const std::string& path : {folder.path().string(), folder / "absent"})
    CHECK_THROWS_AS(sim::read_checkpoint(path), Error);
}

TEST_CASE("a body that has its hash and is no checkpoint is damage, not a crash", "[train]") {
  const auto file = [](const Json& body) {
    std::string bytes;
    Json::to_cbor(body, bytes);
    return "fp4sim checkpoint 2 " + sha256_hex(bytes) + "\n" + bytes;
  };
  const test::TemporaryFolder folder;
  const std::string right = written_checkpoint(small_run(7), folder / "c", 4);
  const Json body = Json::from_cbor(std::string_view(right).substr(85));
  std::string message;
  REQUIRE(refusal(file(body), message) == 0);
  for (const auto& [key, value] : body.items())
    for (const Json& other :
         {Json(), Json("word"), Json(-1.5), Json(uint64_t{1} << 63), Json::array(), Json::object()}) {
      Json changed = body;
      changed[key] = other;
      const int code = refusal(file(changed), message);
      INFO(key << " = " << other.dump() << ": " << message);
      CHECK((code == 0 || code == 1));
      changed.erase(key);
      CHECK(refusal(file(changed), message) == 1);
    }
}

namespace {

// A file whose hash is right, whatever stands in it.
std::string sealed(const std::string& body) { return "fp4sim checkpoint 2 " + sha256_hex(body) + "\n" + body; }
std::string sealed(const Json& body) {
  std::string bytes;
  Json::to_cbor(body, bytes);
  return sealed(bytes);
}

}  // namespace

TEST_CASE("a checkpoint nested deep, in pieces or behind tags is damage, not the end of the stack", "[train]") {
  std::string message;
  for (const char head : {'\x81', '\x9f', '\x5f', '\x7f', '\xc0', '\xbf', '\xa1'}) {
    INFO(static_cast<int>(static_cast<uint8_t>(head)));
    CHECK(refusal(sealed(std::string(200'000, head)), message) == 1);
    CHECK(refusal(sealed(std::string(200'000, head) + '\0'), message) == 1);
  }
  CHECK(refusal(sealed(std::string("\x9b\xff\xff\xff\xff\xff\xff\xff\xff", 9)), message) == 1);  // 2^64 - 1 members
  CHECK(refusal(sealed(std::string("\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", 9)), message) == 1);  // 2^63 - 1 bytes
  CHECK(refusal(sealed(std::string()), message) == 1);
}

// What comes of it is an Error or numbers of a run; a signal would end the test.
TEST_CASE("fields changed under a right hash are an error or a run, in eval and on resuming", "[train]") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "c";
  std::mt19937 random(7);
  int tried = 0, refused = 0;
  for (const char* recipe : {"ue5m3_hold50", "tetrajet_qramping", "nvfp4_2509_final_bf16"}) {
    Json config = small_run(7);
    config["recipe"] = recipe;
    config["train"]["optimizer"] = recipe == std::string("ue5m3_hold50") ? "sgd" : "adamw";
    config = tasks::canonical(config);
    const Json body = Json::from_cbor(std::string_view(written_checkpoint(config, path, 4)).substr(85));
    std::vector<Json::json_pointer> places;
    test::places_in(body, Json::json_pointer(), places);
    const std::vector<Json> others = {Json(),
                                      true,
                                      0,
                                      -1,
                                      1,
                                      3,
                                      0.5,
                                      -0.0,
                                      1e300,
                                      uint64_t{1} << 31,
                                      uint64_t{1} << 63,
                                      "",
                                      "word",
                                      Json::array(),
                                      Json::object(),
                                      Json::binary({}),
                                      Json::binary(std::vector<uint8_t>(8, 0xff)),
                                      Json::binary(std::vector<uint8_t>(4096, 0x7f))};
    for (int trial = 0; trial < 150; ++trial) {
      Json changed = body;
      const Json::json_pointer& place = places[random() % places.size()];
      Json& value = changed[place];
      if (value.is_binary() && random() % 2 == 0) {
        auto& bytes = value.get_binary();
        const bool longer = random() % 2 == 0;
        bytes.resize(longer ? bytes.size() + 4 * (random() % 64) : bytes.size() / 4 * 2 / 4 * 4, uint8_t{0xff});
        for (int i = 0; i < 8 && !bytes.empty(); ++i) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      } else {
        const Json& other = others[random() % others.size()];
        // Sizes of a network are limited by its schema alone: none that takes the memory of the machine.
        const bool is_size = place.to_string().starts_with("/config/task") && other.is_number();
        value = is_size ? Json(static_cast<int>(random() % 40)) : other;
      }
      test::write_text(path, sealed(changed));
      INFO(recipe << " " << place.to_string() << " = " << value.dump().substr(0, 60));
      const auto run = [&](const auto& work) {
        ++tried;
        try {
          work();
        } catch (const Error& error) {
          ++refused;
          CHECK_THAT(error.what(), Catch::Contains(path));
        }
      };
      run([&] { tasks::evaluate(path, nullptr); });
      if (trial % 2 == 0) continue;
      sim::RunOptions rest;
      rest.resume_from = path;
      rest.branch = trial % 4 == 1;
      run([&] { tasks::run(config, 5, rest); });
    }
  }
  WARN("checkpoint: " << tried << " changed fields tried, " << refused << " refused, 0 signals");
  CHECK(refused > tried / 2);
}

TEST_CASE("a pipe is no checkpoint and is not waited for", "[train]") {
  const test::TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/zero")})
    CHECK_THROWS_WITH(sim::read_checkpoint(path), Catch::Contains(path) && Catch::Contains("not a regular file"));
}

TEST_CASE("a checkpoint of other arithmetic, another seed or another configuration is not resumed", "[train]") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "c";
  const Json config = small_run(7);
  written_checkpoint(config, path, 4);
  const sim::Checkpoint c = sim::read_checkpoint(path);
  sim::RunOptions rest;
  rest.resume_from = path;
  const auto refused = [&](const Json& given, uint64_t seed, const std::string& word, int code) {
    try {
      tasks::run(given, seed, rest);
      return false;
    } catch (const Error& e) {
      INFO(e.what());
      CHECK_THAT(e.what(), Catch::Contains(path) && Catch::Contains(word));
      return e.kind == code;
    }
  };
  CHECK(refused(config, 6, "seed 5, not 6", 2));
  Json other = config;
  other["train"]["lr"] = 0.5;
  CHECK(refused(other, 5, "train/lr is different", 2));
  for (const bool train_signature : {false, true}) {
    sim::Checkpoint foreign = c;
    (train_signature ? foreign.train_signature : foreign.signature) = "0123456789abcdef";
    sim::write_checkpoint(path, foreign);
    CHECK(refused(config, 5, "signature 0123456789abcdef", 1));
  }
  sim::Checkpoint beyond = c;
  beyond.step = 8;
  sim::write_checkpoint(path, beyond);
  CHECK(refused(config, 5, "its step", 1));
  sim::write_checkpoint(path, c);
  CHECK(tasks::run(config, 5, rest).digest == tasks::run(config, 5).digest);
  rest.stop_at = 4;
  CHECK_THROWS_WITH(tasks::run(config, 5, rest), Catch::Contains("from step 5 to 7"));
}

TEST_CASE("a run that goes on from a checkpoint made on the way counts the seconds before it", "[train]") {
  const test::TemporaryFolder folder;
  sim::RunOptions options;
  options.checkpoint_to = folder / "c";
  options.checkpoint_every = 1000;  // one is written at the stop
  options.stop_at = 4;
  const double before = tasks::run(small_run(7), 5, options).seconds;
  sim::Checkpoint c = sim::read_checkpoint(folder / "c");
  CHECK(c.seconds > 0);
  CHECK(c.seconds <= before);
  c.seconds = 3600;
  sim::write_checkpoint(folder / "c", c);
  sim::RunOptions rest;
  rest.resume_from = folder / "c";
  const sim::History whole = tasks::run(small_run(7), 5, rest);
  CHECK(whole.seconds > 3600);
  CHECK(whole.seconds < 7200);
  CHECK(whole.digest == tasks::run(small_run(7), 5).digest);
  // What `train --checkpoint` writes has no time in it: the same bytes each time.
  CHECK(written_checkpoint(small_run(7), folder / "d", 4) == written_checkpoint(small_run(7), folder / "e", 4));
}
