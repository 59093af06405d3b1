#include "src/golden/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "src/files/open_array.h"
#include "src/text/byte_source.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"

namespace fp4::golden {
namespace {

namespace fs = std::filesystem;

bool has_header(const fs::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".npy" || extension == ".npz" || extension == ".safetensors";
}

bool is_archive(const fs::path& file) { return has_header(file) && file.extension() != ".npy"; }

// The array as unsigned integers of its width, or as floats, whose type `type` keeps. Wider and signed integers become
// uint32; what does not fit becomes a code that no format has.
Array array_of(const std::string& path, const OpenOptions& open, RealType& type) {
  RawTensor t = load_raw(path, open);
  type = t.dtype == Dtype::bf16 ? RealType::bf16 : t.dtype == Dtype::f16 ? RealType::fp16 : RealType::fp32;
  Array a = {"", info(t.dtype).name, {t.shape.begin(), t.shape.end()}, {}};
  const bool is_plain = t.dtype == Dtype::u16 || t.dtype == Dtype::u32 || t.dtype == Dtype::f32;
  const bool is_byte = info(t.dtype).bits <= 8 && info(t.dtype).kind != DtypeKind::real;
  const unsigned bytes = info(t.dtype).bits / 8;
  if (is_plain || is_byte) {
    if (is_byte) a.dtype = "u8";  // fp8 and fp4 codes are bytes
    a.bytes = std::move(t.bytes);
  } else if (info(t.dtype).kind == DtypeKind::integer) {
    a.dtype = "u32";
    for (size_t i = 0; i < t.bytes.size(); i += bytes) {
      uint64_t value = 0;
      for (unsigned b = 0; b < bytes; ++b) value |= static_cast<uint64_t>(t.bytes[i + b]) << (8 * b);
      for (unsigned b = 0; b < 4; ++b)
        a.bytes.push_back(value > 0xFFFFFFFFu ? uint8_t{0xFF} : static_cast<uint8_t>(value >> (8 * b)));
    }
  } else {
    a.dtype = "f32";
    a.bytes = bytes_of(load_floats(path, open).values);
  }
  return a;
}

class Loader {
 public:
  Loader(const Bundle& bundle, const std::string& path, const CandidateOptions& options)
      : bundle_(bundle), options_(options), place_("verify --candidate " + path), top_(path) {
    for (const std::string& s : options.stages)
      accepted_index("verify --stage", s, {std::begin(stage_names), std::end(stage_names)});
    accumulator_from(options.accumulator, "verify --accumulator");
    if (!options.case_name.empty() && !find_case(options.case_name))
      throw Error("verify --case: the bundle has no case '" + options.case_name + "'; it has: " + known_cases());
  }

  void folder() {
    std::error_code failed;
    std::vector<fs::path> files;
    for (fs::recursive_directory_iterator at(top_, fs::directory_options::follow_directory_symlink, failed), end;
         !failed && at != end; at.increment(failed))
      if (!at->is_directory()) files.push_back(at->path());
    if (failed) throw Error(place_ + ": cannot be read: " + failed.message());
    std::sort(files.begin(), files.end());
    for (const fs::path& f : files) file(f, f.lexically_relative(top_));
  }

  // `name` is the path inside the dump.
  void file(const fs::path& path, const fs::path& name) {
    if (is_ignored(name.string())) return ignore(name.string(), "--ignore");
    const std::string stem_text = name.stem().string();
    const bool is_question = fs::is_directory(top_) && name.extension() == ".hex" && stem_text != "codes" &&
                             stem_text != "scales" && !stem_text.starts_with("output");
    if (is_question || name.extension() == ".svh") return ignore(name.string(), "a question in hexadecimal");
    if (name.filename() == "manifest.json") return ignore(name.string(), "no array");
    const fs::path stem = name.parent_path() / name.stem();
    if (!is_archive(path)) return take(stem.string(), path, name.string(), OpenOptions(options_.open));
    for (const TensorInfo& t : list_tensors(path.string())) {
      OpenOptions open = options_.open;
      open.entry = t.name;
      const std::string source = name.string() + ":" + t.name;
      if (is_ignored(t.name) || is_ignored(source))
        ignore(source, "--ignore");
      else if (!options_.open.entry.empty() && options_.open.entry != t.name)
        ignore(source, "not of --entry");
      else
        take((stem / t.name).string(), path, source, std::move(open));
    }
  }

