#include "src/golden/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/backends/signature.h"
#include "src/files/manifest.h"
#include "src/files/output.h"
#include "src/files/sha256.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "src/text/error.h"
#include "src/text/version.h"
#include "src/threads/parallel.h"

namespace fp4::golden {
namespace {

std::string file_of(const Case& c, const std::string& array) { return c.name + "/" + array + ".npy"; }

std::string content_hash(const Array& a) {
  return sha256_hex({reinterpret_cast<const char*>(a.bytes.data()), a.bytes.size()});
}

bool is_question(const std::string& array) {
  return array == "input" || array == "a" || array == "b" || array == "metadata" || array.starts_with("random");
}

constexpr size_t hashed_bytes = size_t{1} << 20;

std::vector<std::string> block_hashes(const Array& a) {
  std::vector<std::string> out;
  const std::string_view all(reinterpret_cast<const char*>(a.bytes.data()), a.bytes.size());
  for (size_t at = 0; at < all.size(); at += hashed_bytes) out.push_back(sha256_hex(all.substr(at, hashed_bytes)));
  return out;
}

// For each accumulator, how many outputs are not those of fp32_block: where none is, a dump cannot tell the two apart.
Json told_apart(const std::vector<Array>& arrays) {
  Json counts = Json::object();
  const auto usual =
      std::find_if(arrays.begin(), arrays.end(), [](const Array& a) { return a.name == "output_fp32_block"; });
  for (const Array& a : arrays) {
    if (usual == arrays.end() || !a.name.starts_with("output_") || a.name == usual->name) continue;
    uint64_t count = 0;
    for (size_t i = 0; i < a.bytes.size(); i += 4) count += !std::equal(&a.bytes[i], &a.bytes[i] + 4, &usual->bytes[i]);
    counts[a.name.substr(7)] = count;
  }
  return counts;
}

// An array in a layout that the bundle does not hold.
Array relaid_array(const Bundle& bundle, const Case& c, const std::string& name, const ArrayRecord& record) {
  const ArrayName parsed = parse_array_name(name);
  const Array& plain = load_array(bundle, c, parsed.part);
  const auto rows = static_cast<int64_t>(plain.shape[0]), cols = static_cast<int64_t>(plain.shape[1]);
  const bool fp4 = has_fp4_codes(c);
  const int64_t codes = fp4 ? 2 * cols : cols;
  const CodeLayout stored = fp4 ? CodeLayout::low_first : CodeLayout::unpacked;
  const std::vector<uint8_t> moved =
      parsed.stage == "scales"
          ? to_layout(parsed.scale_layout, plain.bytes, rows, cols)
          : to_layout(parsed.code_layout, from_layout(stored, plain.bytes, rows, codes, name), rows, codes);
  return {name, record.dtype, record.shape, {moved.begin(), moved.end()}};
}

LoadedCase& loaded(const Bundle& bundle, const Case& c) {
  LoadedCase& l = *bundle.loaded;
  if (l.name != c.name) l = {.name = c.name};
  if (l.random_words != c.random_words) l.arrays.clear(), l.random_words = c.random_words;
  return l;
}

Array picked(const Bundle& bundle, const Case& c, const std::vector<LazyArray>& arrays, const std::string& name) {
  for (const LazyArray& a : arrays)
    if (a.name == name) return a.made();
  throw damaged(bundle.dir, file_of(c, name), "this version makes no such array");
}

// An array that no file holds.
Array made_array(const Bundle& bundle, const Case& c, const std::string& name, const ArrayRecord& record) {
  LoadedCase& l = loaded(bundle, c);
  if (l.to_make.empty()) {
    load_inputs(bundle, c);
    l.to_make = lazy_arrays(c, l.inputs, "auto", threads_of_machine());
  }
  Array a = picked(bundle, c, l.to_make, name);
  if (!record.sha256.empty() && content_hash(a) != record.sha256)
    throw damaged(bundle.dir, file_of(c, name), "this version computes other bytes than the manifest's SHA-256");
  return a;
}

bool takes_words(const Case& c, const std::string& name) {
  return !c.random_words.empty() && !c.is_gemm && name != "input" &&
         is_stochastic(quant_spec_from_words(c.words).rounding);
}

Array read_array(const Bundle& bundle, const Case& c, const std::string& name) {
  const auto record = c.stored.find(name);
  if (const auto other = find_array(c, name); record == c.stored.end() && other)
    return relaid_array(bundle, c, name, *other);
  if (takes_words(c, name)) {  // the draws are a kernel's, the bundle's input has Philox's
    load_inputs(bundle, c);
    return picked(bundle, c, lazy_arrays(c, bundle.loaded->inputs, "reference", 1), name);
  }
  const std::string file = file_of(c, name);
  if (record == c.stored.end()) throw damaged(bundle.dir, "manifest.json", "it does not name " + file);
  if (bundle.dir.empty() || !record->second.has_file()) return made_array(bundle, c, name, record->second);
  Array a = {name, record->second.dtype, record->second.shape, {}};
  try {
    TensorReader reader(open_sealed(bundle.dir, file, record->second.file_sha256));
    if (info(reader.dtype()).name != a.dtype || reader.shape() != a.shape)
      throw Error("it is not of the type and shape that manifest.json says");
    a.bytes.resize(static_cast<size_t>(reader.rows()) * reader.row_bytes());
    reader.read_raw(0, reader.rows(), a.bytes.data());
  } catch (const Error& problem) {
    if (problem.kind == Error::failed) throw;
    throw damaged(bundle.dir, file, problem.what());
  }
  if (record->second.sha256 != content_hash(a))
    throw damaged(bundle.dir, file, "its SHA-256 is not the one in manifest.json");
  return a;
}

// The case with its operands at hand, wherever the bundle keeps them.
Case with_operands(const Bundle& bundle, const Case& c) {
  Case out = c;
  if (!c.given_is_stored) return out;
  out.given_a = floats_of(read_array(bundle, c, c.is_gemm ? "a" : "input"));
  if (c.is_gemm) out.given_b = floats_of(read_array(bundle, c, "b"));
  return out;
}

}  // namespace

void write_bundle(const std::string& suite, const std::vector<Case>& cases, const std::filesystem::path& dir,
                  bool force, const std::string& backend, int threads, const CaseProgress& progress, bool as_readmemh) {
  StagedFolder folder(dir, force);
  Json list = Json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    Json entry = case_json(cases[i]);
    const std::vector<Array> arrays = make_arrays(cases[i], backend, threads);
    for (const Array& a : arrays) {
      Json& record = entry["arrays"][a.name];
      record = {{"dtype", a.dtype}, {"shape", a.shape}, {"sha256", content_hash(a)}};
      if (is_large(cases[i]) && !is_question(a.name)) {
        record["block_sha256"] = block_hashes(a);
        continue;
      }
      const std::filesystem::path file = folder.file(file_of(cases[i], a.name));
      save_tensor(file.string(), parse_dtype("golden", a.dtype), a.shape, a.bytes.data());
      record["file_sha256"] = sha256_file(file);
    }
    if (as_readmemh)
      for (const TextFile& f : readmemh_files(cases[i], arrays, backend, threads))
        write_file(folder.file(cases[i].name + "/" + f.name), f.text, false);
    if (cases[i].is_gemm) entry["told_apart"] = told_apart(arrays);
    list.push_back(std::move(entry));
    if (progress) progress(i + 1, cases.size());
  }
  const Json manifest = {{"schema", 2},
                         {"suite", suite},
                         {"version", version()},
                         {"signature", arithmetic_signature()},
                         {"sha256_of", "array bytes, little endian, C order, without the .npy header"},
                         {"file_sha256_of", "the whole .npy"},
                         {"block_sha256_of", "every 2^20 of these bytes, of answers that are not stored"},
                         {"manifest_sha256_of", "this file as compact JSON with sorted keys, without manifest_sha256"},
                         {"cases", list}};
  write_file(folder.file("manifest.json"), sealed_manifest(manifest, 1), false);
  folder.commit();
}

