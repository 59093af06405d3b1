// Prints words of an AMD GPU's matrix cores for `fp4sim verify --probe`: adversarial sums D = A*B + C with raw codes,
// each from one instruction. Nothing but ROCm is needed:
//   hipcc -std=c++17 --offload-arch=gfx950 -o probe probe.hip && ./probe > words.txt && fp4sim verify --probe words.txt
// gfx942 (MI300X, MI325X): v_mfma of bf16, f16, xf32; gfx950 (MI350X, MI355X): v_mfma of bf16, f16, e4m3, e5m2 and
// v_mfma_scale of e2m1, e2m3, e3m2, e4m3, e5m2. gfx942's 8-bit formats (bias 8 and 16, one zero) have no word here. The
// argument is the number of sums of each instruction, 2000 without one.
//
// Sixteen sums share an instruction of 16 x 16: sum i is row i of A times column i of B, D[i][i]. Lane 16q + r holds
// the q-th quarter of K of row (column) r; lane 16q + c holds D of rows 4q to 4q + 3 of column c.
#if __has_include(<hip/hip_runtime.h>) && !defined(PROBE_KERNEL_ALONE)
#include <hip/hip_runtime.h>
#define HAS_RUNTIME 1
#else  // the kernel alone compiles without ROCm
#define __global__  __attribute__((global))
#define __device__  __attribute__((device))
#define HAS_RUNTIME 0
#endif

constexpr int most_bytes = 128;  // of K

struct Sums {  // of sixteen sums
  alignas(32) unsigned char a[16][most_bytes], b[16][most_bytes];
  unsigned scale_a[16], scale_b[16];  // four codes each, first block lowest
  unsigned c[16], d[16];
};

// clang-format off
enum Op { op_none, mfma_bf16, mfma_f16, mfma_xf32, mfma_bf16_32, mfma_f16_32, mfma_e4m3, mfma_e5m2,
          scaled_e4m3, scaled_e5m2, scaled_e2m3, scaled_e3m2, scaled_e2m1 };
// clang-format on

typedef float F4 __attribute__((ext_vector_type(4)));
typedef float F2 __attribute__((ext_vector_type(2)));
typedef int I8 __attribute__((ext_vector_type(8)));
typedef short S4 __attribute__((ext_vector_type(4)));
typedef _Float16 H4 __attribute__((ext_vector_type(4)));
typedef _Float16 H8 __attribute__((ext_vector_type(8)));
typedef __bf16 B8 __attribute__((ext_vector_type(8)));

// The quarter of K of a lane, `bytes` long, as a value of any type of at least that size.
template <class T>
__device__ T quarter(const unsigned char* row, int q, int bytes) {
  union {
    T value;
    unsigned char byte[sizeof(T)];
  } u;
  for (int i = 0; i < static_cast<int>(sizeof(T)); ++i) u.byte[i] = i < bytes ? row[q * bytes + i] : 0;
  return u.value;
}
template <class T>
__device__ T quarter(const unsigned char* row, int q) {
  return quarter<T>(row, q, sizeof(T));
}

#define MFMA(type, instruction) \
  d = __builtin_amdgcn_mfma_f32_##instruction(quarter<type>(a, q), quarter<type>(b, q), d, 0, 0, 0)
// `format`: the instruction's number of an element format of `bits` bits
#define MFMA_SCALE(format, bits)                                                                                    \
  d = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(quarter<I8>(a, q, 4 * bits), quarter<I8>(b, q, 4 * bits), d, \
                                                       format, format, 0, sa, 0, sb)

__global__ void run(Sums* all, [[maybe_unused]] Op op) {
  Sums& s = all[__builtin_amdgcn_workgroup_id_x()];
  const int lane = static_cast<int>(__builtin_amdgcn_workitem_id_x()), r = lane % 16, q = lane / 16;
  [[maybe_unused]] const unsigned char *a = s.a[r], *b = s.b[r];
  const bool holds = r / 4 == q;
  F4 d = {0, 0, 0, 0};
  if (holds) d[r % 4] = __builtin_bit_cast(float, s.c[r]);
  [[maybe_unused]] const int sa = static_cast<int>(s.scale_a[r] >> 8 * q & 0xFF);
  [[maybe_unused]] const int sb = static_cast<int>(s.scale_b[r] >> 8 * q & 0xFF);
#if defined(__gfx942__)
  if (op == mfma_bf16) MFMA(S4, 16x16x16bf16_1k);
  if (op == mfma_f16) MFMA(H4, 16x16x16f16);
  if (op == mfma_xf32) MFMA(F2, 16x16x8_xf32);
#elif defined(__gfx950__)
  if (op == mfma_bf16_32) MFMA(B8, 16x16x32_bf16);
  if (op == mfma_f16_32) MFMA(H8, 16x16x32_f16);
  if (op == mfma_e4m3) MFMA(long, 16x16x32_fp8_fp8);
  if (op == mfma_e5m2) MFMA(long, 16x16x32_bf8_bf8);
  if (op == scaled_e4m3) MFMA_SCALE(0, 8);
  if (op == scaled_e5m2) MFMA_SCALE(1, 8);
  if (op == scaled_e2m3) MFMA_SCALE(2, 6);
  if (op == scaled_e3m2) MFMA_SCALE(3, 6);
  if (op == scaled_e2m1) MFMA_SCALE(4, 4);
#endif
  if (holds) s.d[r] = __builtin_bit_cast(unsigned, d[r % 4]);
}

