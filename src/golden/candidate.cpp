#include "src/golden/candidate.h"

#include <algorithm>
#include <filesystem>

#include "src/error.h"

namespace fp4::golden {
namespace {

namespace fs = std::filesystem;

std::string stage_of(const std::string& array) {
  std::string base = array;
  if (base.ends_with("_transposed")) base.resize(base.size() - 11);
  if (base.starts_with("output")) return "output";
  for (const char* s : stage_names) {
    if (base == s) return s;
  }
  return "";
}

bool wanted(const CandidateOptions& o, const std::string& stage) {
  return !stage.empty() && (o.stages.empty() || std::find(o.stages.begin(), o.stages.end(), stage) != o.stages.end());
}

// The golden array of a candidate array's name; "" when the bundle has none.
std::string golden_name(const Bundle& bundle, const Case& c, const std::string& array, const CandidateOptions& o) {
  const std::string name = array == "output" ? "output_" + o.accumulator : array;
  return fs::exists(bundle.dir / c.name / (name + ".npy")) ? name : "";
}

Array array_of(const std::string& path, const OpenOptions& open) {
  const RawTensor t = load_raw(path, open);
  Array a;
  a.dtype = info(t.dtype).name;
  a.shape.assign(t.shape.begin(), t.shape.end());
  a.bytes = t.bytes;
  if (t.dtype != Dtype::u8 && t.dtype != Dtype::u16 && t.dtype != Dtype::u32 && t.dtype != Dtype::f32) {
    if (info(t.dtype).kind == DtypeKind::code || t.dtype == Dtype::i8) {
      a.dtype = "u8";  // fp8 and fp4 codes are bytes
    } else {
      a.dtype = "f32";
      a.bytes = bytes_of(load_floats(path, open).values);
    }
  }
  return a;
}

std::string known_cases(const Bundle& bundle) {
  std::string list;
  for (size_t i = 0; i < bundle.cases.size() && i < 12; ++i) list += (i > 0 ? ", " : "") + bundle.cases[i].name;
  if (bundle.cases.size() > 12) list += ", ... (`golden list DIR` prints all)";
  return list;
}

class Loader {
 public:
  Loader(const Bundle& bundle, const CandidateOptions& options) : bundle_(bundle), options_(options) {
    for (const std::string& s : options.stages) {
      if (std::find(std::begin(stage_names), std::end(stage_names), s) == std::end(stage_names)) {
        throw unknown_word("verify --stage", s, {std::begin(stage_names), std::end(stage_names)});
      }
    }
    if (!options.case_name.empty() && !find_case(options.case_name)) {
      throw Error("verify --case: the bundle has no case '" + options.case_name + "'; it has: " + known_cases(bundle));
    }
  }

  void folder(const fs::path& dir) {
    for (size_t i = 0; i < bundle_.cases.size(); ++i) {
      if (!allowed(i)) continue;
      const fs::path sub = dir / bundle_.cases[i].name;
      if (fs::is_directory(sub)) case_folder(i, sub);
    }
    if (!found_.empty()) return;
    const auto here = find_case(options_.case_name.empty() ? dir.filename().string() : options_.case_name);
    if (here)
      case_folder(*here, dir);
    else if (bundle_.cases.size() == 1)
      case_folder(0, dir);
  }

  void archive(const std::string& path) {
    for (const TensorInfo& t : list_tensors(path)) {
      OpenOptions open = options_.open;
      open.entry = t.name;
      for (size_t i = 0; i < bundle_.cases.size(); ++i) {
        if (!allowed(i)) continue;
        const std::string& name = bundle_.cases[i].name;
        const bool prefixed = t.name.starts_with(name + "/") || t.name.starts_with(name + ".");
        const bool only = bundle_.cases.size() == 1 || !options_.case_name.empty();
        if (prefixed || only) take(i, prefixed ? t.name.substr(name.size() + 1) : t.name, path, open);
      }
    }
  }

  // A single array: stage from --stage, the file's name, or the one array of its shape.
  void single(const fs::path& path) {
    std::string stem = path.stem().string();
    auto which = find_case(options_.case_name);
    for (size_t i = 0; i < bundle_.cases.size() && !which; ++i) {
      const std::string& name = bundle_.cases[i].name;
      if (stem.starts_with(name + ".") || stem.starts_with(name + "_")) {
        which = i;
        stem = stem.substr(name.size() + 1);
      }
    }
    if (!which) which = find_case(path.parent_path().filename().string());
    if (!which && bundle_.cases.size() == 1) which = 0;
    if (!which) {
      throw Error("verify --candidate " + path.string() +
                  ": which case is it? Add --case NAME; the bundle has: " + known_cases(bundle_));
    }
    if (stage_of(stem).empty() && options_.stages.size() == 1) stem = options_.stages[0];
    if (stage_of(stem).empty()) {
      throw Error("verify --candidate " + path.string() + ": which stage is it? Add --stage; accepted: scales, " +
                  "tensor_scale, codes, dequantized, output");
    }
    take(*which, stem, path.string(), options_.open);
  }

  std::vector<CandidateArray> found_;

 private:
  std::optional<size_t> find_case(const std::string& name) const {
    for (size_t i = 0; i < bundle_.cases.size(); ++i) {
      if (bundle_.cases[i].name == name) return i;
    }
    return std::nullopt;
  }
  bool allowed(size_t i) const { return options_.case_name.empty() || bundle_.cases[i].name == options_.case_name; }

  void case_folder(size_t i, const fs::path& dir) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(dir)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& f : files) {
      if (f.extension() == ".npy" || f.extension() == ".bin") take(i, f.stem().string(), f.string(), options_.open);
    }
  }

  void take(size_t i, const std::string& array, const std::string& path, const OpenOptions& open) {
    const std::string stage = stage_of(array);
    if (!wanted(options_, stage)) return;
    const std::string golden = golden_name(bundle_, bundle_.cases[i], array, options_);
    if (golden.empty()) return;
    CandidateArray c = {i, stage, golden, open.entry.empty() ? path : path + ":" + open.entry, array_of(path, open)};
    c.array.name = golden;
    found_.push_back(std::move(c));
  }

  const Bundle& bundle_;
  const CandidateOptions& options_;
};

}  // namespace

std::vector<CandidateArray> load_candidate(const Bundle& bundle, const std::string& path,
                                           const CandidateOptions& options) {
  Loader loader(bundle, options);
  const fs::path p(path);
  if (!fs::exists(p)) throw Error("verify --candidate: cannot read '" + path + "'");
  const std::string extension = p.extension().string();
  if (fs::is_directory(p)) {
    loader.folder(p);
  } else if (extension == ".npz" || extension == ".safetensors") {
    loader.archive(path);
  } else {
    loader.single(p);
  }
  if (loader.found_.empty()) {
    throw Error(
        "verify --candidate " + path + ": no array of it is in the bundle; expected CASE/codes.npy, scales.npy, " +
        "tensor_scale.npy, dequantized.npy or output_<accumulator>.npy with CASE one of: " + known_cases(bundle));
  }
  return loader.found_;
}

}  // namespace fp4::golden