Bundle made_bundle(Case c, const std::string& backend, int threads) {
  Bundle bundle;
  const auto inputs = std::make_shared<const CaseInputs>(inputs_of(c, std::move(c.given_a), std::move(c.given_b)));
  c.given_a.clear(), c.given_b.clear();  // they are among the inputs
  bundle.cases = {c};
  *bundle.loaded = {c.name, {}, inputs, lazy_arrays(c, inputs, backend, threads), {}};
  for (const LazyArray& a : bundle.loaded->to_make) bundle.cases[0].stored[a.name] = {a.dtype, a.shape, "", ""};
  return bundle;
}

Bundle open_bundle(const std::filesystem::path& dir) {
  return bundle_of(open_manifest(dir, "make a bundle with `fp4sim golden make`"), dir);
}

Bundle bundle_of(const Json& manifest, const std::filesystem::path& dir) {
  const std::string place = (dir / "manifest.json").string();
  if (!manifest.is_object() || !manifest.contains("cases") || !manifest["cases"].is_array() ||
      manifest["cases"].empty())
    throw Error(place + ": is not that of a golden bundle: it has no list `cases` of one or more");
  Bundle bundle;
  bundle.dir = dir;
  bundle.signature =
      manifest.value("signature", Json()).is_string() ? manifest["signature"].get<std::string>() : "none";
  std::set<std::string> names;
  for (const Json& j : manifest["cases"]) {
    bundle.cases.push_back(case_from_json(j, fmt::format("{}: cases[{}]", place, bundle.cases.size())));
    const std::string& name = bundle.cases.back().name;
    if (!names.insert(name).second) throw Error(place + ": two cases are called '" + name + "'");
  }
  return bundle;
}

