// Bundles on disk: DIR/manifest.json and DIR/<case>/<array>.npy, the same bytes on every machine, with any backend and
// any number of threads.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "src/golden/suite.h"

namespace fp4::golden {

using CaseProgress = std::function<void(size_t done, size_t all)>;

// Writes a suite (or any list of cases) as a folder that appears whole or not at all.
void write_bundle(const std::string& suite, const std::vector<Case>& cases, const std::filesystem::path& dir,
                  bool force, const std::string& backend, int threads, const CaseProgress& progress = {});

struct Bundle {
  std::filesystem::path dir;
  Json manifest;
  std::vector<Case> cases;
};
// Throws Error for a folder without a readable manifest.
Bundle open_bundle(const std::filesystem::path& dir);

// One array of a case as stored; Error when it is absent or not of the manifest's dtype and shape.
Array load_array(const Bundle& bundle, const Case& c, const std::string& name);

struct Difference {
  std::string file;
  std::string what;  // "missing", "bytes differ", "SHA-256 is not the manifest's"
};
// Recomputes every case and compares with the files and the manifest.
std::vector<Difference> check_bundle(const Bundle& bundle, const std::string& backend, int threads,
                                     const CaseProgress& progress = {});

// The bundle as text, one line a case: "case=NAME kind=.. spec=.. rows=.. cols=.. ... x=HEX,.. codes=HEX,.. ..." so
// that an implementation in any language can be judged through a pipe. Questions only (no answers) when `answers` is
// false.
std::string stream_line(const Case& c, const std::string& backend, int threads, bool answers);

}  // namespace fp4::golden