  Dump dump_;

 private:
  struct Place {
    size_t which;
    std::string array;
  };

  std::optional<size_t> find_case(const std::string& name) const {
    for (size_t i = 0; i < bundle_.cases.size(); ++i)
      if (bundle_.cases[i].name == name) return i;
    return std::nullopt;
  }

  std::string known_cases() const {
    std::string list;
    for (size_t i = 0; i < bundle_.cases.size() && i < 12; ++i) add_word(list, bundle_.cases[i].name);
    if (bundle_.cases.size() > 12) list += fmt::format(", ... (`golden list {}` prints all)", bundle_.dir.string());
    return list;
  }

  void ignore(const std::string& source, const std::string& reason) { dump_.ignored.push_back({source, reason}); }

  // A path inside the dump, its last part with or without extension, or one of its folders.
  bool is_ignored(const std::string& name) const {
    const fs::path path(name);
    if (contains(options_.ignore, name) || contains(options_.ignore, path.stem().string())) return true;
    return std::any_of(path.begin(), path.end(),
                       [&](const fs::path& p) { return contains(options_.ignore, p.string()); });
  }

  // "CASE/codes", "CASE.codes", "CASE_codes", "x/CASE/codes" or "codes" with the case said elsewhere.
  Place locate(const std::string& name, const std::string& source) const {
    std::optional<size_t> which;
    std::string array = fs::path(name).filename().string();
    for (fs::path at(name); !at.empty(); at = at.parent_path()) {
      const std::string part = at.filename().string();
      size_t longest = 0;
      for (size_t i = 0; i < bundle_.cases.size(); ++i) {
        const std::string& c = bundle_.cases[i].name;
        const bool whole = part == c && at != fs::path(name);
        const bool prefix = at == fs::path(name) && part.size() > c.size() + 1 && part.starts_with(c) &&
                            (part[c.size()] == '.' || part[c.size()] == '_');
        if ((!whole && !prefix) || c.size() <= longest) continue;
        which = i;
        longest = c.size();
        if (prefix) array = part.substr(c.size() + 1);
      }
      if (which) return {*which, array};
    }
    if (!which) which = find_case(options_.case_name);
    const fs::path top = fs::weakly_canonical(top_);
    if (!which) which = find_case((fs::is_directory(top) ? top : top.parent_path()).filename().string());
    if (!which && bundle_.cases.size() == 1) which = 0;
    if (!which)
      throw Error(fmt::format("{}: which case is {} of? Add --case NAME, or --ignore {}; the bundle has: {}", place_,
                              source, array, known_cases()));
    return {*which, array};
  }

  // "codes" and "scales" are in the layouts of --nibbles and --scale-layout.
  std::string in_said_layout(const std::string& array) const {
    const ArrayName name = parse_array_name(array);
    const std::string suffix = name.is_transposed ? "_transposed" : "";
    if (array == "codes" + suffix && options_.nibbles != CodeLayout::low_first)
      return std::string("codes_") + row_of(code_layout_table, options_.nibbles).name + suffix;
    if (array == "scales" + suffix && options_.scale_layout != ScaleLayout::linear)
      return std::string("scales_") + row_of(scale_layout_table, options_.scale_layout).name + suffix;
    return array;
  }

