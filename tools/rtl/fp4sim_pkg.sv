// The arithmetic of fp4sim inside a simulator, by DPI-C from libfp4sim (fp4sim_dpi.h says what each function does).
// Words are those of `fp4sim list`. Elements lie side by side, the first in the lowest bits: 64 of at most 8 bits. A
// function returns 0, or 2 for a word or a size that it does not know. Icarus has no DPI; it takes $readmemh vectors.
package fp4sim_pkg;
  typedef bit [511:0] codes_t;
  typedef bit [511:0] scales_t;  // 8 bits a block

  import "DPI-C" pure function int fp4sim_dpi_quantize(
      input string element, input string scale, input string rounding, input int random_bits, input int unsigned draw,
      input int unsigned scale_code, input int unsigned x, output int unsigned code);
  import "DPI-C" pure function int fp4sim_dpi_scale(
      input string element, input string scale, input string rule, input int unsigned amax,
      output int unsigned scale_code);
  import "DPI-C" pure function int fp4sim_dpi_dot(
      input string element, input int k, input codes_t a, input codes_t b, output longint sum);
  import "DPI-C" pure function int fp4sim_dpi_step(
      input string adder, input string element, input string scale, input int block, input int k, input codes_t a,
      input codes_t b, input scales_t scale_a, input scales_t scale_b, input int unsigned c, output int unsigned d);

  // The same step as a value; X where a word is unknown.
  function automatic logic [31:0] step(string adder, string element, string scale, int block, int k, codes_t a,
                                       codes_t b, scales_t scale_a, scales_t scale_b, bit [31:0] c);
    int unsigned d;
    if (fp4sim_dpi_step(adder, element, scale, block, k, a, b, scale_a, scale_b, c, d) != 0) return 'x;
    return d;
  endfunction
endpackage
