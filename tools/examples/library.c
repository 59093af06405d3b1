/* The C library: a 2 x 32 matrix and a 3 x 32 matrix to MXFP4, their product out of the codes, twice it plus a bias as
 * bf16; with a FOLDER also the first matrix as a file: quantised, decoded, compared and listed there. Build it with
 *   cc library.c $(pkg-config --cflags --libs fp4sim) -o library && ./library [FOLDER]
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

static void print_line(const char* tensor, const char* spec, const fp4sim_report* report, int best, void* user) {
  (void)user;
  printf("%s %s: NMSE %g%s\n", tensor, spec, report->nmse, best ? ", best" : "");
}

static void print_tensor(const fp4sim_tensor* t, void* user) {
  (void)user;
  printf("%s: %s, %d x %d\n", t->name, t->type, (int)t->shape[0], (int)t->shape[1]);
}

static void files(const float* a, const char* folder) {
  char raw[4096], quantised[4096], decoded[4096];
  const char* const specs[] = {"mxfp4", "mxfp8", NULL};
  fp4sim_quantize_options options = {0};
  fp4sim_report report;
  FILE* file;

  snprintf(raw, sizeof raw, "%s/a.bin", folder);
  snprintf(quantised, sizeof quantised, "%s/a_mxfp4", folder);
  snprintf(decoded, sizeof decoded, "%s/a.npy", folder);
  file = fopen(raw, "wb");
  if (file == NULL || fwrite(a, sizeof *a, m * k, file) != m * k || fclose(file) != 0) {
    fprintf(stderr, "library: cannot write %s\n", raw);
    exit(1);
  }
  options.input.dtype = "f32";
  options.input.shape = "2x32";
  options.spec = "mxfp4";
  options.run.force = 1;
  check(fp4sim_quantize_file(raw, quantised, &options, &report));
  printf("%d elements, %g bits each, NMSE %g\n", (int)report.elements, report.bits_per_element, report.nmse);
  {
    fp4sim_dequantize_options back = {0};
    back.run.force = 1;
    check(fp4sim_dequantize_file(quantised, decoded, &back));
  }
  check(fp4sim_compare_file(decoded, specs, NULL, print_line, NULL));
  check(fp4sim_inspect_file(decoded, print_tensor, NULL));
}

int main(int count, char** words) {
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
  if (count > 1) files(a, words[1]);
  return 0;
}
