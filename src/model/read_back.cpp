#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/model/model_stream.h"
#include "src/model/weight_reader.h"
#include "src/text/error.h"

namespace fp4 {

Reported rows_to_read_back(const TensorPlan& plan) {
  constexpr int64_t elements = int64_t{1} << 16;
  const auto rows = static_cast<int64_t>(matrix_rows(plan.tensor->shape));
  const auto cols = static_cast<int64_t>(matrix_cols(plan.tensor->shape));
  const int64_t count = std::min(std::max<int64_t>(elements / std::max<int64_t>(cols, 1), 1), rows);
  return {&plan, (rows - count) / 2, count};
}

void read_back(const ModelPlan& model, const std::string& path, const std::vector<Reported>& written) {
  if (written.empty()) return;
  const std::string_view scheme = model.job.scheme->name;
  std::map<std::string, ModelTensor> tensors;
  for (ModelTensor& t : model_tensors({path}, model.job.layouts)) {
    std::string name = t.name;
    tensors.emplace(std::move(name), std::move(t));
  }
  std::vector<float> x, y;
  for (const Reported& r : written) {
    if (r.count == 0) continue;
    const std::string place = fmt::format("{}: {}", r.plan->tensor->file(), r.plan->tensor->name);
    const auto fail = [&](const std::string& why) {
      throw Error(fmt::format("{}: read back from what was written: {}; nothing is kept", place, why), Error::failed);
    };
    const auto at = tensors.find(r.plan->infos[0].name);
    if (at == tensors.end() || !at->second.is_quantised() || !at->second.fault.empty())
      fail(fmt::format("no {} weight {}{}", scheme, r.plan->infos[0].name,
                       at != tensors.end() && !at->second.fault.empty() ? ": " + at->second.fault : ""));
    if (at->second.scheme == nullptr ? !model.job.scheme->is_fp8() : at->second.scheme->name != scheme)
      fail(fmt::format("a weight of {}, not of {}", at->second.scheme_name(), scheme));
    WeightReader source(*r.plan->tensor), file(at->second);
    if (source.rows() != file.rows() || source.cols() != file.cols())
      fail(fmt::format("{} x {} elements, not {} x {}", file.rows(), file.cols(), source.rows(), source.cols()));
    x.resize(static_cast<size_t>(r.count * source.cols()));
    y.resize(x.size());
    source.read_rows(r.first, r.count, x.data(), 1);
    file.read_rows(r.first, r.count, y.data(), 1);
    Quantized q = file.read_quantized(r.first, r.count);
    QuantizeReport found, expected;
    add_rows(found, row_statistics(q, view_of(x.data(), r.count, source.cols()), y.data(), 1));
    if (r.plan->way == Way::carry) {
      const Quantized& own = source.read_quantized(r.first, r.count);
      if (own.codes != q.codes || own.scales != q.scales) fail("other codes or scales than the source has");
      if (found.nmse() > 1e-12) fail(fmt::format("NMSE {:.3g} against the source, with the same codes", found.nmse()));
      continue;
    }
    add_rows(expected, r.rows);
    // The spec's order of operations and the scheme's differ by an ulp of a value here and there.
    const bool is_same =
        found.nonfinite == expected.nonfinite && found.squares == expected.squares &&
        (std::abs(found.nmse() - expected.nmse()) <= 1e-5 * expected.nmse() + 1e-12 || !found.has_finite());
    if (!is_same)
      fail(fmt::format("NMSE {:.6g} in rows {} to {}, {:.6g} was measured", found.nmse(), r.first, r.first + r.count,
                       expected.nmse()));
  }
}

}  // namespace fp4
