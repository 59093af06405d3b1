// Prints words of a GPU's tensor cores for `fp4sim verify --probe`: adversarial sums D = A*B + C with raw codes, each
// from one instruction. Nothing but a CUDA toolkit is needed:
//   nvcc -std=c++17 -arch=sm_90a -o probe probe.cu && ./probe > words.txt && fp4sim verify --probe words.txt
// sm_80: mma.sync of bf16, f16, tf32; sm_89: and fp8; sm_90a: and wgmma of all; sm_120a: and mma.sync with block
// scales (mxf8f6f4, mxf4, mxf4nvf4). The argument is the number of sums of each instruction, 2000 without one.
//
// All of these take 32 bytes of K. Eight sums share an instruction: sum i is row i of A times column i of B, D[i][i].
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Sums {  // of eight sums
  uint8_t a[8][32], b[8][32];
  uint32_t scale_a[8], scale_b[8];  // up to four codes each, first block lowest
  uint32_t c[8], d[8];              // fp16: low bits
};

// clang-format off
enum Op { op_none, mma_bf16, mma_f16, mma_f16_half, mma_tf32, mma_e4m3, mma_e5m2, mma_e4m3_half, wgmma_bf16, wgmma_f16,
          wgmma_f16_half, wgmma_tf32, wgmma_e4m3, wgmma_e5m2, wgmma_e4m3_half, mma_mxf8, mma_mxf4, mma_nvf4 };
struct Format { const char* name; int bits, mantissa; uint32_t one; };
struct Instruction { Op op; int arch; bool only; const char* name; Format format; const char* scale; int block; bool half; };
// clang-format on

#define MMA(shape, types)                                                \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." types           \
               ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_HALF(shape, types)                                                                               \
  asm volatile("mma.sync.aligned." shape ".row.col.f16." types ".f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};" \
               : "+r"(h[0]), "+r"(h[1])                                                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_SCALED(kind, shape, types, scale)                                                                     \
  asm volatile("{.reg .b16 z; mov.b16 z, 0; mma.sync.aligned." kind "." shape ".row.col.f32." types ".f32." scale \
               " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3},%10,{z,z},%11,{z,z};}"                         \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa), "r"(sb))
#define WGMMA(shape, types, end)                                                                                   \
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned." shape \
               ".f32." types " {%0,%1,%2,%3},{%4,%5,%6,%7},%8,p," end                                              \
               "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;}"                              \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc)                                             \
               : "memory")
#define WGMMA_HALF(shape, types, end)                                                                              \
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned." shape \
               ".f16." types " {%0,%1},{%2,%3,%4,%5},%6,p," end                                                    \
               "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;}"                              \
               : "+r"(h[0]), "+r"(h[1])                                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc)                                             \
               : "memory")

__device__ uint32_t word_at(const uint8_t* bytes) { return *reinterpret_cast<const uint32_t*>(bytes); }

