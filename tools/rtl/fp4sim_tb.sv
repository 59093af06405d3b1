// Self-checking testbench of a dot unit: all rows of A times all rows of B, STEP products at a time, D fed back as C.
// Run in the folder of a case, which has case.svh and the words; +adder=NAME chooses output_NAME.hex. The unit:
//   module dot_unit (input [STEP*CODE_BITS-1:0] a, b, input [STEP/BLOCK*8-1:0] sa, sb, input [31:0] c, output [31:0] d);
// `FP4SIM_DUT and `FP4SIM_STEP name another one and its length.
`ifndef FP4SIM_DUT
`define FP4SIM_DUT dot_unit
`endif
`ifndef FP4SIM_STEP
`define FP4SIM_STEP 64
`endif
module fp4sim_tb;
  `include "case.svh"
  localparam int STEP = `FP4SIM_STEP;
  localparam int STEPS = (K + STEP - 1) / STEP;
  localparam int CODES = STEP * CODE_BITS;    // bits of a step
  localparam int SCALES = STEP / BLOCK * 8;

  reg [STEPS*CODES-1:0] a_rows[0:ROWS-1], b_rows[0:ROWS_B-1];  // shorter words are padded with zeros
  reg [STEPS*SCALES-1:0] a_scales[0:ROWS-1], b_scales[0:ROWS_B-1];
  reg [31:0] right[0:ROWS*ROWS_B-1];
  reg [CODES-1:0] a, b;
  reg [SCALES-1:0] sa, sb;
  reg [31:0] c;
  wire [31:0] d;
  reg [8*64-1:0] adder;
  reg [8*256-1:0] text;
  integer i, j, k;

  `FP4SIM_DUT dut (.a(a), .b(b), .sa(sa), .sb(sb), .c(c), .d(d));
  fp4sim_scoreboard board ();

  initial begin
    if (!$value$plusargs("adder=%s", adder)) adder = "fp32_block";
    $sformat(text, "output_%0s.hex", adder);
    $readmemh("a.hex", a_rows);
    $readmemh("b.hex", b_rows);
    $readmemh("a_scales.hex", a_scales);
    $readmemh("b_scales.hex", b_scales);
    $readmemh(text, right);
    board.start;
    for (i = 0; i < ROWS; i = i + 1)
      for (j = 0; j < ROWS_B; j = j + 1) begin
        c = 0;
        for (k = 0; k < STEPS; k = k + 1) begin
          a = a_rows[i][k*CODES+:CODES];
          b = b_rows[j][k*CODES+:CODES];
          sa = a_scales[i][k*SCALES+:SCALES];
          sb = b_scales[j][k*SCALES+:SCALES];
          #1 c = d;
        end
        board.check(i, j, right[i*ROWS_B+j], c);
      end
    $sformat(text, "fp4sim verify --golden .. --case %0s --stage output --accumulator %0s --candidate got.hex", CASE, adder);
    board.report(text);
    $finish;
  end
endmodule
