// quantize, gemm and hadamard of matrices in a lent device's memory: kernels on the caller's stream, results in memory
// that the caller brings. Nothing comes to the host.
#include <cstring>

#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"
#include "src/gpu/pipeline.h"
#include "src/text/error.h"
#include "tools/python/bound_tensor.h"

namespace fp4::python {
namespace {

struct Lent {
  explicit Lent(const Arguments& given)
      : device(gpu::make_lent_device(*reinterpret_cast<const gpu::Lender*>(given.get<uintptr_t>("lender")))),
        pool(*device) {}
  std::unique_ptr<gpu::Device> device;
  gpu::Pool pool;
};

// Why nothing can be lent of this device; "" when it can.
Json lent_reason(const Arguments& given) {
  try {
    const Lent lent(given);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

template <class T>
void require_known(const T& words, const std::string& what) {
  if (!is_known(words)) throw Error(what + ": no kernels for it on a device; accepted: the host (x.cpu())");
}

gpu::OperandElements source_of(const Arguments& given, const char* name) {
  const MatrixView v = operand_of(given, name).view;
  return {{v.data, given.json(name).at("bf16").get<bool>()}, v.rows, v.cols, v.row_stride, v.col_stride};
}

HadamardSpec known_hadamard(const Arguments& given, const char* size) {
  const HadamardSpec h = hadamard_of(given, size, "hadamard");
  require_known(h, "hadamard");
  return h;
}

gpu::Resident quantised(gpu::Pool& pool, const gpu::OperandElements& x, const std::string& words, const HadamardSpec& h,
                        RandomPlace place) {
  const QuantSpec spec = quant_spec_from_words(words, "--spec");
  require_known(spec, words);
  gpu::Resident r = gpu::make_resident(pool, spec, x.rows, hadamard_padded(h, x.cols));
  gpu::quantize(pool, x, {h, place}, r);
  return r;
}

// Shapes and types of what lent_quantize gives.
Json lent_parts(const Arguments& given) {
  Json out = Json::object();
  const QuantSpec spec = quant_spec_from_words(given.text("words"), "--spec");
  for (const auto& part : parts_of(spec, {given.get<uint64_t>("rows"), given.get<uint64_t>("cols")}))
    out[std::string(part.name, std::strlen(part.name) - std::strlen(".npy"))] = {{"type", info(part.dtype).numpy_name},
                                                                                 {"shape", part.shape}};
  return out;
}

template <class T>
void copy_out(gpu::Device& device, const Arguments& given, const char* name, const gpu::Buffer<T>& from) {
  if (from.data() != nullptr)
    device.copy(reinterpret_cast<void*>(given.get<uintptr_t>(name)), from.data(),
                static_cast<size_t>(from.count()) * sizeof(T));
}

// Tensor scales as TensorFactors, three numbers each, the first of which is the scale. Codes and scales, or the decoded
// values.
Json lent_quantize(const Arguments& given) {
  Lent lent(given);
  const gpu::Resident r = quantised(lent.pool, source_of(given, "x"), given.text("words"), {}, given.place());
  copy_out(*lent.device, given, "factors", r.factors);
  if (given.has("decoded")) {
    gpu::dequantize(lent.pool, r, reinterpret_cast<float*>(given.get<uintptr_t>("decoded")));
    return {};
  }
  copy_out(*lent.device, given, "codes", r.codes);
  copy_out(*lent.device, given, "scales", r.scales);
  copy_out(*lent.device, given, "scales", r.real_scales);
  return {};
}

Json lent_gemm(const Arguments& given) {
  Lent lent(given);
  const HadamardSpec h = known_hadamard(given, "hadamard");
  GemmOptions options;
  options.accumulator = accumulator_of(given.text("accumulator"));
  require_known(options.accumulator, given.text("accumulator"));
  options.hadamard_divisor = h.product_divisor();
  const gpu::Resident a = quantised(lent.pool, source_of(given, "a"), given.text("words"), h, given.place());
  const gpu::Resident b =
      quantised(lent.pool, source_of(given, "b"), given.text("words_b"), h, given.place().second_operand());
  gpu::gemm(lent.pool, a, b, options, reinterpret_cast<float*>(given.get<uintptr_t>("c")));
  return {};
}

Json lent_hadamard(const Arguments& given) {
  Lent lent(given);
  gpu::hadamard(lent.pool, source_of(given, "x"), known_hadamard(given, "size"), given.place().hadamard_signs(),
                given.get<bool>("inverse"), reinterpret_cast<float*>(given.get<uintptr_t>("y")));
  return {};
}

}  // namespace

const std::vector<Function>& lent_functions() {
  static const std::vector<Function> table = {{"lent_reason", &lent_reason},
                                              {"lent_parts", &lent_parts},
                                              {"lent_quantize", &lent_quantize},
                                              {"lent_gemm", &lent_gemm},
                                              {"lent_hadamard", &lent_hadamard}};
  return table;
}

}  // namespace fp4::python