std::optional<ArrayRecord> find_array(const Case& c, const std::string& name) {
  if (const auto stored = c.stored.find(name); stored != c.stored.end()) return stored->second;
  const ArrayName parsed = parse_array_name(name);
  const auto plain = c.stored.find(parsed.part);
  if (plain == c.stored.end() || plain->second.dtype != "u8" || plain->second.shape.size() != 2) return std::nullopt;
  const auto rows = static_cast<int64_t>(plain->second.shape[0]), cols = static_cast<int64_t>(plain->second.shape[1]);
  if (parsed.stage == "scales")
    return ArrayRecord{"u8", {static_cast<uint64_t>(padded_size(parsed.scale_layout, rows, cols))}, "", ""};
  const CodeLayoutInfo& layout = row_of(code_layout_table, parsed.code_layout);
  if (parsed.stage != "codes" || !holds(layout, code_bits(c))) return std::nullopt;
  const auto bytes = static_cast<uint64_t>(padded_bytes(layout.id, rows, has_fp4_codes(c) ? 2 * cols : cols));
  return ArrayRecord{layout.word_bytes == 4 ? "u32" : "u8", {bytes / static_cast<uint64_t>(layout.word_bytes)}, "", ""};
}

const CaseInputs& load_inputs(const Bundle& bundle, const Case& c) {
  LoadedCase& l = loaded(bundle, c);
  if (l.inputs) return *l.inputs;
  const auto floats = [&](const char* name, int64_t rows) {
    std::vector<float> v = floats_of(read_array(bundle, c, name));
    if (static_cast<int64_t>(v.size()) != rows * c.cols)
      throw Error("golden " + c.name + ": inputs do not match the manifest");
    return v;
  };
  CaseInputs in = {floats(c.is_gemm ? "a" : "input", c.rows), {}};
  if (c.is_gemm) in.b = floats("b", c.rows_b);
  l.inputs = std::make_shared<const CaseInputs>(std::move(in));
  return *l.inputs;
}