#if HAS_RUNTIME
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// clang-format off
struct Format { const char* name; int bits, mantissa; uint32_t one; };
struct Instruction { Op op; const char* arch; const char* name; Format format; int k; bool scaled; };
// clang-format on

constexpr Format e2m1{"e2m1", 4, 1, 2}, e2m3{"e2m3", 6, 3, 8}, e3m2{"e3m2", 6, 2, 12}, e4m3{"e4m3", 8, 3, 0x38},
    e5m2{"e5m2", 8, 2, 0x3C}, bf16{"bf16", 16, 7, 0x3F80}, fp16{"fp16", 16, 10, 0x3C00},
    xf32{"tf32", 32, 23, 0x3F800000};

constexpr Instruction instructions[] = {
    {mfma_bf16, "gfx942", "v_mfma_f32_16x16x16_bf16", bf16, 16, false},
    {mfma_f16, "gfx942", "v_mfma_f32_16x16x16_f16", fp16, 16, false},
    {mfma_xf32, "gfx942", "v_mfma_f32_16x16x8_xf32", xf32, 8, false},
    {mfma_bf16_32, "gfx950", "v_mfma_f32_16x16x32_bf16", bf16, 32, false},
    {mfma_f16_32, "gfx950", "v_mfma_f32_16x16x32_f16", fp16, 32, false},
    {mfma_e4m3, "gfx950", "v_mfma_f32_16x16x32_fp8_fp8", e4m3, 32, false},
    {mfma_e5m2, "gfx950", "v_mfma_f32_16x16x32_bf8_bf8", e5m2, 32, false},
    {scaled_e4m3, "gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4.e4m3", e4m3, 128, true},
    {scaled_e5m2, "gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4.e5m2", e5m2, 128, true},
    {scaled_e2m3, "gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4.e2m3", e2m3, 128, true},
    {scaled_e3m2, "gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4.e3m2", e3m2, 128, true},
    {scaled_e2m1, "gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4.e2m1", e2m1, 128, true},
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

uint32_t code_at(const unsigned char* bytes, const Format& f, int k) {
  uint32_t code = 0;
  for (int i = 0, at = k * f.bits; i < f.bits; ++i, ++at) code |= (bytes[at / 8] >> at % 8 & 1u) << i;
  return code;
}
void set_code(unsigned char* bytes, const Format& f, int k, uint32_t code) {
  for (int i = 0, at = k * f.bits; i < f.bits; ++i, ++at)
    bytes[at / 8] = static_cast<unsigned char>((bytes[at / 8] & ~(1u << at % 8)) | (code >> i & 1u) << at % 8);
}

// Codes of K elements: any, or exponents near one another; zeros in dots of four; infinities and NaN now and then.
void draw_codes(unsigned char* bytes, const Format& f, int count, bool special) {
  const int exponent_bits = f.bits - 1 - f.mantissa, largest = (1 << exponent_bits) - 1;
  const int spreads[] = {1, 4, 16, 60};
  const int middle = below(largest), spread = spreads[below(4)];
  const bool any = below(4) == 0, has_zeros = below(3) == 0;
  bool zero = false;
  for (int k = 0; k < count; ++k) {
    if (k % 4 == 0) zero = has_zeros && below(3) == 0;
    int exponent = any ? below(largest + 1) : clamped(middle + between(-spread, spread), 0, largest);
    if (!special && f.bits > 6 && exponent == largest) --exponent;
    const uint32_t code =
        static_cast<uint32_t>(exponent) << f.mantissa | (static_cast<uint32_t>(draw()) & ((1u << f.mantissa) - 1));
    set_code(bytes, f, k, (zero ? 0 : code) | (draw() & 1 ? 1u << (f.bits - 1) : 0u));
  }
}

void draw_sum(Sums& s, int i, const Instruction& n) {
  const Format& f = n.format;
  const bool special = below(30) == 0;
  draw_codes(s.a[i], f, n.k, special);
  draw_codes(s.b[i], f, n.k, special);
  if (below(3) != 0) {  // halves that cancel, but for some products
    const int half = n.k / 2;
    for (int k = 0; k < half; ++k) {
      set_code(s.a[i], f, half + k, code_at(s.a[i], f, k) ^ 1u << (f.bits - 1));
      set_code(s.b[i], f, half + k, code_at(s.b[i], f, k));
    }
    for (int changes = below(4); changes > 0; --changes)
      set_code(s.b[i], f, below(n.k), code_at(s.b[i], f, below(n.k)));
  }
  s.scale_a[i] = s.scale_b[i] = 0;
  const int center = below(254), spread = between(0, 3) * 12;
  for (int j = 0; n.scaled && j < 4; ++j)
    for (uint32_t* scale : {&s.scale_a[i], &s.scale_b[i]})
      *scale |= static_cast<uint32_t>(clamped(center + between(-spread, spread), 0, 254)) << 8 * j;
}

// C from the sum with C = 0: zeros, what cancels it or nearly, exponents beside its own, any word.
uint32_t draw_c(uint32_t sum) {
  const uint32_t sign = 0x80000000u, any = static_cast<uint32_t>(draw());
  const int style = below(8), spreads[] = {3, 12, 40}, spread = spreads[below(3)];
  const int exponent = static_cast<int>((sum & (sign - 1)) >> 23);
  if (style == 0) return below(2) ? 0 : sign;
  if (style == 1) return any;
  if (style < 5 && exponent < 255) return sum ^ sign ^ (below(2) ? static_cast<uint32_t>(below(8)) : 0u);
  return static_cast<uint32_t>(clamped(exponent + between(-spread, spread), 0, 254)) << 23 | (any & 0x807FFFFFu);
}

void check(hipError_t e) {
  if (e == hipSuccess) return;
  fprintf(stderr, "probe: %s\n", hipGetErrorString(e));
  exit(1);
}

void run_all(std::vector<Sums>& sums, Op op) {
  Sums* device = nullptr;
  const size_t bytes = sums.size() * sizeof(Sums);
  check(hipMalloc(reinterpret_cast<void**>(&device), bytes));
  check(hipMemcpy(device, sums.data(), bytes, hipMemcpyHostToDevice));
  run<<<static_cast<unsigned>(sums.size()), 64>>>(device, op);
  check(hipGetLastError());
  check(hipDeviceSynchronize());
  check(hipMemcpy(sums.data(), device, bytes, hipMemcpyDeviceToHost));
  check(hipFree(device));
}

// Whether 1 and a product of 1 give 2, at every place of K: else the operands lie elsewhere than this file says.
bool lies_right(const Instruction& n) {
  std::vector<Sums> sums(static_cast<size_t>(n.k));
  memset(static_cast<void*>(sums.data()), 0, sums.size() * sizeof(Sums));
  for (size_t j = 0; j < sums.size(); ++j)
    for (int i = 0; i < 16; ++i) {
      sums[j].scale_a[i] = sums[j].scale_b[i] = 0x7F7F7F7F;
      set_code(sums[j].a[i], n.format, static_cast<int>(j), n.format.one);
      for (int k = 0; k < n.k; ++k) set_code(sums[j].b[i], n.format, k, n.format.one);
      sums[j].c[i] = 0x3F800000;
    }
  run_all(sums, n.op);
  for (const Sums& s : sums)
    for (const uint32_t d : s.d)
      if (d != 0x40000000u) return false;
  return true;
}

void print_codes(const unsigned char* bytes, const Format& f, int k_end) {
  for (int k = 0; k < k_end; ++k) printf("%0*x", (f.bits + 3) / 4, code_at(bytes, f, k));
  printf(" ");
}

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? atoi(argv[1]) : 2000;
  hipDeviceProp_t device;
  check(hipGetDeviceProperties(&device, 0));
  const std::string full = device.gcnArchName, arch = full.substr(0, full.find(':'));
  printf("probe 1 %s %s\n", device.name, arch.c_str());
  for (const Instruction& n : instructions) {
    if (arch != n.arch) continue;
    if (!lies_right(n)) {
      fprintf(stderr, "probe: %s is left out: 1 + 1 is not 2 (compiled for another architecture?)\n", n.name);
      continue;
    }
    std::vector<Sums> sums(static_cast<size_t>((wanted + 15) / 16));
    for (Sums& s : sums)
      for (int i = 0; i < 16; ++i) draw_sum(s, i, n), s.c[i] = 0;
    run_all(sums, n.op);
    for (Sums& s : sums)
      for (int i = 0; i < 16; ++i) s.c[i] = draw_c(s.d[i]);
    run_all(sums, n.op);
    printf("instruction %s a=%s b=%s scale=%s block=%d d=fp32\n", n.name, n.format.name, n.format.name,
           n.scaled ? "e8m0" : "none", n.scaled ? 32 : 0);
    for (const Sums& s : sums)
      for (int i = 0; i < 16; ++i) {
        print_codes(s.a[i], n.format, n.k);
        print_codes(s.b[i], n.format, n.k);
        for (const uint32_t scales : {s.scale_a[i], s.scale_b[i]}) {
          for (int j = 0; n.scaled && j < 4; ++j) printf("%02x", scales >> 8 * j & 0xFF);
          printf(n.scaled ? " " : "- ");
        }
        printf("%08x %08x\n", s.c[i], s.d[i]);
      }
  }
  return 0;
}
#endif
