// Prints the E2M1 code of 1.25, which lies half way between 1 (code 2) and 1.5 (code 3), and decodes it.
#include <cstdio>

#include "fp4/codec.h"

int main() {
  const fp4::FloatFormat& e2m1 = fp4::format_of(fp4::Element::e2m1);
  const uint32_t code = fp4::encode(e2m1, fp4::exact_magnitude(1.25f), false, {fp4::Rounding::nearest_even, 0, 0});
  std::printf("%u %g\n", code, static_cast<double>(fp4::decode(e2m1, code)));
}
