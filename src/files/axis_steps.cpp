// Walks the file's axes from slowest to fastest and copies the runs that belong to the wanted rows.
//
// Every step along an axis moves the row by row_step and the column by col_step, both >= 0. So the elements under one
// node of the walk lie in rows [row, row + spread], and whole ranges of indices that miss the wanted rows are skipped
// by a division, not by looking at them.
#include <algorithm>
#include <cstring>

#include "src/files/stored_array.h"

namespace fp4 {
namespace {

constexpr std::size_t kMaxWindow = 1 << 20;

struct Gather {
  const StoredArray& array;
  const std::vector<FileAxis>& axes;
  std::vector<std::uint64_t> stride{};  // elements in the file under one index of the axis
  std::vector<std::uint64_t> spread{};  // highest row under one index of the axis, from its lowest
  std::uint64_t cols, first, last;      // wanted rows, both included
  unsigned char* out;
  std::size_t element_bytes;
  std::size_t window_bytes;
  std::vector<unsigned char> window{};
  std::uint64_t window_begin = 0;  // byte offset in the array

  // `bytes` bytes of the array at `offset`. Reads ahead, since the next wanted run often follows closely.
  const unsigned char* fetch(std::uint64_t offset, std::size_t bytes, std::uint64_t total) {
    if (offset < window_begin || offset + bytes > window_begin + window.size()) {
      window.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::max(bytes, window_bytes), total - offset)));
      array.bytes->read(array.offset + offset, window.data(), window.size());
      window_begin = offset;
    }
    return window.data() + (offset - window_begin);
  }

  template <std::size_t kBytes>
  void scatter(const unsigned char* from, std::uint64_t count, const FileAxis& axis, std::uint64_t row,
               std::uint64_t col) {
    const std::size_t step = static_cast<std::size_t>(axis.row_step * cols + axis.col_step) * kBytes;
    unsigned char* to = out + ((row - first) * cols + col) * kBytes;
    for (std::uint64_t i = 0; i < count; ++i, from += kBytes, to += step) std::memcpy(to, from, kBytes);
  }

  // A run along the fastest axis: `count` elements that are all wanted.
  void copy_run(std::uint64_t position, std::uint64_t count, std::uint64_t row, std::uint64_t col,
                std::uint64_t total) {
    const FileAxis& axis = axes.back();
    const std::uint64_t most = kMaxWindow / element_bytes;
    while (count != 0) {
      const std::uint64_t piece = std::min(count, most);
      const unsigned char* from =
          fetch(position * element_bytes, static_cast<std::size_t>(piece) * element_bytes, total);
      switch (element_bytes) {
        case 1: scatter<1>(from, piece, axis, row, col); break;
        case 2: scatter<2>(from, piece, axis, row, col); break;
        case 4: scatter<4>(from, piece, axis, row, col); break;
        default: scatter<8>(from, piece, axis, row, col); break;
      }
      position += piece;
      row += piece * axis.row_step;
      col += piece * axis.col_step;
      count -= piece;
    }
  }

  // Neighbouring columns whose runs go down the rows: a plain transpose, done by groups of columns that fill a cache
  // line, since single elements written a whole row apart cost a cache miss each (2.3 times the time at 4096 x 4096).
  template <std::size_t kBytes>
  void copy_columns(std::uint64_t position, std::uint64_t row, std::uint64_t col, std::uint64_t total) {
    const FileAxis &columns = axes[axes.size() - 2], &axis = axes.back();
    const std::uint64_t begin = row < first ? (first - row + axis.row_step - 1) / axis.row_step : 0;
    const std::uint64_t end = std::min(axis.extent, (last - row) / axis.row_step + 1);
    if (begin >= end) return;
    const std::uint64_t count = end - begin, fitting = kMaxWindow / (count * kBytes);
    const std::uint64_t group = std::clamp<std::uint64_t>(fitting, 1, 64 / kBytes);
    std::vector<unsigned char> runs(fitting == 0 ? 0 : static_cast<std::size_t>(group * count) * kBytes);
    for (std::uint64_t c = 0; c < columns.extent; c += group) {
      const std::uint64_t number = std::min(group, columns.extent - c);
      const std::uint64_t start = position + c * axis.extent + begin;
      if (fitting == 0) {  // runs longer than the window
        copy_run(start, count, row + begin * axis.row_step, col + c, total);
        continue;
      }
      for (std::uint64_t j = 0; j < number; ++j) {
        const std::size_t bytes = static_cast<std::size_t>(count) * kBytes;
        std::memcpy(&runs[static_cast<std::size_t>(j) * bytes], fetch((start + j * axis.extent) * kBytes, bytes, total),
                    bytes);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        unsigned char* to = out + ((row + (begin + i) * axis.row_step - first) * cols + col + c) * kBytes;
        for (std::uint64_t j = 0; j < number; ++j)
          std::memcpy(to + j * kBytes, &runs[(j * count + i) * kBytes], kBytes);
      }
    }
  }

  void walk(std::size_t depth, std::uint64_t position, std::uint64_t row, std::uint64_t col, std::uint64_t total) {
    const FileAxis& axis = axes[depth];
    if (row > last || row + spread[depth] + (axis.extent - 1) * axis.row_step < first) return;
    if (depth + 2 == axes.size() && axis.col_step == 1 && axis.row_step == 0 && axes.back().row_step != 0) {
      switch (element_bytes) {
        case 1: return copy_columns<1>(position, row, col, total);
        case 2: return copy_columns<2>(position, row, col, total);
        case 4: return copy_columns<4>(position, row, col, total);
        default: return copy_columns<8>(position, row, col, total);
      }
    }
    std::uint64_t begin = 0, end = axis.extent;
    if (axis.row_step != 0) {
      if (row + spread[depth] < first) begin = (first - row - spread[depth] + axis.row_step - 1) / axis.row_step;
      end = std::min(end, (last - row) / axis.row_step + 1);
    }
    if (begin >= end) return;
    if (depth + 1 == axes.size()) {
      copy_run(position + begin, end - begin, row + begin * axis.row_step, col + begin * axis.col_step, total);
      return;
    }
    for (std::uint64_t i = begin; i < end; ++i)
      walk(depth + 1, position + i * stride[depth], row + i * axis.row_step, col + i * axis.col_step, total);
  }
};

}  // namespace

