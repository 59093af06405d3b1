// SHA-256 of the shards that `quantize` and `dequantize` wrote, kept in fp4sim.json beside them and compared when they
// are read again: one flipped bit of a code is a weight like any other.
#pragma once

#include <future>
#include <set>
#include <string>
#include <vector>

namespace fp4 {

inline constexpr const char* model_record = "fp4sim.json";

// Error (exit code 1) for a file that is not the one of fp4sim.json in its folder; files without such a record pass.
// `command` opens it.
void check_hashes(const std::string& command, const std::vector<std::string>& files);

// The same beside other work on the files, while they are in the page cache anyway. Whoever begins it keeps no result
// before end(). A file that was begun before is not read again.
class SourceHashes {
 public:
  // `changed`: nothing is compared.
  SourceHashes(std::string command, bool changed, int threads)
      : command_(std::move(command)), changed_(changed), threads_(threads) {}
  void begin(const std::vector<std::string>& files);
  void end();  // waits; errors of check_hashes

 private:
  std::string command_;
  bool changed_;
  int threads_;
  std::set<std::string> seen_ = {};
  std::vector<std::future<void>> begun_ = {};
};

}  // namespace fp4
