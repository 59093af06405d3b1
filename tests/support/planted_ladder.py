"""A table of `fp4sim sweep export` whose losses follow a known law (test_law.cpp): bf16 and a recipe of effN .64, effD
.94, sizes of 50,000 to 3,200,000 weights, 20 to 160 tokens a weight, three seeds with a scatter of 2e-4."""
import hashlib
import random

COLUMNS = ("sweep,recipe,task,config_hash,seed,role,status,loss,loss_hp,digest,seconds,backend,version,signature,"
           "train_signature,message,metrics,curve")
random.seed(1)
print(COLUMNS + ",row_hash")
for recipe, eff_n, eff_d in (("bf16", 1, 1), ("quartet", 0.64, 0.94)):
    for n in (5e4, 2e5, 8e5, 3.2e6):
        for ratio in (20, 40, 80, 160):
            for seed in (1, 2, 3):
                d = n * ratio
                loss = (60 / (n * eff_n) ** 0.4 + 900 / (d * eff_d) ** 0.5) ** 0.8 + 0.9
                loss *= 1 + random.gauss(0, 2e-4)
                key = hashlib.sha256(f"{recipe} {n} {d}".encode()).hexdigest()[:16]
                line = f"planted,{recipe},lm,{key},{seed},run,finished,{loss!r},,0,0,,,0,0,,weights={n};tokens={d},,"
                print(line + hashlib.sha256(line.encode()).hexdigest()[:16])