  // "output" alone is that of --accumulator; one array of another name is what the only --stage says.
  std::string golden_name(const Case& c, const std::string& array, const std::string& source) const {
    std::vector<std::string> names;
    for (const auto& [name, record] : c.stored) names.push_back(name);
    const bool named = contains(names, array) || array == "output";
    const bool only = !fs::is_directory(top_) && !is_archive(top_) && options_.stages.size() == 1;
    const std::string wanted = named || !only ? array : options_.stages[0];
    const std::string golden = wanted == "output" ? "output_" + options_.accumulator : in_said_layout(wanted);
    if (contains(names, golden) || find_array(c, golden)) return golden;
    if (wanted == "output" && c.is_gemm) {  // the case has outputs, of other accumulators
      std::vector<std::string> held;
      for (const std::string& name : names)
        if (name.starts_with("output_")) held.push_back(name.substr(std::string("output_").size()));
      throw unknown_word(place_ + ": " + source + ": --accumulator: outputs of case " + c.name, options_.accumulator,
                         held);
    }
    throw Error(std::string(unknown_word(place_ + ": " + source + ": array of case " + c.name, array, names).what()) +
                "; or --ignore " + array);
  }

  void take(const std::string& name, const fs::path& path, const std::string& source, OpenOptions open) {
    if (!has_header(path)) refuse_pickle(open_file(path.string()));  // rather than call its name unknown
    const Place at = locate(name, source);
    const Case& c = bundle_.cases[at.which];
    if (!options_.case_name.empty() && c.name != options_.case_name) return ignore(source, "not of --case");
    const std::string golden = golden_name(c, at.array, source);
    const ArrayRecord record = *find_array(c, golden);
    CandidateArray found = {at.which, parse_array_name(golden).stage, golden, source, {}};
    if (path.extension() == ".hex") {
      found.array = {golden, record.dtype, record.shape,
                     bytes_of_hex(place_ + ": " + source, read_file(path.string()))};
    } else {
      open_as(record, path, open);
      found.array = array_of(path.string(), open, found.type);
    }
    found.array.name = golden;
    if (found.stage.empty()) return ignore(source, "no answer of a kernel");
    if (found.stage != input_stage && !options_.stages.empty() && !contains(options_.stages, found.stage))
      return ignore(source, "not of --stage");
    dump_.arrays.push_back(std::move(found));
  }

  // --dtype and --shape are for files without a header; where they are not given, the golden array's own are taken if
  // the size fits. --dtype alone is for opaque types.
  void open_as(const ArrayRecord& record, const fs::path& path, OpenOptions& open) const {
    if (!has_header(path)) {
      const Dtype dtype = parse_dtype("golden", record.dtype);
      if (!open.raw_dtype && fs::file_size(path) == byte_count("golden", dtype, record.shape)) {
        open.raw_dtype = dtype;
        open.raw_shape = record.shape;
      }
      return;
    }
    open.raw_dtype.reset();
    for (const TensorInfo& t : list_tensors(path.string()))
      if (t.opaque.empty() && (t.name == open.entry || t.name.empty())) open.opaque_dtype.reset();
  }

  const Bundle& bundle_;
  const CandidateOptions& options_;
  const std::string place_;
  const fs::path top_;
};

}  // namespace

Dump load_dump(const Bundle& bundle, const std::string& path, const CandidateOptions& options) {
  Loader loader(bundle, path, options);
  if (!fs::exists(path)) throw Error("verify --candidate: cannot read '" + path + "'");
  if (fs::is_directory(path))
    loader.folder();
  else
    loader.file(path, fs::path(path).filename());
  const auto& arrays = loader.dump_.arrays;
  if (std::all_of(arrays.begin(), arrays.end(), [](const CandidateArray& a) { return a.stage == input_stage; }))
    throw Error("verify --candidate " + path +
                ": nothing to judge; expected CASE/codes.npy, scales.npy, tensor_scale.npy, dequantized.npy or "
                "output_<accumulator>.npy (`fp4sim golden list " +
                bundle.dir.string() + "` prints the cases)");
  return std::move(loader.dump_);
}

}  // namespace fp4::golden
