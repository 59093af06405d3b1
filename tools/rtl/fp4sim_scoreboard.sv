// Counts what a dot unit gives, keeps it as got.hex, and says in the end what the unit does instead: the sentence of
// `fp4sim verify`, which is run on got.hex (PATH must know it). Icarus has no $system: it prints the command.
module fp4sim_scoreboard #(
    parameter int SHOWN = 3  // differences that are printed
) ();
  integer file, checked, wrong;

  task start;
    begin
      file = $fopen("got.hex", "w");
      checked = 0;
      wrong = 0;
    end
  endtask

  // The outputs of a case, row by row. Any NaN equals any other.
  task check(input integer row, input integer col, input [31:0] expected, input [31:0] got);
    begin
      $fdisplay(file, "%08h", got);
      checked = checked + 1;
      if (got !== expected && !(expected[30:0] > 31'h7f800000 && got[30:0] > 31'h7f800000)) begin
        wrong = wrong + 1;
        if (wrong <= SHOWN) $display("fp4sim: D[%0d][%0d] is %08h, expected %08h", row, col, got, expected);
      end
    end
  endtask

  // `verify` is the command that judges got.hex.
  task report(input [8*256-1:0] verify);
`ifndef __ICARUS__
    integer code;
`endif
    begin
      $fclose(file);
      if (wrong == 0) $display("fp4sim: equal, %0d of %0d sums", checked, checked);
      else begin
        $display("fp4sim: NOT equal: %0d of %0d sums differ", wrong, checked);
`ifdef __ICARUS__
        $display("fp4sim: this says what it does instead: %0s", verify);
`else
        $fflush;
        code = $system(verify);
`endif
      end
    end
  endtask
endmodule