// 128 threads for wgmma, else 32 of them compute. Lane 4g + t holds bytes 4t.. and 16 + 4t.. of K of row (column) g and
// D of row g, columns 2t and 2t + 1; rows from 8 on are zero.
__global__ void run(Sums* all, Op op) {
  Sums& s = all[blockIdx.x];
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const bool first = warp == 0;
  uint32_t a[4] = {first ? word_at(s.a[g] + 4 * t) : 0u, 0u, first ? word_at(s.a[g] + 16 + 4 * t) : 0u, 0u};
  uint32_t b[2] = {word_at(s.b[g] + 4 * t), word_at(s.b[g] + 16 + 4 * t)};
  const bool holds = first && t == g / 2;
  float d[4] = {0, 0, 0, 0};
  uint32_t h[2] = {0, 0};
  if (holds) d[g % 2] = __uint_as_float(s.c[g]), h[0] = s.c[g] << 16 * (g % 2);
  [[maybe_unused]] const uint32_t sa = s.scale_a[g], sb = s.scale_b[g];
#if __CUDA_ARCH__ >= 800
  if (op == mma_bf16) MMA("m16n8k16", "bf16.bf16");
  if (op == mma_f16) MMA("m16n8k16", "f16.f16");
  if (op == mma_tf32) MMA("m16n8k8", "tf32.tf32");
  if (op == mma_f16_half) MMA_HALF("m16n8k16", "f16.f16");
#endif
#if __CUDA_ARCH__ >= 890
  if (op == mma_e4m3) MMA("m16n8k32", "e4m3.e4m3");
  if (op == mma_e5m2) MMA("m16n8k32", "e5m2.e5m2");
  if (op == mma_e4m3_half) MMA_HALF("m16n8k32", "e4m3.e4m3");
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ __align__(128) uint8_t columns[256];  // two core matrices of 8 columns of B times 16 bytes of K
  for (int i = threadIdx.x; i < 256; i += blockDim.x) columns[i] = s.b[i / 16 % 8][i / 128 * 16 + i % 16];
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(columns));
  // no swizzle; both strides are 128 bytes: along K, and along N, where there is one core matrix
  const uint64_t desc = (address >> 4 & 0x3FFF) | uint64_t{128 >> 4} << 16 | uint64_t{128 >> 4} << 32;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (op >= wgmma_bf16 && op <= wgmma_e4m3_half) {
    if (op == wgmma_bf16) WGMMA("m64n8k16", "bf16.bf16", "1,1,0");
    if (op == wgmma_f16) WGMMA("m64n8k16", "f16.f16", "1,1,0");
    if (op == wgmma_f16_half) WGMMA_HALF("m64n8k16", "f16.f16", "1,1,0");
    if (op == wgmma_tf32) WGMMA("m64n8k8", "tf32.tf32", "1,1");
    if (op == wgmma_e4m3) WGMMA("m64n8k32", "e4m3.e4m3", "1,1");
    if (op == wgmma_e5m2) WGMMA("m64n8k32", "e5m2.e5m2", "1,1");
    if (op == wgmma_e4m3_half) WGMMA_HALF("m64n8k32", "e4m3.e4m3", "1,1");
  }
#endif
#ifdef __CUDA_ARCH_FEAT_SM120_ALL
  if (op == mma_mxf8) MMA_SCALED("kind::mxf8f6f4.block_scale.scale_vec::1X", "m16n8k32", "e4m3.e4m3", "ue8m0");
  if (op == mma_mxf4) MMA_SCALED("kind::mxf4.block_scale.scale_vec::2X", "m16n8k64", "e2m1.e2m1", "ue8m0");
  if (op == mma_nvf4) MMA_SCALED("kind::mxf4nvf4.block_scale.scale_vec::4X", "m16n8k64", "e2m1.e2m1", "ue4m3");
#endif
  const bool is_half = op == mma_f16_half || op == mma_e4m3_half || op == wgmma_f16_half || op == wgmma_e4m3_half;
  if (holds) s.d[g] = is_half ? h[0] >> 16 * (g % 2) & 0xFFFF : __float_as_uint(d[g % 2]);
}

constexpr Format e2m1{"e2m1", 4, 1, 2}, e4m3{"e4m3", 8, 3, 0x38}, e5m2{"e5m2", 8, 2, 0x3C}, bf16{"bf16", 16, 7, 0x3F80},
    fp16{"fp16", 16, 10, 0x3C00}, tf32{"tf32", 32, 23, 0x3F800000};

constexpr Instruction instructions[] = {
    // `only`: on this architecture alone
    {mma_bf16, 80, false, "mma.m16n8k16.f32.bf16", bf16, "none", 0, false},
    {mma_f16, 80, false, "mma.m16n8k16.f32.f16", fp16, "none", 0, false},
    {mma_f16_half, 80, false, "mma.m16n8k16.f16.f16", fp16, "none", 0, true},
    {mma_tf32, 80, false, "mma.m16n8k8.f32.tf32", tf32, "none", 0, false},
    {mma_e4m3, 89, false, "mma.m16n8k32.f32.e4m3", e4m3, "none", 0, false},
    {mma_e5m2, 89, false, "mma.m16n8k32.f32.e5m2", e5m2, "none", 0, false},
    {mma_e4m3_half, 89, false, "mma.m16n8k32.f16.e4m3", e4m3, "none", 0, true},
    {wgmma_bf16, 90, true, "wgmma.m64n8k16.f32.bf16", bf16, "none", 0, false},
    {wgmma_f16, 90, true, "wgmma.m64n8k16.f32.f16", fp16, "none", 0, false},
    {wgmma_f16_half, 90, true, "wgmma.m64n8k16.f16.f16", fp16, "none", 0, true},
    {wgmma_tf32, 90, true, "wgmma.m64n8k8.f32.tf32", tf32, "none", 0, false},
    {wgmma_e4m3, 90, true, "wgmma.m64n8k32.f32.e4m3", e4m3, "none", 0, false},
    {wgmma_e5m2, 90, true, "wgmma.m64n8k32.f32.e5m2", e5m2, "none", 0, false},
    {wgmma_e4m3_half, 90, true, "wgmma.m64n8k32.f16.e4m3", e4m3, "none", 0, true},
    {mma_mxf8, 120, true, "mma.m16n8k32.mxf8f6f4.e4m3", e4m3, "e8m0", 32, false},
    {mma_mxf4, 120, true, "mma.m16n8k64.mxf4.e2m1", e2m1, "e8m0", 32, false},
    {mma_nvf4, 120, true, "mma.m16n8k64.mxf4nvf4.e2m1", e2m1, "ue4m3", 16, false},
};

