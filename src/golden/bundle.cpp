#include "src/golden/bundle.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "src/error.h"
#include "src/output.h"
#include "src/sha256.h"
#include "src/signature.h"
#include "src/tensor_file/tensor_reader.h"
#include "src/tensor_file/tensor_writer.h"

namespace fp4::golden {
namespace {

std::string file_of(const Case& c, const Array& a) { return c.name + "/" + a.name + ".npy"; }

std::string content_hash(const Array& a) {
  return sha256_hex({reinterpret_cast<const char*>(a.bytes.data()), a.bytes.size()});
}

Json array_json(const Array& a) { return {{"dtype", a.dtype}, {"shape", a.shape}, {"sha256", content_hash(a)}}; }

}  // namespace

void write_bundle(const std::string& suite, const std::vector<Case>& cases, const std::filesystem::path& dir,
                  bool force, const std::string& backend, int threads, const CaseProgress& progress) {
  StagedFolder folder(dir, force);
  Json list = Json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    Json entry = case_json(cases[i]);
    for (const Array& a : make_arrays(cases[i], backend, threads)) {
      save_tensor(folder.file(file_of(cases[i], a)).string(), parse_dtype("golden", a.dtype), a.shape, a.bytes.data());
      entry["arrays"][a.name] = array_json(a);
    }
    list.push_back(std::move(entry));
    if (progress) progress(i + 1, cases.size());
  }
  const Json manifest = {{"schema", 1},
                         {"suite", suite},
                         {"version", FP4_VERSION},
                         {"signature", arithmetic_signature()},
                         {"sha256_of", "array bytes, little endian, C order, without the .npy header"},
                         {"cases", list}};
  write_file(folder.file("manifest.json"), manifest.dump(1) + "\n", false);
  folder.commit();
}

Bundle open_bundle(const std::filesystem::path& dir) {
  const std::string place = "golden " + dir.string();
  std::ifstream in(dir / "manifest.json", std::ios::binary);
  if (!in) throw Error(place + ": no manifest.json; make a bundle with `fp4sim golden make`");
  Bundle bundle;
  bundle.dir = dir;
  try {
    bundle.manifest = Json::parse(in);
  } catch (const Json::exception& e) {
    throw Error(place + ": manifest.json is not JSON: " + e.what());
  }
  if (!bundle.manifest.is_object() || !bundle.manifest.contains("cases")) {
    throw Error(place + ": manifest.json is not that of a golden bundle (no `cases`)");
  }
  for (const Json& j : bundle.manifest["cases"]) bundle.cases.push_back(case_from_json(j, place));
  return bundle;
}

Array load_array(const Bundle& bundle, const Case& c, const std::string& name) {
  const RawTensor t = load_raw((bundle.dir / c.name / (name + ".npy")).string());
  Array a;
  a.name = name;
  a.dtype = info(t.dtype).name;
  a.shape.assign(t.shape.begin(), t.shape.end());
  a.bytes = t.bytes;
  return a;
}

std::vector<Difference> check_bundle(const Bundle& bundle, const std::string& backend, int threads,
                                     const CaseProgress& progress) {
  std::vector<Difference> out;
  for (size_t i = 0; i < bundle.cases.size(); ++i) {
    const Case& c = bundle.cases[i];
    const Json& entry = bundle.manifest["cases"][i];
    for (const Array& a : make_arrays(c, backend, threads)) {
      const std::string file = file_of(c, a);
      if (!std::filesystem::exists(bundle.dir / file)) {
        out.push_back({file, "missing"});
        continue;
      }
      try {
        const Array stored = load_array(bundle, c, a.name);
        if (stored.bytes != a.bytes || stored.dtype != a.dtype || stored.shape != a.shape) {
          out.push_back({file, "bytes differ"});
        } else if (!entry.contains("arrays") || !entry["arrays"].contains(a.name) ||
                   entry["arrays"][a.name].value("sha256", "") != content_hash(a)) {
          out.push_back({file, "SHA-256 is not the manifest's"});
        }
      } catch (const Error& e) {
        out.push_back({file, e.what()});
      }
    }
    if (progress) progress(i + 1, bundle.cases.size());
  }
  return out;
}

std::string stream_line(const Case& c, const std::string& backend, int threads, bool answers) {
  std::string line =
      fmt::format("case={} kind={} spec={} rows={} cols={} seed={} stream={} step={}", c.name,
                  c.is_gemm ? "gemm" : "quantize", c.words, c.rows, c.cols, c.place.seed, c.place.stream, c.place.step);
  if (c.is_gemm) line += fmt::format(" rows_b={} spec_b={}", c.rows_b, c.words_b.empty() ? c.words : c.words_b);
  if (c.hadamard.size > 0) {
    line += fmt::format(" hadamard={} signs={} normalise={}", c.hadamard.size,
                        row_of(hadamard_signs_table, c.hadamard.signs).name,
                        row_of(hadamard_normalise_table, c.hadamard.normalise).name);
  }
  for (const Array& a : make_arrays(c, backend, threads)) {
    const bool is_question = a.name == "input" || a.name == "a" || a.name == "b" || a.name.starts_with("random");
    if (!answers && !is_question) continue;
    const size_t bytes = element_bytes(a);
    line += ' ' + a.name + '=';
    for (size_t i = 0; i < a.bytes.size() / bytes; ++i) {
      if (i > 0) line += ',';
      line += bytes == 4 ? fmt::format("{:08x}", word_at(a, i)) : fmt::format("{:x}", word_at(a, i));
    }
  }
  return line;
}

}  // namespace fp4::golden
