"""Quantisation error of scale rules on the tensors of a task: the other half of `free_lunch`.

    /usr/bin/python3 tools/studies/error.py results/free_lunch/error.csv

Every rule quantises the same tensors: those of step 100 of a bf16 training (seed 1), as `fp4sim stats --probe` sees them.
Per (task, scale, block, rule, tensor scale): mean normalised squared error, share of clipped and of underflowing elements
over the layers, for X, W and dY.
"""
import itertools, json, subprocess, sys
import fp4lib

PROGRAM = fp4lib.ROOT / "build" / "fp4sim"
E8M0_RULES = ["floor", "ceil", "rceil", "even", "uos", "nearest_log2", "quest_nearest", "amax", "mse"]
REAL_RULES = ["amax", "four_over_six", "mse"]
choices = [("e8m0", block, rule, "none") for block in (16, 32) for rule in E8M0_RULES]
choices += [("ue4m3", *rest) for rest in itertools.product((16, 32), REAL_RULES, ("none", "current"))]

rows = []
for task in ("regression", "classifier", "diffusion"):
    specs = {f"mxfp4,scale={scale},block={block},scale_rule={rule},tensor_scale={tensor}": (scale, block, rule, tensor)
             for scale, block, rule, tensor in choices}
    words = [PROGRAM, "stats", "--task", task, "--recipe", "bf16", "--at", "100", "--json"]
    for spec in specs:
        words += ["--probe", spec]
    answer = subprocess.run(words, capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(answer.stderr)
    tensors = [row for row in json.loads(answer.stdout)["rows"] if "probe" in row]
    for spec, (scale, block, rule, tensor_scale) in specs.items():
        row = {"task": task, "scale": scale, "block": block, "rule": rule, "tensor_scale": tensor_scale}
        for name, gemm, operand in (("X", "fprop", "a"), ("W", "fprop", "b"), ("dY", "dgrad", "a")):
            mine = [t for t in tensors if (t["probe"], t["gemm"], t["operand"]) == (spec, gemm, operand)]
            for what in ("nmse", "clipped", "underflow"):
                row[f"{what}_{name}"] = sum(t[what] for t in mine) / len(mine)
        rows.append(row)
fp4lib.write_rows(sys.argv[1], rows)
