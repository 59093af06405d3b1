#include "src/backends/backends.h"

#include <cstdlib>
#include <optional>

#include "fp4/gemm.h"
#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"
#include "src/backends/declined.h"
#include "src/backends/near_powers.h"
#include "src/backends/strange_codes.h"
#include "src/cpu/vector_backends.h"
#include "src/gpu/gpu_backend.h"
#include "src/listed/backend_listed.h"
#include "src/text/named_rows.h"

namespace fp4 {

// Fastest first. A new fast path is one file and one line here.
const std::vector<const Backend*>& all_backends() {
  static const std::vector<const Backend*> list = [] {
    std::vector<const Backend*> all = vector_backends();
    all.push_back(&gpu_backend());  // after the CPU's fast paths: host operands pay for the way to the device and back
    all.push_back(&reference_backend());
    return all;
  }();
  return list;
}

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = {"auto", "reference", "generic", "avx2", "avx512", "gpu"};
  return names;
}

namespace {

void check_spec(const QuantSpec& spec, int64_t k) {
  if (const std::string reason = invalid_reason(spec); !reason.empty()) throw Error("spec: " + reason);
  const bool blocked =
      spec.has_scale() && (spec.block.kind == BlockKind::vector || spec.block.kind == BlockKind::square);
  if (blocked && spec.ragged == Ragged::refuse && k % spec.block.size != 0)
    throw Error("spec: ragged=refuse, but K = " + std::to_string(k) + " is not a multiple of the block " +
                std::to_string(spec.block.size));
}

void check_accumulator(const Accumulator& row, const QuantSpec& a, const QuantSpec& b) {
  if (const std::string reason = invalid_reason(row, a, b); !reason.empty()) throw Error("gemm: " + reason);
}

// Those of the bands above count, too.
uint64_t elements_drawn(const QuantizeCall& call) {
  return static_cast<uint64_t>((call.row_offset + call.x.rows) * hadamard_padded(call.hadamard, call.x.cols));
}

void check_words(const QuantizeCall& call) {
  if (call.spec.random_stream != RandomStream::philox)
    throw Error("random words: they replace Philox's, so the spec must say random_stream=philox");
  if (const uint64_t needed = random_words_needed(call); call.random_words.size() < needed)
    throw Error("random words: " + std::to_string(call.random_words.size()) + " words of 32 bits, but " +
                std::to_string(elements_drawn(call)) + " elements take " + std::to_string(call.spec.random_bits) +
                " bits each: " + std::to_string(needed) + " words");
}

}  // namespace

uint64_t random_words_needed(const QuantizeCall& call) {
  return (elements_drawn(call) * static_cast<uint64_t>(call.spec.random_bits) + 31) / 32;
}

Dispatcher::Dispatcher(std::string_view name) : name_(name) {
  const char* forced = std::getenv("FP4SIM_BACKEND");
  if (name_ == "auto" && forced != nullptr && *forced != '\0') name_ = forced;
  accepted_index("backend", name_, backend_names());
  for (const Backend* b : all_backends()) {
    // The GPU is asked when something reaches it that no CPU path takes: starting a vendor's runtime takes a good part
    // of a second.
    const bool is_asked_later = name_ == "auto" && b == &gpu_backend();
    if (is_asked_later || ((name_ == "auto" || name_ == b->name()) && b->available())) chosen_.push_back(b);
  }
  if (name_ == "auto") chosen_.insert(chosen_.end() - 1, &listed_backend());  // before the reference
  if (chosen_.empty()) {
    std::string message = "backend: '" + name_ + "' is not available on this machine or in this build; available:";
    for (const Backend* b : all_backends()) {
      if (b->available()) message += std::string(" ") + b->name();
    }
    if (name_ == "gpu") message += "; " + gpu_status();
    throw Error(message);
  }
}

const Backend& Dispatcher::for_quantize(const QuantizeCall& call) const {
  if (call.replays()) {
    check_words(call);
    if (name_ == "auto" || name_ == "reference") return reference_backend();
  }
  for (const Backend* b : chosen_) {
    if (!call.replays() && b != &reference_backend() && b->supports_quantize(call)) return *b;
  }
  if (name_ != "reference" && differs_near_powers_only(call)) return for_quantize(with_exact_exponents(call));
  for (const Backend* b : chosen_) {
    if (!call.replays() && b->supports_quantize(call)) return *b;
  }
  throw Declined(name_, "quantisation");
}