uint64_t state = 0x5EED;
uint64_t draw() {  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
int below(int n) { return static_cast<int>(draw() % static_cast<uint64_t>(n)); }
int between(int low, int high) { return low + below(high - low + 1); }
int clamped(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

int count_of(const Format& f) { return 256 / f.bits; }
uint32_t code_at(const uint8_t* bytes, const Format& f, int k) {
  if (f.bits == 4) return bytes[k / 2] >> 4 * (k % 2) & 0xFu;
  uint32_t code = 0;
  memcpy(&code, bytes + k * f.bits / 8, static_cast<size_t>(f.bits / 8));
  return code;
}
void set_code(uint8_t* bytes, const Format& f, int k, uint32_t code) {
  if (f.bits == 4)
    bytes[k / 2] = static_cast<uint8_t>((bytes[k / 2] & (k % 2 ? 0x0F : 0xF0)) | code << 4 * (k % 2));
  else
    memcpy(bytes + k * f.bits / 8, &code, static_cast<size_t>(f.bits / 8));
}

// Codes of K elements: any, or exponents near one another; zeros in dots of four; infinities and NaN now and then.
void draw_codes(uint8_t* bytes, const Format& f, bool special) {
  const int exponent_bits = f.bits - 1 - f.mantissa, largest = (1 << exponent_bits) - 1;
  const int spreads[] = {1, 4, 16, 60};
  const int middle = below(largest), spread = spreads[below(4)];
  const bool any = below(4) == 0, has_zeros = below(3) == 0;
  bool zero = false;
  for (int k = 0; k < count_of(f); ++k) {
    if (k % 4 == 0) zero = has_zeros && below(3) == 0;
    int exponent = any ? below(largest + 1) : clamped(middle + between(-spread, spread), 0, largest);
    if (!special && f.bits > 4 && exponent == largest) --exponent;
    const uint32_t code =
        static_cast<uint32_t>(exponent) << f.mantissa | (static_cast<uint32_t>(draw()) & ((1u << f.mantissa) - 1));
    set_code(bytes, f, k, (zero ? 0 : code) | (draw() & 1 ? 1u << (f.bits - 1) : 0u));
  }
}

void draw_sum(Sums& s, int i, const Instruction& n) {
  const Format& f = n.format;
  const bool special = below(30) == 0;
  draw_codes(s.a[i], f, special);
  draw_codes(s.b[i], f, special);
  if (below(3) != 0) {  // halves that cancel, but for some products
    const int half = count_of(f) / 2;
    for (int k = 0; k < half; ++k) {
      set_code(s.a[i], f, half + k, code_at(s.a[i], f, k) ^ 1u << (f.bits - 1));
      set_code(s.b[i], f, half + k, code_at(s.b[i], f, k));
    }
    for (int changes = below(4); changes > 0; --changes)
      set_code(s.b[i], f, below(2 * half), code_at(s.b[i], f, below(2 * half)));
  }
  s.scale_a[i] = s.scale_b[i] = 0;
  const int blocks = n.block ? count_of(f) / n.block : 0, top = n.scale[0] == 'u' ? 126 : 254;
  const int center = below(top), spread = between(0, 3) * 12;
  for (int j = 0; j < blocks; ++j)
    for (uint32_t* scale : {&s.scale_a[i], &s.scale_b[i]})
      *scale |= static_cast<uint32_t>(clamped(center + between(-spread, spread), 0, top)) << 8 * j;
}

// C from the sum with C = 0: zeros, what cancels it or nearly, exponents beside its own, any word.
uint32_t draw_c(uint32_t sum, bool half) {
  const int mantissa = half ? 10 : 23, exponents = half ? 31 : 255;
  const uint32_t sign = half ? 0x8000u : 0x80000000u, any = static_cast<uint32_t>(draw()) & (half ? 0xFFFFu : ~0u);
  const int style = below(8), spreads[] = {3, 12, 40}, spread = spreads[below(3)];
  const int exponent = static_cast<int>((sum & (sign - 1)) >> mantissa);
  if (style == 0) return below(2) ? 0 : sign;
  if (style == 1) return any;
  if (style < 5 && exponent < exponents) return sum ^ sign ^ (below(2) ? static_cast<uint32_t>(below(8)) : 0u);
  return static_cast<uint32_t>(clamped(exponent + between(-spread, spread), 0, exponents - 1)) << mantissa |
         (any & ((1u << mantissa) - 1)) | (any & sign);
}

void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "probe: %s\n", cudaGetErrorString(e));
  exit(1);
}