std::vector<FileAxis> file_axes(const StoredArray& array, bool transposed) {
  std::vector<FileAxis> axes;
  // In the shape's order: all axes but the last count rows, the last counts columns.
  std::uint64_t step = 1;
  for (std::size_t i = array.shape.size(); i-- > 0;) {
    const bool last = i + 1 == array.shape.size();
    axes.push_back({array.shape[i], last ? 0 : step, last ? 1u : 0u});
    if (!last) step *= array.shape[i];
  }
  if (!array.fortran_order) std::reverse(axes.begin(), axes.end());  // C order: the first axis is the slowest
  std::erase_if(axes, [](const FileAxis& axis) { return axis.extent == 1; });
  if (axes.empty()) axes.push_back({1, 0, 0});
  if (transposed)
    for (FileAxis& axis : axes) std::swap(axis.row_step, axis.col_step);
  return axes;
}

void gather_rows(const StoredArray& array, const std::vector<FileAxis>& axes, std::uint64_t cols, std::uint64_t first,
                 std::uint64_t count, unsigned char* out) {
  const std::uint64_t total = byte_count(array.bytes->name(), array.dtype, array.shape);
  if (total == 0 || count == 0) return;
  const std::size_t element_bytes = info(array.dtype).bits / 8;
  Gather gather{.array = array,
                .axes = axes,
                .stride = std::vector<std::uint64_t>(axes.size(), 1),
                .spread = std::vector<std::uint64_t>(axes.size(), 0),
                .cols = cols,
                .first = first,
                .last = first + count - 1,
                .out = out,
                .element_bytes = element_bytes,
                .window_bytes = 0};
  for (std::size_t depth = axes.size() - 1; depth-- > 0;) {
    const FileAxis& below = axes[depth + 1];
    gather.stride[depth] = gather.stride[depth + 1] * below.extent;
    gather.spread[depth] = gather.spread[depth + 1] + (below.extent - 1) * below.row_step;
  }
  // Reading ahead pays when at least an eighth of the file is wanted; a thin slice reads pages.
  const std::uint64_t wanted = count * cols * element_bytes;
  gather.window_bytes = wanted >= total / 8 ? kMaxWindow : 4096;
  gather.walk(0, 0, 0, 0, total);
}

}  // namespace fp4