const Backend& Dispatcher::for_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const {
  for (const Backend* backend : chosen_) {
    if (backend->supports_gemm(a, b, options)) return *backend;
  }
  throw Declined(name_, "gemm");
}

const Backend& Dispatcher::for_gemm(const Quantized& a, const Quantized& b, const GemmOptions& options) const {
  const bool is_strange =
      has_strange_scales(a) || has_strange_scales(b) || has_special_codes(a) || has_special_codes(b);
  return is_strange ? by_definition("gemm") : for_gemm(a.spec, b.spec, options);
}

const Backend& Dispatcher::by_definition(const char* what) const {
  if (name_ != "auto" && name_ != "reference") throw Declined(name_, what);
  return reference_backend();
}

const Backend& Dispatcher::for_dequantize(const Quantized& q) const {
  if (has_strange_scales(q)) return by_definition("dequantisation");
  for (const Backend* b : chosen_) {
    if (b->supports_dequantize(q)) return *b;
  }
  throw Declined(name_, "dequantisation");
}

const Backend& Dispatcher::for_hadamard(const HadamardSpec& h) const {
  for (const Backend* b : chosen_) {
    if (b->supports_hadamard(h)) return *b;
  }
  throw Declined(name_, "Hadamard");
}

void Dispatcher::quantize(const QuantizeCall& call, Quantized& out) const {
  check_spec(call.spec, hadamard_padded(call.hadamard, call.x.cols));
  const Backend& backend = for_quantize(call);
  if (!differs_near_powers_only(call) || backend.supports_quantize(call)) return backend.quantize(call, out);
  backend.quantize(with_exact_exponents(call), out);
  recode_near_powers(call, out);
  out.spec = decoding_spec(call.spec);
}

void Dispatcher::dequantize(const Quantized& q, float* out, int threads) const {
  for_dequantize(q).dequantize(q, out, threads);
}

namespace {

// Whether it decodes by words that reach a product only through the factor g: fast backends need not know them.
bool has_own_decode(const QuantSpec& s) {
  return s.has_scale() &&
         (s.decode != Decode::scale_then_tensor || s.headroom != Headroom::none || !is_known(s.arithmetic));
}

// The same codes and scales with g for every factor, under words that every backend knows.
Quantized plainly_decoded(Quantized q) {
  const float top = resolve(q.spec).top();
  if (q.spec.has_tensor_scale())
    for (float& factor : q.tensor_scale) factor = multiplier_of(q.spec.decode, factor, top);
  q.spec.decode = Decode::scale_then_tensor;
  q.spec.headroom = Headroom::none;
  q.spec.arithmetic = Arithmetic::exact;
  return q;
}

}  // namespace

void Dispatcher::gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                      int64_t c_stride) const {
  if (a.cols != b.cols)
    throw Error("gemm: A has K = " + std::to_string(a.cols) + ", B has K = " + std::to_string(b.cols));
  check_accumulator(options.accumulator, a.spec, b.spec);
  if (options.factor != ProductFactor::tensor_scales) return multiply_by_amaxes(a, b, options, c, c_stride);
  if (name_ != "reference" && multiply_unscaled(a, b, options, c, c_stride)) return;
  if (name_ != "reference" && options.accumulator.kind != AccumulatorKind::fma &&
      (has_own_decode(a.spec) || has_own_decode(b.spec))) {
    std::optional<Quantized> own_a, own_b;
    if (has_own_decode(a.spec)) own_a = plainly_decoded(a);
    if (has_own_decode(b.spec)) own_b = plainly_decoded(b);
    const Quantized &plain_a = own_a ? *own_a : a, &plain_b = own_b ? *own_b : b;
    return for_gemm(plain_a, plain_b, options).gemm(plain_a, plain_b, options, c, c_stride);
  }
  for_gemm(a, b, options).gemm(a, b, options, c, c_stride);
}