void run_all(std::vector<Sums>& sums, Op op) {
  Sums* device = nullptr;
  const size_t bytes = sums.size() * sizeof(Sums);
  check(cudaMalloc(&device, bytes));
  check(cudaMemcpy(device, sums.data(), bytes, cudaMemcpyHostToDevice));
  run<<<static_cast<unsigned>(sums.size()), op >= wgmma_bf16 && op <= wgmma_e4m3_half ? 128 : 32>>>(device, op);
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(sums.data(), device, bytes, cudaMemcpyDeviceToHost));
  check(cudaFree(device));
}

// Whether i + 1 products of 1 give i + 1, at every place of K: else the operands lie elsewhere than this file says.
bool lies_right(const Instruction& n) {
  const Format& f = n.format;
  std::vector<Sums> sums(static_cast<size_t>(count_of(f)));
  memset(sums.data(), 0, sums.size() * sizeof(Sums));
  const uint32_t one = n.scale[0] == 'u' ? 0x38383838 : 0x7F7F7F7F;
  for (size_t j = 0; j < sums.size(); ++j)
    for (int i = 0; i < 8; ++i) {
      sums[j].scale_a[i] = sums[j].scale_b[i] = one;
      for (int k = 0; k < count_of(f); ++k) set_code(sums[j].a[i], f, k, k == static_cast<int>(j) ? f.one : 0);
      for (int k = 0; k < count_of(f); ++k) set_code(sums[j].b[i], f, k, f.one);
      sums[j].c[i] = n.half ? 0x3C00 : 0x3F800000;
    }
  run_all(sums, n.op);
  for (const Sums& s : sums)
    for (const uint32_t d : s.d)
      if (d != (n.half ? 0x4000u : 0x40000000u)) return false;
  return true;
}

void print_codes(const uint8_t* bytes, const Format& f) {
  for (int k = 0; k < count_of(f); ++k) printf("%0*x", f.bits / 4, code_at(bytes, f, k));
  printf(" ");
}

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? atoi(argv[1]) : 2000;
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0));
  const int arch = 10 * device.major + device.minor;
  printf("probe 1 %s sm_%d\n", device.name, arch);
  for (const Instruction& n : instructions) {
    if (arch < n.arch || (n.only && arch != n.arch)) continue;
    if (!lies_right(n)) {
      fprintf(stderr, "probe: %s is left out: 1 + 1 is not 2 (compiled for another architecture?)\n", n.name);
      continue;
    }
    std::vector<Sums> sums(static_cast<size_t>((wanted + 7) / 8));
    for (Sums& s : sums)
      for (int i = 0; i < 8; ++i) draw_sum(s, i, n), s.c[i] = 0;
    run_all(sums, n.op);
    for (Sums& s : sums)
      for (int i = 0; i < 8; ++i) s.c[i] = draw_c(s.d[i], n.half);
    run_all(sums, n.op);
    printf("instruction %s a=%s b=%s scale=%s block=%d d=%s\n", n.name, n.format.name, n.format.name, n.scale, n.block,
           n.half ? "fp16" : "fp32");
    for (const Sums& s : sums)
      for (int i = 0; i < 8; ++i) {
        print_codes(s.a[i], n.format);
        print_codes(s.b[i], n.format);
        for (const uint32_t scales : {s.scale_a[i], s.scale_b[i]}) {
          for (int j = 0; n.block && j < count_of(n.format) / n.block; ++j) printf("%02x", scales >> 8 * j & 0xFF);
          printf(n.block ? " " : "- ");
        }
        printf(n.half ? "%04x %04x\n" : "%08x %08x\n", s.c[i], s.d[i]);
      }
  }
  return 0;
}
