/* The C library: a 2 x 32 matrix and a 3 x 32 matrix to MXFP4, their product out of the codes, twice it plus a bias as
 * bf16. Build it with
 *   cc library.c $(pkg-config --cflags --libs fp4sim) -o library
 * or in CMake: find_package(fp4sim) and target_link_libraries(library fp4sim::c). */
#include <fp4sim.h>
#include <stdio.h>
#include <stdlib.h>

enum { m = 2, n = 3, k = 32 };

static void check(int code) {
  if (code == 0) return;
  fprintf(stderr, "library: %s\n", fp4sim_last_error());
  exit(code);
}

int main(void) {
  float a[m * k], b[n * k], bias[n] = {0.5f, 0.25f, -1};
  uint8_t a_codes[m * k / 2], b_codes[n * k / 2], a_scales[m], b_scales[n];
  float a_g, b_g, product[m * n];
  uint16_t d[m * n];
  const fp4sim_place place = {0, 0, 0};
  fp4sim_array_shape shape;
  int i;

  /* 1, 2, 3 or 4 times a power of two for each row: exact in MXFP4. */
  for (i = 0; i < m * k; ++i) a[i] = (float)(1 + i % 4) * (i < k ? 1.0f : 0.5f);
  for (i = 0; i < n * k; ++i) b[i] = (float)(6 - i % 3 * 2) * (i % 2 ? 1.0f : -1.0f);

  check(fp4sim_shape("mxfp4", m, k, &shape));
  printf("%d bytes of codes a row, %d scale a row\n", (int)shape.code_row_bytes, (int)shape.scale_cols);
  check(fp4sim_quantize("mxfp4", a, m, k, place, a_codes, a_scales, &a_g));
  check(fp4sim_quantize("mxfp4", b, n, k, place, b_codes, b_scales, &b_g));
  {
    const fp4sim_operand left = {"mxfp4", a_codes, a_scales, &a_g}, right = {"mxfp4", b_codes, b_scales, &b_g};
    const fp4sim_epilogue twice = {2, 0, NULL, bias, "bf16"};
    check(fp4sim_gemm_codes(&left, &right, "fp32_block", m, n, k, NULL, product));
    check(fp4sim_gemm_codes(&left, &right, "fp32_block", m, n, k, &twice, d));
  }
  for (i = 0; i < m * n; ++i) printf("%g -> 0x%04X\n", (double)product[i], (unsigned)d[i]);
  return 0;
}
