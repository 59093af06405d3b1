"""Bias and variance of a quantised dot product against its length b (arXiv 2502.20586, theorem 3.2).

    /usr/bin/python3 tools/studies/variance.py results/sr_rht_variance/variance.csv

Two families of vectors, each pair multiplied under REPEATS seeds:
  outliers   entries N(0,1), one in a hundred times 5: the norm grows with sqrt(b), as in a real contraction
  spike      norm 1 at every b, half of its square in one entry: what the theorem's bound is about
Per (family, variant, b), over 16 x 16 pairs:
  variance        mean over pairs of the variance over seeds (absolute, as in the theorem)
  bias            root mean square over pairs of mean error, with the share that the finite number of seeds explains
                  taken out; in units of the root mean square of the exact products
  bias_z          RMS over pairs of mean error / its standard error: 1 where there is no bias
  rms_error       root mean square error of one product, in the same units
A deterministic variant has no variance; its error is all bias.
"""
import sys
import numpy as np
import fp4lib
from fp4lib import fp4sim

ROWS, REPEATS = 16, 128
LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096]
# name | spec of both operands | Hadamard size (0: none, -1: the whole vector, up to 256) | signs
VARIANTS = [
    ("RNE", "mxfp4", 0, "none"),
    ("RNE rceil", "mxfp4,scale_rule=rceil", 0, "none"),
    ("RNE RHT64", "mxfp4", 64, "per_step"),
    ("SR no prescale", "mxfp4,rounding=stochastic", 0, "none"),
    ("SR 3/4", "mxfp4,rounding=stochastic,prescale=0.75", 0, "none"),
    ("SR rceil", "mxfp4,rounding=stochastic,scale_rule=rceil", 0, "none"),
    ("SR no prescale RHT64", "mxfp4,rounding=stochastic", 64, "per_step"),
    ("SR 3/4 H64", "mxfp4,rounding=stochastic,prescale=0.75", 64, "none"),
    ("SR 3/4 RHT64", "mxfp4,rounding=stochastic,prescale=0.75", 64, "per_step"),
    ("SR 3/4 RHT b", "mxfp4,rounding=stochastic,prescale=0.75", -1, "per_step"),
    ("SR nvfp4", "nvfp4,rounding=stochastic", 0, "none"),
    ("SR 3/4 one scale", "mxfp4,block=row,rounding=stochastic,prescale=0.75", 0, "none"),
    ("SR 3/4 one scale RHT64", "mxfp4,block=row,rounding=stochastic,prescale=0.75", 64, "per_step"),
    ("SR 3/4 one scale RHT b", "mxfp4,block=row,rounding=stochastic,prescale=0.75", -1, "per_step"),
]


def outliers(generator, length):
    x = generator.standard_normal((ROWS, length))
    return (x * np.where(generator.random(x.shape) < .01, 5, 1)).astype(np.float32)


def spike(generator, length):
    x = generator.standard_normal((ROWS, length))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[np.arange(ROWS), generator.integers(0, length, ROWS)] = generator.choice([-1, 1], ROWS)
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


rows = []
for family, length in [(family, length) for family in (outliers, spike) for length in LENGTHS]:
    generator = np.random.default_rng(length)
    a, b = family(generator, length), family(generator, length)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    unit = np.sqrt(np.mean(exact ** 2))
    for name, spec, size, signs in VARIANTS:
        size = length if size < 0 else size
        if size > min(length, 256):
            continue
        errors = np.empty((REPEATS, ROWS, ROWS))
        for seed in range(REPEATS):
            ra, rb = (fp4sim.hadamard(x, size, signs=signs, seed=seed) if size else x for x in (a, b))
            errors[seed] = fp4sim.gemm(ra, rb, spec, seed=seed) - exact
        mean, variance = errors.mean(0), errors.var(0, ddof=1)
        noise = variance / REPEATS
        moving = variance.mean() > 1e-12 * unit ** 2
        rows.append({"family": family.__name__, "variant": name, "b": length,
                     "variance": float(variance.mean()) if moving else 0.,
                     "bias": float(np.sqrt(max(0., np.mean(mean ** 2 - noise))) / unit),
                     "bias_z": float(np.sqrt(np.mean(mean ** 2 / noise))) if moving else "",
                     "rms_error": float(np.sqrt(np.mean(errors ** 2)) / unit)})
fp4lib.write_rows(sys.argv[1], rows)
