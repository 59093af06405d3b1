// How far a long call is, for whoever shows it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fp4 {

/// Bytes done of all, and the tensor that they belong to. Called in order, by one thread at a time.
using Progress = std::function<void(uint64_t done, uint64_t all, const std::string& tensor)>;

class ProgressCount {
 public:
  ProgressCount(const Progress& progress, uint64_t all) : progress_(progress), all_(all) {}
  void add(uint64_t bytes, const std::string& tensor = "") {
    done_ += bytes;
    if (progress_) progress_(done_, all_, tensor);
  }

 private:
  const Progress& progress_;
  uint64_t all_, done_ = 0;
};

}  // namespace fp4
