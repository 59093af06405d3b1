/* Judges an MXFP4 quantiser in C through a pipe (put your kernel in place of my_block):
 *   cc -O2 judge_mxfp4.c -lm -o judge
 *   fp4sim golden stream --questions | ./judge | fp4sim golden stream --judge -                                  */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* x[32] -> scale code (E8M0) and 32 FP4 codes. FLOOR rule, ties to even: OCP MX 1.0, section 6.3. */
static unsigned my_block(const float* x, unsigned char* code) {
  static const float boundary[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  float amax = 0;
  int e = 0;
  for (int i = 0; i < 32; ++i) amax = fmaxf(amax, fabsf(x[i]));
  frexpf(amax, &e); /* amax = f * 2^e with f in [0.5, 1): floor(log2) = e - 1 */
  int scale = amax == 0 ? 127 : e - 1 - 2 + 127;
  scale = scale < 0 ? 0 : (scale > 254 ? 254 : scale);
  for (int i = 0; i < 32; ++i) {
    float u = ldexpf(fabsf(x[i]), 127 - scale);
    unsigned c = 0;
    while (c < 7 && (u > boundary[c] || (u == boundary[c] && c % 2 == 1))) ++c;
    code[i] = (unsigned char)(c | (signbit(x[i]) ? 8u : 0u));
  }
  return (unsigned)scale;
}

int main(void) {
  static char line[1 << 22], name[256], spec[256];
  while (fgets(line, sizeof line, stdin)) {
    int rows, cols;
    if (sscanf(line, "case=%255s kind=quantize spec=%255s rows=%d cols=%d", name, spec, &rows, &cols) != 4) continue;
    if (strcmp(spec, "mxfp4") != 0 || cols % 32 != 0 || strstr(line, "hadamard=")) continue;
    char* at = strstr(line, " input=") + 7;
    char *codes = malloc((size_t)rows * cols * 3), *c = codes, *scales = malloc((size_t)rows * cols), *s = scales;
    for (int b = 0; b < rows * cols / 32; ++b) {
      float x[32];
      unsigned char q[32];
      for (int i = 0; i < 32; ++i, ++at) memcpy(&x[i], &(unsigned){(unsigned)strtoul(at, &at, 16)}, 4);
      s += sprintf(s, "%s%x", b ? "," : "", my_block(x, q));
      for (int i = 0; i < 32; i += 2) c += sprintf(c, "%s%x", b || i ? "," : "", q[i] | q[i + 1] << 4);
    }
    printf("case=%s codes=%s scales=%s\n", name, codes, scales);
    free(codes), free(scales);
  }
}