const Array& load_array(const Bundle& bundle, const Case& c, const std::string& name) {
  std::map<std::string, Array>& at_hand = loaded(bundle, c).arrays;
  const auto there = at_hand.find(name);
  return there != at_hand.end() ? there->second : at_hand.emplace(name, read_array(bundle, c, name)).first->second;
}

bool is_hash_of(const Case& c, const Array& a) {
  const auto record = c.stored.find(a.name);
  return record != c.stored.end() && !record->second.has_file() && record->second.dtype == a.dtype &&
         record->second.sha256 == content_hash(a);
}

std::vector<Difference> check_bundle(const Bundle& bundle, const std::string& backend, int threads,
                                     const CaseProgress& progress, std::vector<std::string>* declined) {
  std::vector<Difference> out;
  for (size_t i = 0; i < bundle.cases.size(); ++i) {
    const Case& c = bundle.cases[i];
    std::set<std::string> left;
    for (const auto& [name, record] : c.stored) left.insert(name);
    std::vector<std::string> not_made;
    const std::vector<Array> made =
        make_arrays(with_operands(bundle, c), backend, threads, declined != nullptr ? &not_made : nullptr);
    for (const std::string& name : not_made) {
      declined->push_back(c.name + ": " + name);
      c.is_gemm ? void(left.erase(name)) : left.clear();
    }
    for (const Array& a : made) {
      left.erase(a.name);
      if (const auto record = c.stored.find(a.name); record != c.stored.end() && !record->second.has_file()) {
        const std::vector<std::string>& there = record->second.block_sha256;
        const std::vector<std::string> here = block_hashes(a);
        uint64_t differ = there.size() == here.size() ? 0 : here.size();
        for (size_t b = 0; b < here.size() && b < there.size(); ++b) differ += there[b] != here[b] ? 1 : 0;
        if (differ > 0)
          out.push_back({file_of(c, a.name),
                         fmt::format("{} of {} blocks of 2^20 bytes have another SHA-256", differ, here.size())});
        continue;
      }
      try {
        const Array stored = read_array(bundle, c, a.name);
        if (stored.bytes != a.bytes || stored.dtype != a.dtype || stored.shape != a.shape)
          out.push_back(
              {file_of(c, a.name),
               is_question(a.name)
                   ? "whole, of a version with other inputs: it still judges (`verify --golden`), and `golden "
                     "make` makes one of this version"
                   : fmt::format("whole, but other bytes than this version computes (signature {}, here {})",
                                 bundle.signature, arithmetic_signature())});
      } catch (const Error& e) {
        out.push_back({file_of(c, a.name), "damaged: " + e.text});
      }
    }
    for (const std::string& name : left) out.push_back({file_of(c, name), "this version makes no such array"});
    if (progress) progress(i + 1, bundle.cases.size());
  }
  return out;
}

std::string stream_line(const Case& c, const std::string& backend, int threads, bool answers,
                        std::vector<std::string>* declined) {
  std::string line =
      fmt::format("case={} kind={} spec={} rows={} cols={} seed={} stream={} step={}", c.name,
                  c.is_gemm ? "gemm" : "quantize", c.words, c.rows, c.cols, c.place.seed, c.place.stream, c.place.step);
  if (c.is_gemm) line += fmt::format(" rows_b={} spec_b={}", c.rows_b, c.words_b.empty() ? c.words : c.words_b);
  if (c.sparsity != Sparsity::none) line += fmt::format(" sparse={}", row_of(sparsity_table, c.sparsity).name);
  if (c.hadamard.size > 0) {
    line += fmt::format(" hadamard={} signs={} normalise={}", c.hadamard.size,
                        row_of(hadamard_signs_table, c.hadamard.signs).name,
                        row_of(hadamard_normalise_table, c.hadamard.normalise).name);
  }
  for (const Array& a : make_arrays(c, backend, threads, declined)) {
    if (!answers && !is_question(a.name)) continue;
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
