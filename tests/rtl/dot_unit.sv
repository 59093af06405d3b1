// D = C + the products of 64 FP4 elements under block scales, as one of two adders adds them, by the plusarg +unit:
//   0  fp32_block: block by block, one rounding to nearest even each
//   1  b200_mxf4: dots of 16 in a window below the largest exponent, one rounding toward zero (E8M0 scales); sums below
//      2^-126 as all others
// Element k is bits 4k and up of a and b (E2M1), the scale of block k bits 8k and up of sa and sb: E8M0 in blocks of
// 32, UE4M3 in blocks of 16. Combinational. +mutant plants one fault, for whoever tests the tests: 1 nibbles of b in
// the other order, 2 the sign of a lost, 3 C dropped, 4 the bias of scales one less.
`ifndef DOT_BLOCK
`define DOT_BLOCK 32
`endif
module dot_unit #(
    parameter int BLOCK = `DOT_BLOCK, UE4M3 = BLOCK == 16 ? 1 : 0
) (
    input  logic [255:0] a, b,
    input  logic [64/BLOCK*8-1:0] sa, sb,
    input  logic [31:0] c,
    output logic [31:0] d
);
  int adder, mutant;
  initial begin
    if (!$value$plusargs("unit=%d", adder)) adder = 1;
    if (!$value$plusargs("mutant=%d", mutant)) mutant = 0;
  end
  assign d = sum_of(a, b, sa, sb, c);
  localparam int LOW = -100000;  // an exponent below all

  // Twice the value of an E2M1 code, with sign.
  function automatic int value(input logic [3:0] code, input logic loses_sign);
    int m;
    case (code[2:0])
      0: m = 0;
      1: m = 1;
      2: m = 2;
      3: m = 3;
      4: m = 4;
      5: m = 6;
      6: m = 8;
      default: m = 12;
    endcase
    return code[3] && !loses_sign ? -m : m;
  endfunction

  // floor(log2 value), not below that of 1.
  function automatic int rank(input logic [3:0] code);
    return code[2:0] >= 6 ? 2 : code[2:0] >= 4 ? 1 : 0;
  endfunction

  // A scale is significand * 2^exponent.
  function automatic int significand(input logic [7:0] s);
    return UE4M3 == 0 ? 1 : s[6:3] == 0 ? int'(s[2:0]) : 8 + int'(s[2:0]);
  endfunction
  function automatic int exponent(input logic [7:0] s);
    if (UE4M3 == 0) return int'(s) - (mutant == 4 ? 126 : 127);
    return s[6:3] == 0 ? -9 : int'(s[6:3]) - 10;
  endfunction
  function automatic logic is_nan_scale(input logic [7:0] s);
    return UE4M3 == 0 ? s == 8'hff : s[6:0] == 7'h7f;
  endfunction

  function automatic int top_bit(input logic [127:0] m);
    int at;
    at = 0;
    if (m == 0) return -1;
    for (int step = 64; step > 0; step = step >> 1)
      if ((m >> (at + step)) != 0) at = at + step;
    return at;
  endfunction

  // |m| * 2^e to fp32: toward zero, or to nearest even; beyond the range infinity.
  function automatic logic [31:0] to_fp32(input logic [127:0] m, input int e, input logic negative, input logic nearest);
    int top, lsb, drop;
    logic [127:0] kept, rest, half;
    top = top_bit(m);
    if (top < 0) return 0;
    lsb = e + top - 23 < -149 ? -149 : e + top - 23;
    drop = lsb - e;
    if (drop > 127) kept = 0;
    else kept = drop > 0 ? m >> drop : m << -drop;
    if (nearest && drop > 0 && drop <= 127) begin
      rest = m & ((128'd1 << drop) - 1);
      half = 128'd1 << (drop - 1);
      if (rest > half || (rest == half && kept[0])) kept = kept + 1;
    end
    if (kept[24]) begin
      kept = kept >> 1;
      lsb++;
    end
    if (lsb + 23 > 127) return {negative, 8'hff, 23'd0};
    if (kept == 0) return 0;
    return {negative, kept[23] ? 8'(lsb + 150) : 8'd0, kept[22:0]};
  endfunction

  // x cut toward zero to a multiple of 2^unit, in that unit.
  function automatic longint cut(input longint x, input int e, input int unit);
    longint m;
    m = x < 0 ? -x : x;
    if (e >= unit) m = e - unit > 62 ? 0 : m << (e - unit);
    else m = unit - e > 62 ? 0 : m >> (unit - e);
    return x < 0 ? -m : m;
  endfunction

  function automatic logic [31:0] plus_block(input logic [31:0] acc, input int dot, input int e);
    int ec, low, far;
    longint mc;
    logic signed [127:0] sum, x, y;
    mc = longint'({acc[30:23] != 0, acc[22:0]});
    ec = (acc[30:23] == 0 ? 1 : int'(acc[30:23])) - 150;
    if (acc[31]) mc = -mc;
    if (dot == 0) e = ec;
    if (mc == 0) ec = e;
    low = e < ec ? e : ec;
    far = e < ec ? ec - e : e - ec;
    x = 128'(dot);
    y = 128'(mc);
    if (far > 80) begin  // the lesser one is but a sign
      low = (e < ec ? ec : e) - 80;
      if (e < ec) begin
        x = dot < 0 ? -1 : 1;
        y = y <<< 80;
      end else begin
        x = x <<< 80;
        y = mc < 0 ? -1 : 1;
      end
    end else if (e < ec) y = y <<< far;
    else x = x <<< far;
    sum = x + y;
    return to_fp32(sum < 0 ? 128'(-sum) : 128'(sum), low, sum < 0, 1);
  endfunction

  function automatic logic [31:0] sum_of(input logic [255:0] a, b, input logic [64/BLOCK*8-1:0] sa, sb,
                                         input logic [31:0] c);
    int at, products, dots[4], ranks[4], pairs[4], r, s, rc, unit, own, ec;
    longint mc, sum, part;
    logic leads, any;
    logic [31:0] acc;
    acc = mutant == 3 ? 32'd0 : c;
    any = 0;
    products = 0;
    for (int i = 0; i < 64 / BLOCK; i++)
      if (is_nan_scale(sa[8*i+:8]) || is_nan_scale(sb[8*i+:8])) any = 1;
    if (any) acc = 32'h7fffffff;
    if (acc[30:23] == 8'hff) begin
      return acc;
    end else if (adder == 0) begin
      for (int i = 0; i < 64 / BLOCK; i++) begin
        products = 0;
        for (int k = i * BLOCK; k < (i + 1) * BLOCK; k++) begin
          at = mutant == 1 ? k ^ 1 : k;
          products += value(a[4*k+:4], mutant == 2) * value(b[4*at+:4], 0);
        end
        products *= significand(sa[8*i+:8]) * significand(sb[8*i+:8]);
        if (acc[30:23] != 8'hff) acc = plus_block(acc, products, exponent(sa[8*i+:8]) + exponent(sb[8*i+:8]) - 2);
      end
      return acc;
    end else begin
      r = LOW;
      s = LOW;
      for (int i = 0; i < 4; i++) begin
        dots[i] = 0;
        ranks[i] = LOW;
        pairs[i] = exponent(sa[8*(16*i/BLOCK)+:8]) + exponent(sb[8*(16*i/BLOCK)+:8]);
        for (int k = 16 * i; k < 16 * i + 16; k++) begin
          at = mutant == 1 ? k ^ 1 : k;
          products = value(a[4*k+:4], mutant == 2) * value(b[4*at+:4], 0);
          dots[i] += products;
          if (products != 0 && pairs[i] + rank(a[4*k+:4]) + rank(b[4*at+:4]) > ranks[i])
            ranks[i] = pairs[i] + rank(a[4*k+:4]) + rank(b[4*at+:4]);
        end
        if (ranks[i] > r) r = ranks[i];
        if (ranks[i] != LOW && pairs[i] > s) s = pairs[i];
      end
      mc = longint'({acc[30:23] != 0, acc[22:0]});
      ec = (acc[30:23] == 0 ? 1 : int'(acc[30:23])) - 150;
      rc = mc == 0 ? LOW : acc[30:23] == 0 ? -126 : ec + 23;
      if (acc[31]) mc = -mc;
      leads = mc != 0 && rc >= r;
      unit = leads ? rc - 35 : (r > rc ? r : rc) - 39 > s - 35 ? (r > rc ? r : rc) - 39 : s - 35;
      sum = mc == 0 ? 0 : cut(mc, ec, unit);
      for (int i = 0; i < 4; i++) begin
        own = mc != 0 && !leads && rc >= ranks[i] && rc - 35 > unit ? rc - 35 : unit;
        part = cut(longint'(dots[i]), pairs[i] - 2, own);
        if (ranks[i] != LOW) sum += own - unit > 62 ? 0 : part <<< (own - unit);
      end
      return r == LOW ? (acc[30:0] == 0 ? 32'd0 : acc) : to_fp32(128'(sum < 0 ? -sum : sum), unit, sum < 0, 0);
    end
  endfunction
endmodule