namespace {

// Without its factors: of a row, or of the tensor.
Quantized without_factor(Quantized q) {
  q.spec = decoding_spec(q.spec);
  q.spec.tensor_scale = TensorScale::none;
  q.spec.decode = Decode::scale_then_tensor;
  q.spec.arithmetic = Arithmetic::exact;
  q.spec.headroom = Headroom::none;
  q.spec.target = 0.0f;
  q.tensor_scale = {1.0f};
  return q;
}

// The amax that a tensor scale was made of. Codes and scales alone carry it where it is what they store.
float known_amax(const Quantized& q) {
  const bool one = q.spec.has_tensor_scale() &&
                   (q.spec.tensor_scale == TensorScale::current || q.spec.tensor_scale == TensorScale::hold);
  if (!one || q.spec.prescale != 1.0f)
    throw Error("gemm: a factor of amaxes needs operands with tensor_scale current or hold, and no prescale");
  if (q.spec.decode == Decode::amax_first) return q.tensor_scale[0];
  if (q.amax == 0.0f && q.tensor_scale[0] != 1.0f)
    throw Error("gemm: a factor of amaxes needs them, and these codes do not say theirs; decode=amax_first stores it");
  return q.amax;
}

}  // namespace

// Without factors, prescale and Hadamard divisor a product is the exact accumulator; C = fl32(acc * F) of gemm.h
// follows, with factor(i, j) for gA*gB.
template <class Factor>
void Dispatcher::multiply_apart(const Quantized& a, const Quantized& b, const GemmOptions& options,
                                const Factor& factor, float* c, int64_t c_stride) const {
  GemmOptions plain = options;
  plain.hadamard_divisor = 1.0f;
  plain.factor = ProductFactor::tensor_scales;
  const Quantized bare_a = without_factor(a), bare_b = without_factor(b);
  for_gemm(bare_a, bare_b, plain).gemm(bare_a, bare_b, plain, c, c_stride);
  const GemmFinish finish = {.hadamard_divisor = options.hadamard_divisor};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.rows; ++j) {
      float& out = c[i * c_stride + j];
      out = canonical(out * finish.factor(factor(i, j)));
    }
}

void Dispatcher::multiply_by_amaxes(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                                    int64_t c_stride) const {
  if (options.accumulator.kind == AccumulatorKind::fma)
    throw Error("gemm: accumulator fma_sequential multiplies decoded values; it takes no factor of amaxes");
  const float factor =
      factor_of_amaxes(options.factor, known_amax(a), known_amax(b), resolve(a.spec).top(), resolve(b.spec).top());
  multiply_apart(
      a, b, options, [&](int64_t, int64_t) { return factor; }, c, c_stride);
}

// Factors of rows act after the sums. False where the sums see the factors, or nothing but them is unknown.
bool Dispatcher::multiply_unscaled(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                                   int64_t c_stride) const {
  const bool by_row = a.spec.tensor_scale == TensorScale::row || b.spec.tensor_scale == TensorScale::row;
  if (!by_row || !a.spec.has_scale() || !b.spec.has_scale() || options.accumulator.kind == AccumulatorKind::fma ||
      a.spec.has_outer_scale() || b.spec.has_outer_scale() || a.spec.prescale != 1.0f || b.spec.prescale != 1.0f)
    return false;
  const auto of_rows = [&](int64_t i, int64_t j) {
    return a.tensor_multiplier_at(i, 0) * b.tensor_multiplier_at(j, 0);
  };
  multiply_apart(a, b, options, of_rows, c, c_stride);
  return true;
}

void Dispatcher::multiply(const MultiplyCall& call) const {
  const int64_t k = hadamard_padded(call.a.hadamard, call.a.x.cols);
  check_spec(call.a.spec, k);
  check_spec(call.b.spec, k);
  check_accumulator(call.options.accumulator, call.ready_a != nullptr ? call.ready_a->spec : call.a.spec,
                    call.ready_b != nullptr ? call.ready_b->spec : call.b.spec);
  for (const Backend* b : chosen_) {
    const bool whole = call.options.factor == ProductFactor::tensor_scales;
    const bool is_last = name_ == "auto" && b == &gpu_backend();  // what follows may be the CPU's
    if (whole && !is_last && !call.a.replays() && !call.b.replays() && b->multiply(call)) return;
  }
  thread_local Quantized a;
  thread_local Quantized b;
  if (call.ready_a == nullptr) quantize(call.a, a);
  if (call.ready_b == nullptr) quantize(call.b, b);
  gemm(call.ready_a != nullptr ? *call.ready_a : a, call.ready_b != nullptr ? *call.ready_b : b, call.options, call.c,
       call.c_stride);
}

void Dispatcher::hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                          int threads) const {
  for_hadamard(h).hadamard(x, h, place, inverse, y, threads);
}

}  // namespace fp4
