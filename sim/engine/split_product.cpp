// The products of a split one; sim/rules/split.h says what they are.
#include "sim/engine/low_rank.h"
#include "sim/engine/product.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

namespace {

void scatter_columns(Tensor part, const int32_t* index, float* c, int64_t c_row) {
  for (int r = 0; r < part.rows; ++r)
    for (int i = 0; i < part.cols; ++i) c[r * c_row + index[i]] = part.row(r)[i];
}

// Factors as the product meets them: US [rows, r] and V^T [r, cols].
struct Factors {
  Tensor left, right;
};

// The parts of one product, quantised and multiplied.
class SplitRun {
 public:
  SplitRun(const ProductCall& p, SplitUse& use)
      : p_(p), tape_(p.tape), backend_(p.backend.host), use_(use), spec_(p.spec()) {}

  // Q(a) Q(b)^T, with the operands quantised into the layer's scratch.
  void first(MatrixView a, MatrixView b, float* c, int64_t c_row) {
    const Quantized* const ready_a = &p_.quantized(0, a);
    const Quantized* const ready_b = p_.ready[1] == nullptr ? &p_.quantized(1, b) : p_.ready[1];
    backend_.multiply({p_.call(0, a), p_.call(1, b), p_.options(), c, c_row, ready_a, ready_b});
  }
  void hot_channels();
  void clamp();
  void low_rank();

 private:
  bool is_wgrad() const { return p_.gemm == Gemm::wgrad; }
  RandomPlace draws(int operand, Purpose purpose) const {
    return p_.layer.operands.draws(tape_.pass, {p_.part, p_.gemm, operand}, purpose);
  }
  // A part in another format, or of another shape, with random bits of its own and no Hadamard.
  QuantizeCall apart(int operand, MatrixView x, const QuantSpec& spec, Purpose purpose) const {
    QuantizeCall call = {.x = x, .spec = spec, .place = draws(operand, purpose), .threads = tape_.pass.threads};
    return call;
  }
  Tensor second(MatrixView a, MatrixView b) {
    const Tensor c = tape_.arena.tensor(static_cast<int>(a.rows), static_cast<int>(b.rows));
    const QuantSpec& high = spec_.split.high;
    backend_.multiply({apart(0, a, high, Purpose::second_part),
                       apart(1, b, high, Purpose::second_part),
                       {spec_.accumulator, 1.0f, tape_.pass.threads},
                       c.data,
                       c.cols,
                       nullptr,
                       nullptr});
    return c;
  }
  Tensor decoded(const Quantized& q) {
    const Tensor t = tape_.arena.tensor(static_cast<int>(q.rows), static_cast<int>(q.cols));
    backend_.dequantize(q, t.data, tape_.pass.threads);
    return t;
  }
  Tensor decoded_first(int operand) { return decoded(p_.layer.operands.scratch[operand]); }
  Tensor decoded_apart(int operand, MatrixView x, const QuantSpec& spec, Purpose purpose) {
    Quantized q;
    backend_.quantize(apart(operand, x, spec, purpose), q);
    return decoded(q);
  }
  Factors factors(int operand, const LowRank& parts);

