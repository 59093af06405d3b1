// libFuzzer: arbitrary bytes as the manifest of a golden bundle, as one of its arrays and as a kernel's dump of it. The
// first byte says which; hashes are mended, so that mutations reach what stands behind them. Only fp4::Error may come
// out, and a dump is never judged without a verdict on every array.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "src/files/manifest.h"
#include "src/files/output.h"
#include "src/files/sha256.h"
#include "src/golden/candidate.h"
#include "src/golden/diagnose.h"
#include "tests/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using namespace fp4::golden;

void write(const fs::path& path, const void* data, std::size_t size) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

Case small_case(const char* name, const char* words, bool is_gemm) {
  Case c;
  c.name = name;
  c.words = c.words_b = words;
  c.rows = 2;
  c.cols = 40;
  c.place = {1, 2, 3};
  c.is_gemm = is_gemm;
  if (is_gemm) {
    c.rows_b = 2;
    c.accumulators = {"fp32_block", "k64_rz"};
  } else {
    c.with_transpose = true;
  }
  return c;
}

// A folder of this process that ends with it, and in it a bundle of three cases.
struct Home {
  fs::path path = fs::temp_directory_path() / ("fp4sim_fuzz_bundle." + std::to_string(::getpid()));
  Bundle bundle;
  Home() {
    fp4::set_output_sync(false);
    fs::remove_all(path);
    write_bundle("fuzz",
                 {small_case("q", "nvfp4", false), small_case("s", "mxfp4,rounding=stochastic", false),
                  small_case("g", "mxfp4", true)},
                 path / "golden", true, "reference", 1);
    bundle = open_bundle(path / "golden");
  }
  ~Home() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void verify(const Bundle& bundle, const fs::path& candidate, const CandidateOptions& options) {
  const Dump dump = load_dump(bundle, candidate.string(), options);
  for (std::size_t i = 0; i < bundle.cases.size(); ++i) {
    const Case& c = bundle.cases[i];
    std::vector<CandidateArray> arrays;
    std::vector<Comparison> comparisons;
    std::vector<fp4::golden::ArrayPair> evidence;
    bool wrong = false;
    for (const CandidateArray& a : dump.arrays) {
      if (a.case_index != i) continue;
      evidence.push_back(evidence_of(bundle, c, a));
      comparisons.push_back(compare(c, a, load_array(bundle, c, a.golden), evidence.back()));
      if (comparisons.back().compared == 0) throw std::logic_error("an array was judged without an element");
      wrong = wrong || comparisons.back().mismatches > 0;
      arrays.push_back(a);
    }
    if (wrong && diagnose(bundle, c, arrays, comparisons, evidence, "reference", 1).first_diverging.empty())
      throw std::logic_error("a difference without a diagnosis");
  }
  const Coverage coverage = coverage_of(bundle, dump.arrays);
  if (coverage.judged == 0 || text_of(coverage).empty()) throw std::logic_error("a verdict about nothing");
  gaps(bundle, coverage, {"all"}, true);
}

// Bytes that choose are digits in the corpus: '0' is the first.
unsigned digit(std::uint8_t byte) { return static_cast<std::uint8_t>(byte - '0'); }

std::string some_array(const Case& c, unsigned which) {
  auto at = c.stored.begin();
  std::advance(at, which % c.stored.size());
  return at->first;
}

void as_manifest(Home& home, const std::string& text) {
  const fs::path folder = home.path / "other";
  write(folder / "manifest.json", text.data(), text.size());
  try {
    fp4::open_manifest(folder, "");  // its own hash is wrong nearly always
  } catch (const fp4::Error&) {
  }
  const Bundle bundle = bundle_of(fp4::parse_manifest(text, folder), home.path / "golden");
  for (const Case& c : bundle.cases)
    for (const auto& [name, record] : c.stored) {
      try {
        load_array(bundle, c, name);
      } catch (const fp4::Error&) {
      }
    }
  if (!bundle.cases.empty()) verify(bundle, home.path / "golden" / bundle.cases[0].name, {});
}

void as_golden(Home& home, unsigned which, unsigned array, const std::vector<std::uint8_t>& file) {
  Bundle bundle = home.bundle;
  bundle.dir = home.path / "changed";
  Case& c = bundle.cases[which % bundle.cases.size()];
  const std::string name = some_array(c, array);
  fs::remove_all(bundle.dir);
  fs::create_directories(bundle.dir);
  fs::copy(home.bundle.dir / c.name, bundle.dir / c.name, fs::copy_options::recursive);
  write(bundle.dir / c.name / (name + ".npy"), file.data(), file.size());
  ArrayRecord& record = c.stored.at(name);
  record.file_sha256 = fp4::sha256_hex({reinterpret_cast<const char*>(file.data()), file.size()});
  const fp4::RawTensor t = fp4::load_raw((bundle.dir / c.name / (name + ".npy")).string());
  record.sha256 = fp4::sha256_hex({reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()});
  bundle.cases = {c};
  verify(bundle, home.bundle.dir / c.name, {});
}

void as_dump(Home& home, unsigned which, unsigned array, unsigned kind, const std::vector<std::uint8_t>& file) {
  const Case& c = home.bundle.cases[which % home.bundle.cases.size()];
  constexpr const char* extensions[] = {".npy", ".npz", ".safetensors", ".bin", ".pt"};
  const fs::path dump = home.path / "dump";
  fs::remove_all(dump);
  write(dump / c.name / (some_array(c, array) + extensions[kind % 5]), file.data(), file.size());
  CandidateOptions options;
  options.open.uint16_is_bfloat16 = which >= 128;
  if (which >= 192) options.open.opaque_dtype = fp4::Dtype::f8_e4m3;
  verify(home.bundle, dump, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Home home;
  if (size < 5 || size > 60000) return 0;
  const unsigned which = digit(data[1]), array = digit(data[2]);
  try {
    // A .npy around the bytes (fuzz_support.h), or the bytes as they are.
    const std::vector<std::uint8_t> npy = fp4::fuzz::npy_of(data + 4, size - 4), plain(data + 4, data + size);
    switch (digit(data[0]) % 4) {
      case 0: as_manifest(home, {data + 1, data + size}); break;
      case 1: as_golden(home, which, array, npy); break;
      case 2: as_dump(home, which, array, digit(data[3]), npy); break;
      default: as_dump(home, which, array, digit(data[3]), plain); break;
    }
  } catch (const fp4::Error&) {
  }
  return 0;
}
