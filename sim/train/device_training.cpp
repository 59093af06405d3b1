// The trainer's loops as launches of the kernels of src/gpu; see device_training.h.
#include "sim/train/device_training.h"

#include <algorithm>
#include <vector>

#include "sim/kernels/train_kernels.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

thread_local gpu::Pool* current_pool = nullptr;

gpu::Pool& pool() {
  if (current_pool == nullptr) throw Error("gpu: a loop of the trainer without a device", Error::failed);
  return *current_pool;
}

template <class Kernel>
void start(const Kernel& kernel, int64_t groups) {
  gpu::launch(pool().device(), kernel, groups);
}

}  // namespace

DeviceScope::DeviceScope(gpu::Device& device)
    : pool_(device), resident_(gpu::make_resident_backend(pool_)), before_(current_pool) {
  current_pool = &pool_;
}

DeviceScope::~DeviceScope() { current_pool = before_; }

namespace device {

namespace {

using gpu::ElementLoop;
using gpu::ElementOp;

void* take(std::size_t bytes) {
  if (void* const memory = pool().device().allocate(bytes)) return memory;
  throw Error("gpu: " + pool().device().description() + " has no " + std::to_string((bytes >> 20) + 1) +
                  " MiB left for this training; take a smaller model or batch, or --backend auto",
              Error::failed);
}
void give(void* memory) { pool().device().release(memory); }

void upload(void* to, const void* from, int64_t bytes) {
  pool().device().upload(to, from, static_cast<std::size_t>(bytes));
}
void download(void* to, const void* from, int64_t bytes) {
  pool().device().download(to, from, static_cast<std::size_t>(bytes));
}
void copy(float* to, const float* from, int64_t n) {
  pool().device().copy(to, from, sizeof(float) * static_cast<std::size_t>(n));
}

void elements(const ElementLoop& loop) { start(loop, gpu::tiles_over(loop.count, ElementLoop::share)); }

void zero(float* x, int64_t n) { elements({.op = ElementOp::zero, .count = n, .out = x}); }
void add(float* y, const float* x, int64_t n) { elements({.op = ElementOp::add, .count = n, .out = y, .a = x}); }
void sum_of(float* z, const float* x, const float* y, int64_t n) {
  elements({.op = ElementOp::sum_of, .count = n, .out = z, .a = x, .b = y});
}
void multiply(float* y, const float* x, int64_t n) {
  elements({.op = ElementOp::multiply, .count = n, .out = y, .a = x});
}
void scale(float* y, const float* x, float s, int64_t n) {
  elements({.op = ElementOp::scale, .count = n, .out = y, .a = x, .factor = s});
}
void scale_columns(float* y, const float* factors, int rows, int cols) {
  elements({.op = ElementOp::scale_columns, .count = int64_t{rows} * cols, .out = y, .a = factors, .cols = cols});
}
void add_bias(float* y, const float* bias, int rows, int cols) {
  elements({.op = ElementOp::add_bias, .count = int64_t{rows} * cols, .out = y, .a = bias, .cols = cols});
}

void sums_down(gpu::ColumnSums sums, int rows, int cols) {
  sums.rows = rows, sums.cols = cols, sums.count = int64_t{rows} * cols;
  start(sums, gpu::tiles_over(cols, sums.width));
}
void column_sums(float* sums, const float* y, int rows, int cols) {
  sums_down({.x = pool().floats(y), .out = pool().floats(sums)}, rows, cols);
}

void bias_relu(float* y, const float* bias, int rows, int cols) {
  elements({.op = ElementOp::bias_relu, .count = int64_t{rows} * cols, .out = y, .a = bias, .cols = cols});
}
void bias_relu_backward(float* dy, float* sums, const float* y, int rows, int cols) {
  elements({.op = ElementOp::mask, .count = int64_t{rows} * cols, .out = dy, .b = y});
  column_sums(sums, dy, rows, cols);
}
void relu(float* y, const float* x, int64_t n) { elements({.op = ElementOp::relu, .count = n, .out = y, .a = x}); }
void relu_backward(float* dx, const float* dy, const float* y, int64_t n) {
  elements({.op = ElementOp::relu_backward, .count = n, .out = dx, .a = dy, .b = y});
}
void silu(float* y, float* s, const float* x, int64_t n) {
  elements({.op = ElementOp::silu, .count = n, .out = y, .second = s, .a = x});
}
void silu_backward(float* dx, const float* dy, const float* y, const float* s, int64_t n) {
  elements({.op = ElementOp::silu_backward, .count = n, .out = dx, .a = dy, .b = y, .c = s});
}
void swiglu(float* y, float* s, const float* gate, const float* up, int64_t n) {
  elements({.op = ElementOp::swiglu, .count = n, .out = y, .second = s, .a = gate, .b = up});
}
void swiglu_backward(float* dgate, float* dup, const float* dy, const float* gate, const float* up, const float* s,
                     int64_t n) {
  elements(
      {.op = ElementOp::swiglu_backward, .count = n, .out = dgate, .second = dup, .a = dy, .b = gate, .c = up, .d = s});
}

int64_t row_groups(int64_t rows) { return gpu::tiles_over(rows, gpu::rows_of_group); }

void softmax_loss(float* p, float* row_loss, const float* logits, const int32_t* labels, int rows, int cols) {
  start(gpu::SoftmaxRows{.part = {rows, cols}, .p = p, .row_loss = row_loss, .logits = logits, .labels = labels},
        row_groups(rows));
}
void softmax_loss_backward(float* dlogits, const float* p, const int32_t* labels, const float* weights, float factor,
                           int rows, int cols) {
  elements({.op = ElementOp::softmax_loss_backward,
            .count = int64_t{rows} * cols,
            .out = dlogits,
            .a = p,
            .b = weights,
            .numbers = labels,
            .cols = cols,
            .factor = factor});
}
void square_loss(float* row_loss, const float* y, const float* target, int rows, int cols) {
  start(gpu::SquareLoss{{rows, cols}, row_loss, y, target}, row_groups(rows));
}
void square_loss_backward(float* dy, const float* y, const float* target, const float* weights, float factor, int rows,
                          int cols) {
  elements({.op = ElementOp::square_loss_backward,
            .count = int64_t{rows} * cols,
            .out = dy,
            .a = y,
            .b = target,
            .c = weights,
            .cols = cols,
            .factor = factor});
}

void rmsnorm(float* y, float* r, const float* x, const float* gain, float eps, int rows, int cols) {
  start(gpu::RmsNormRows{.part = {rows, cols}, .y = y, .r = r, .x = x, .gain = gain, .eps = eps}, row_groups(rows));
}
void rmsnorm_backward(float* dx, float* dgain, const float* dy, const float* x, const float* r, const float* gain,
                      int rows, int cols) {
  // Reads r alone here.
  start(gpu::RmsNormRows{.part = {rows, cols}, .y = dx, .r = const_cast<float*>(r), .x = x, .gain = gain, .dy = dy},
        row_groups(rows));
  sums_down({.term = gpu::ColumnTerm::gain, .x = dy, .y = x, .s = r, .out = dgain}, rows, cols);
}

void rope(float* y, const float* x, const float* cosine, const float* sine, float direction, int rows, int heads,
          int width, int context) {
  elements({.op = ElementOp::rope,
            .count = int64_t{rows} * heads * (width / 2),
            .out = y,
            .a = x,
            .b = cosine,
            .c = sine,
            .factor = direction,
            .heads = heads,
            .width = width,
            .context = context});
}

void causal_softmax(float* s, float factor, int n, int tiles) {
  const int64_t rows = int64_t{n} * tiles;
  start(gpu::SoftmaxRows{.part = {rows, n}, .p = s, .logits = s, .is_causal = true, .factor = factor},
        row_groups(rows));
}
void causal_softmax_backward(float* dp, const float* p, float factor, int n, int tiles) {
  const int64_t rows = int64_t{n} * tiles;
  start(gpu::SoftmaxBackward{{rows, n}, dp, p, factor}, row_groups(rows));
}

// Over the whole array, in its one order.
float whole(gpu::ColumnSums sums, int64_t n) {
  const gpu::Buffer<float> result(pool(), 1);
  sums.rows = gpu::tiles_over(n, gpu::row_lanes), sums.cols = sums.width = gpu::row_lanes, sums.count = n;
  sums.joins = true, sums.out = result.data();
  start(sums, 1);
  float value = 0;
  result.download(&value);
  return value;
}
float sum(const float* x, int64_t n) { return whole({.x = x}, n); }
float dot(const float* x, const float* y, int64_t n) {
  return whole({.term = gpu::ColumnTerm::product, .x = x, .y = y}, n);
}

bool updates(gpu::UpdateLoop loop) {
  loop.groups = std::clamp<int64_t>(gpu::groups_for(loop.count), 1, 1024);
  const gpu::Buffer<uint32_t> bad(pool(), loop.groups);
  loop.bad = bad.data();
  start(loop, loop.groups);
  std::vector<uint32_t> words(static_cast<size_t>(loop.groups));
  bad.download(words.data());
  return std::all_of(words.begin(), words.end(), [](uint32_t word) { return word == 0; });
}
bool all_finite(const float* x, int64_t n) { return updates({.count = n, .g = x}); }
bool adam(float* w, float* m, float* v, const float* g, int64_t n, const AdamStep& s) {
  return updates({.op = gpu::UpdateOp::adam,
                  .count = n,
                  .w = w,
                  .m = m,
                  .v = v,
                  .g = g,
                  .lr = s.lr,
                  .beta1 = s.beta1,
                  .beta2 = s.beta2,
                  .eps = s.eps,
                  .weight_decay = s.weight_decay,
                  .correction1 = s.correction1,
                  .correction2 = s.correction2,
                  .gradient_scale = s.gradient_scale});
}
bool sgd(float* w, float* m, const float* g, int64_t n, float lr, float momentum, float weight_decay,
         float gradient_scale) {
  return updates({.op = gpu::UpdateOp::sgd,
                  .count = n,
                  .w = w,
                  .m = m,
                  .g = g,
                  .lr = lr,
                  .beta1 = momentum,
                  .weight_decay = weight_decay,
                  .gradient_scale = gradient_scale});
}

void gather_rows(float* y, const float* from, const int32_t* rows, int n, int cols) {
  elements(
      {.op = ElementOp::gather_rows, .count = int64_t{n} * cols, .out = y, .a = from, .numbers = rows, .cols = cols});
}
void scatter_rows(float* g, const float* dy, const int32_t* first, const int32_t* places, int rows, int cols) {
  elements({.op = ElementOp::scatter_rows,
            .count = int64_t{rows} * cols,
            .out = g,
            .a = dy,
            .numbers = first,
            .places = places,
            .cols = cols});
}

void products(const Products& p) {
  const auto place = [](auto* data, const Products::Place& at) {
    return gpu::Strided<std::remove_pointer_t<decltype(data)>>{data, at.row, at.col, at.outer, at.inner};
  };
  const gpu::StridedGemm kernel = {place(p.c, p.at_c), place(p.a, p.at_a), place(p.b, p.at_b), p.m, p.n, p.k, p.inner};
  start(kernel, kernel.groups_of_one() * p.count);
}

constexpr DeviceKernels own = {.memory = {take, give},
                               .upload = upload,
                               .download = download,
                               .copy = copy,
                               .zero = zero,
                               .scale_columns = scale_columns,
                               .gather_rows = gather_rows,
                               .scatter_rows = scatter_rows,
                               .products = products};

}  // namespace

const Kernels table = {.name = "gpu", FP4_TRAINER_LOOPS(FP4_LOOP).panel_width = 1, .device = &own};

}  // namespace device
}  // namespace fp4::sim