  const ProductCall& p_;
  Tape& tape_;
  const Dispatcher& backend_;
  SplitUse& use_;
  const GemmSpec& spec_;
};

void SplitRun::hot_channels() {
  const auto& [a, b] = p_.x;
  Arena& arena = tape_.arena;
  Channels& channels = use_.channels;
  if (channels.hot == nullptr) channels = choose_channels(arena, is_wgrad() ? b.transposed() : a, spec_.split.share);
  if (is_wgrad()) {
    for (const bool hot : {false, true}) {
      const int32_t* index = hot ? channels.hot : channels.cold;
      const int count = hot ? channels.hot_count : channels.cold_count;
      if (count == 0) continue;
      const MatrixView rows = view(gathered_columns(arena, b.transposed(), index, count)).transposed();
      Tensor columns = arena.tensor(static_cast<int>(a.rows), count);
      if (hot)
        columns = second(a, rows);
      else
        first(a, rows, columns.data, columns.cols);
      scatter_columns(columns, index, p_.c, p_.c_row);
    }
    return;
  }
  Tensor cold[2], hot[2];
  for (int i = 0; i < 2; ++i) {
    cold[i] = gathered_columns(arena, p_.x[static_cast<size_t>(i)], channels.cold, channels.cold_count);
    hot[i] = gathered_columns(arena, p_.x[static_cast<size_t>(i)], channels.hot, channels.hot_count);
  }
  first(view(cold[0]), view(cold[1]), p_.c, p_.c_row);
  if (channels.hot_count > 0) add_to(tape_, p_.c, p_.c_row, second(view(hot[0]), view(hot[1])));
  for (int i = 0; i < 2; ++i) {
    if (use_.decoded[i] == nullptr) continue;
    const Tensor all = arena.tensor(static_cast<int>(p_.x[static_cast<size_t>(i)].rows),
                                    static_cast<int>(p_.x[static_cast<size_t>(i)].cols));
    scatter_columns(decoded_first(i), channels.cold, all.data, all.cols);
    if (channels.hot_count > 0)
      scatter_columns(decoded_apart(i, view(hot[i]), spec_.split.high, Purpose::second_part), channels.hot, all.data,
                      all.cols);
    *use_.decoded[i] = all;
  }
}

void SplitRun::clamp() {
  const auto& [a, b] = p_.x;
  const int operand = is_wgrad() ? 1 : 0;
  const Clamped parts = clamped(tape_, operand == 0 ? a : b, spec_.split.share);
  const MatrixView inside = view(parts.inside), beyond = view(parts.beyond);
  first(operand == 0 ? inside : a, operand == 0 ? b : inside, p_.c, p_.c_row);
  add_to(tape_, p_.c, p_.c_row, operand == 0 ? second(beyond, b) : second(a, beyond));
  if (use_.decoded[operand] == nullptr) return;
  const Tensor all = decoded_first(operand);
  add_to(tape_, all.data, all.cols, decoded_apart(operand, beyond, spec_.split.high, Purpose::second_part));
  *use_.decoded[operand] = all;
}

Factors SplitRun::factors(int operand, const LowRank& parts) {
  const QuantSpec& q = (operand == 0 ? spec_.a : spec_.b).quant;
  const Tensor u = decoded_apart(operand, view(parts.left), q, Purpose::second_part);
  const Tensor left = tape_.arena.tensor(u.cols, u.rows);
  for (int r = 0; r < left.rows; ++r)
    for (int j = 0; j < left.cols; ++j) left.row(r)[j] = u.row(j)[r] * parts.values.data[j];
  return {left, decoded_apart(operand, view(parts.right), q, Purpose::right_factor)};
}

void SplitRun::low_rank() {
  Arena& arena = tape_.arena;
  const auto product = [&](Tensor x, Tensor y, bool y_transposed) {
    const Tensor out = arena.tensor(x.rows, y_transposed ? y.rows : y.cols);
    const Matrix right = y_transposed ? Matrix{y.data, 1, y.cols} : Matrix{y.data, y.cols, 1};
    multiply(tape_, out.data, out.cols, {x.data, x.cols, 1}, right, out.rows, out.cols, x.cols);
    return out;
  };
  LowRank parts[2];
  Factors low[2];
  Tensor whole[2];  // Q(R) + A^
  for (int i = 0; i < 2; ++i) {
    parts[i] = sim::low_rank(tape_, p_.x[static_cast<size_t>(i)], spec_.split.share, draws(i, Purpose::sketch));
    low[i] = factors(i, parts[i]);
    whole[i] = product(low[i].left, low[i].right, false);
  }
  first(view(parts[0].rest), view(parts[1].rest), p_.c, p_.c_row);
  const Tensor rest_a = decoded_first(0), rest_b = decoded_first(1);
  add_to(tape_, whole[0].data, whole[0].cols, rest_a);
  add_to(tape_, whole[1].data, whole[1].cols, rest_b);
  add_to(tape_, p_.c, p_.c_row, product(low[0].left, product(low[0].right, whole[1], true), false));
  add_to(tape_, p_.c, p_.c_row, product(product(rest_a, low[1].right, true), low[1].left, true));
  for (int i = 0; i < 2; ++i)
    if (use_.decoded[i] != nullptr) *use_.decoded[i] = whole[i];
}

}  // namespace

void split_product(const ProductCall& p) {
  SplitUse own;
  SplitRun run(p, p.split != nullptr ? *p.split : own);
  switch (p.spec().split.kind) {
    case Split::hot_channels: return run.hot_channels();
    case Split::clamp: return run.clamp();
    case Split::low_rank: return run.low_rank();
    case Split::none: return run.first(p.x[0], p.x[1], p.c, p.c_row);
  }
}

}  // namespace fp4::sim
