// What the fuzzer of stores and its bounded run in test_store_rows.cpp share: a small sound store that the bytes
// change, read as every command reads it. Only fp4::Error may come out.
//   p...  patches: three bytes each, offset (two, little-endian) and new value, into the file
//   t...  texts, a line each, put into rows whose hashes fit: labels, axes, curve, metrics, status, role, grid, and the
//         train signatures, configurations; an empty line keeps what is there
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "src/text/error.h"
#include "sweeps/engine/sqlite.h"
#include "sweeps/engine/store_schema.h"
#include "sweeps/judge/results.h"

namespace fp4::fuzz {

class StoreFuzzer {
 public:
  explicit StoreFuzzer(std::filesystem::path folder) : folder_(std::move(folder)), file_(folder_ / "sweep.sqlite") {
    const sweeps::Identity identity = {
        .signature = "s", .train_signatures = {{"classifier", "t"}}, .version = "0", .host = "h"};
    {
      sweeps::Store store = sweeps::Store::open(folder_, identity);
      store.set_meta("name", "g");
      store.set_meta("grid", R"({"name": "g", "task": "classifier", "axes": {"train.steps": [1, 2]}})");
      const std::array<sweeps::ConfigRecord, 2> configs = {
          sweeps::ConfigRecord{.hash = "a", .task = "classifier", .reference = "a", .recipe = "fp32", .config = "{}"},
          sweeps::ConfigRecord{.hash = "b", .task = "classifier", .reference = "a", .recipe = "mxfp4", .config = "{}"}};
      const std::array<sweeps::PointRecord, 2> points = {sweeps::PointRecord{"a", {"1"}},
                                                         sweeps::PointRecord{"b", {"2"}}};
      store.put_plan({"train.steps"}, configs, points);
      for (const char* hash : {"a", "b"}) {
        sweeps::RunRecord run{.hash = hash, .seed = 1, .task = "classifier", .digest = "d"};
        run.loss = run.loss_hp = 0.5;
        run.metrics = {{"accuracy", 0.75}};
        run.curve = {{1, 2}, {3.5, 3.25}, {3.75, 3.125}};
        store.insert({&run, 1});
      }
    }
    std::ostringstream bytes;
    bytes << std::ifstream(file_, std::ios::binary).rdbuf();
    sound_ = bytes.str();
  }

  // Whether the changed store could be read.
  bool run(std::string_view input) const {
    std::string bytes = sound_;
    if (input.starts_with('p')) {
      for (size_t i = 1; i + 3 <= input.size(); i += 3) {
        const auto byte = [&](size_t k) { return static_cast<size_t>(static_cast<uint8_t>(input[i + k])); };
        bytes[(byte(0) | byte(1) << 8) % bytes.size()] = input[i + 2];
      }
    }
    for (const char* sidecar : {"-wal", "-shm", "-journal"}) std::filesystem::remove(file_.string() + sidecar);
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
    if (input.starts_with('t')) put_texts(input.substr(1));
    try {
      static_cast<void>(sweeps::check_store(folder_));
      const sweeps::Store store = sweeps::Store::read(folder_);
      static_cast<void>(store.runs_of_other_signatures());
      const sweeps::Results results(store, /*with_curves=*/true);
      for (const sweeps::ConfigResult& config : results.configs()) static_cast<void>(results.gaps(config, false));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

 private:
  void put_texts(std::string_view texts) const {
    sweeps::Database database(file_.string(), SQLITE_OPEN_READWRITE);
    sweeps::add_row_hash_function(database);
    static constexpr std::array<const char*, 9> updates = {
        "UPDATE points SET labels=?1, row_hash=fp4_row_hash(id, hash, ?1)",
        "UPDATE meta SET value=?1, row_hash=fp4_row_hash(key, ?1) WHERE key='axes'",
        "UPDATE runs SET curve=?1, row_hash='' WHERE ?1<>''",
        "UPDATE runs SET metrics=?1, row_hash='' WHERE ?1<>''",
        "UPDATE runs SET status=?1, row_hash='' WHERE ?1<>''",
        "UPDATE runs SET role=?1, row_hash='' WHERE ?1<>''",
        "UPDATE meta SET value=?1, row_hash=fp4_row_hash(key, ?1) WHERE key='grid'",
        "UPDATE meta SET value=?1, row_hash=fp4_row_hash(key, ?1) WHERE key='train_signatures'",
        "UPDATE configs SET config=?1, row_hash=fp4_row_hash(hash, task, reference, recipe, static_cost, probability, "
        "at, ?1)"};
    for (const char* update : updates) {
      const size_t end = std::min(texts.find('\n'), texts.size());
      const std::string_view text = texts.substr(0, end);
      texts.remove_prefix(std::min(end + 1, texts.size()));
      if (!text.empty()) sweeps::Statement(database, update).bind(1, text).run();
    }
    database.execute(sweeps::hash_runs);
  }

  std::filesystem::path folder_, file_;
  std::string sound_;
};

}  // namespace fp4::fuzz
