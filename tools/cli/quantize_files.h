// Tensor file -> folder of codes, scales, tensor scale, decoded values and manifest, and back; both by bands of rows,
// so that memory does not grow with the number of rows.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "fp4/spec.h"
#include "src/backends.h"
#include "src/tensor_file/tensor_reader.h"

namespace fp4::tools {

struct QuantizeJob {
  std::string in;
  OpenOptions open;
  QuantSpec spec;
  std::string preset;  // "" when the spec came from a file
  RandomPlace place;
  bool transpose = false;               // quantise IN^T: blocks along axis 0
  std::string nibbles = "low_first";    // of golden::code_layout_table
  std::string scale_layout = "linear";  // of golden::scale_layout_table
  std::string out;
  bool force = false;
  std::string backend = "auto";
  int threads = 1;
  std::string command_line;
  int64_t band_bytes = int64_t{16} << 20;  // of float32 input handled at a time; codes and decoded values come on top
};

// Over finite elements and finite decoded values.
struct QuantizeReport {
  int64_t rows = 0, cols = 0;
  double error_squares = 0, squares = 0;  // NMSE = their quotient
  int64_t clipped = 0;                    // beyond the largest code: |x| > |decoded| and the code is the largest
  int64_t zeros = 0;                      // decoded to zero
  int64_t underflows = 0;                 // of these, x was not zero
  int64_t nonfinite = 0;                  // elements left out
  double largest_error = 0;               // |x - decoded|
  uint64_t bytes = 0;                     // of codes, scales and tensor scales, as files hold them without headers
  std::string backend;                    // that did the work
  // Adds another tensor's, or another part's, of the same spec.
  void add(const QuantizeReport& other);
  double bits_per_element() const { return share(8 * static_cast<int64_t>(bytes)); }
  double decibels() const {  // signal to noise; infinite without an error
    return error_squares > 0 ? 10 * std::log10(squares / error_squares) : std::numeric_limits<double>::infinity();
  }
  double nmse() const { return squares > 0 ? error_squares / squares : 0.0; }
  double share(int64_t count) const {
    const double all = static_cast<double>(rows) * static_cast<double>(cols);
    return all > 0 ? static_cast<double>(count) / all : 0.0;
  }
};

// Adds x [rows, cols] against its decoded values y, row-major, to a report. Sums per row, then over rows in ascending
// order: the same digits for any number of threads.
void add_statistics(QuantizeReport& report, const Quantized& q, const MatrixView& x, const float* y, int threads);

QuantizeReport quantize_to_folder(const QuantizeJob& job);

// The same statistics without writing anything; `out` and what concerns files of the job is not looked at.
QuantizeReport measure(const QuantizeJob& job);

// Decodes what quantize_to_folder wrote, by its manifest. Error with exit code 1 for files that are not the manifest's
// by their SHA-256, unless `changed`.
void dequantize_folder(const std::string& folder, const std::string& out, bool force, const std::string& backend,
                       int threads, bool changed = false);

}  // namespace fp4::tools
