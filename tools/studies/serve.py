"""From which k do k FP4 networks answer better than one bf16 network of the same cost? What results/serve holds.

    /usr/bin/python3 tools/studies/serve.py build/studies/serve results/serve [SETS [votes,policies]]

Trains SETS fresh sets of checkpoints (each set: its own data, MEMBERS networks that differ by seed), lets `fp4sim serve
--votes` add up their votes, and compares each ensemble with the first bf16 network of its own set, and with the fewest
bf16 networks that cost no less: paired differences over the sets, t intervals at 1 - .05 / (number of comparisons). Then
services: policies on traces, over sets as well.
Checkpoints and the output of each set stay in the first folder, so an interrupted study goes on; SETS 0 only adds up what is
there.
"""
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import study_tables  # noqa: E402
from intervals import FP4SIM, intervals  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMBERS = 7
# (task, settings of the training, model whose size costs)
NETWORKS = {
    "classifier 32": ("classifier", ["width=32"], "llama_1b"),
    "classifier 128": ("classifier", ["width=128"], "llama_1b"),
    "lm 32": ("lm", ["width=32", "heads=2", "ffn=64"], "llama_1b"),
}
STEPS = {"classifier": 600, "lm": 300}
# One checkpoint under seven recipes.
RECIPES = ["nvfp4@fprop", "mxfp4@fprop", "four_over_six@fprop", "ue5m3_hold50@fprop", "mxfp4_all_h16@fprop", "quartet@fprop",
           "ufp4@fprop"]
# What differs between the members of an ensemble: recipe of the training, recipe in use.
KINDS = {
    "bf16, by seed": ("bf16", "bf16"),
    "nvfp4, by seed": ("bf16", "nvfp4@fprop"),
    "mxfp4, by seed": ("bf16", "mxfp4@fprop"),
    "nvfp4 trained, by seed": ("nvfp4", "own"),
}
ROUNDED = {"nvfp4, by rounding": "nvfp4@fprop", "mxfp4, by rounding": "mxfp4@fprop"}


def run(*words):
    done = subprocess.run([FP4SIM, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"serve.py: fp4sim {' '.join(words)}\n{done.stderr}")
    return done.stdout


def trained(path, task, recipe, seed, settings):
    """The path of a network, trained where it is missing."""
    if not path.exists():
        run("train", "--task", task, "--recipe", recipe, "--steps", str(STEPS[task]), "--seed", str(seed), "--quiet",
            "--checkpoint", str(path), *[word for s in settings for word in ("--set", s)])
    return str(path.resolve())


def checkpoint(folder, network, number, recipe, seed):
    task, settings, _ = NETWORKS[network]
    path = folder / f"{network.replace(' ', '')}-{number}-{recipe}-{seed}.ck"
    return trained(path, task, recipe, seed, [f"data_seed={100 + number}", *settings])


def remembered(path, make):
    """The JSON that `make` gives, kept in a file."""
    if not path.exists():
        text = make()
        path.write_text(text)
    return json.loads(path.read_text())


def finished(folder, kind, network, sets):
    """Numbers of the sets to read: those asked for, or those that are there."""
    there = [n for n in range(1, 1000) if (folder / f"{kind}-{network.replace(' ', '')}-{n}.json").exists()]
    return range(1, sets + 1) if sets else there


def service(folder, members, model, **more):
    file = folder / "service.json"
    file.write_text(json.dumps({"members": members, "model": model, "targets": [{"accuracy": 0.5, "latency_ms": 1000}], **more}))
    return str(file)


def groups(folder, network, number):
    """Members of every kind of ensemble of one set."""
    members = []
    for group, (recipe, use) in KINDS.items():
        for seed in range(1, MEMBERS + 1):
            members.append({"checkpoint": checkpoint(folder, network, number, recipe, seed), "recipe": use, "group": group})
    first = checkpoint(folder, network, number, "bf16", 1)
    for recipe in RECIPES:
        members.append({"checkpoint": first, "recipe": recipe, "group": "fp4, by recipe"})
    for group, recipe in ROUNDED.items():
        stochastic = {"base": recipe, "name": "sr", "fprop": {"*": {"rounding": "stochastic"}}}
        members.append({"checkpoint": first, "recipe": stochastic, "rounding_seeds": list(range(1, MEMBERS + 1)), "group": group})
    return members


def votes(folder, network, sets):
    """{(group, k): [right by set]} of class-weighted votes and majorities, and the cost of each."""
    weighted, majority, cost = {}, {}, {}
    for number in finished(folder, "votes", network, sets):
        def make(number=number):
            return run("serve", service(folder, groups(folder, network, number), NETWORKS[network][2]), "--votes", "--json")
        for row in remembered(folder / f"votes-{network.replace(' ', '')}-{number}.json", make)["votes"]:
            key = row["group"], row["members"]
            weighted.setdefault(key, []).append(row["weighted"])
            majority.setdefault(key, []).append(row["majority"])
            cost[key] = row["cost_per_million"]
        print(f"{network}: set {number}", flush=True)
    return weighted, majority, cost


def compare(differences, family):
    return intervals({"difference": differences}, family)["difference"]


def write(path, head, rows):
    study_tables.write(path, head, ([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows))
    print(f"{path}: {len(rows)} rows")


BASE = "bf16, by seed"


def no_cheaper(cost, key):
    """The fewest bf16 networks that cost no less than this ensemble, to a hundredth."""
    return min(k for (group, k), price in cost.items() if group == BASE and 1.01 * price >= cost[key])


def study_votes(folder, out, sets, networks):
    found = {network: votes(folder, network, sets) for network in networks}
    found = {network: rows for network, rows in found.items() if rows[0]}
    # Each ensemble against one bf16 network; those of FP4 that cost as much as several, against these as well.
    count = sum(key != (BASE, 1) for weighted, _, _ in found.values() for key in weighted)
    count += sum(key[0] != BASE and no_cheaper(cost, key) > 1 for weighted, _, cost in found.values() for key in weighted)
    rows = []
    for network, (weighted, majority, cost) in found.items():
        def against(key, other):
            if key == other:
                return 0.0, 0.0, 0.0
            return compare([a - b for a, b in zip(weighted[key], weighted[other])], count)
        for key, right in weighted.items():
            rival = BASE, key[1] if key[0] == BASE else no_cheaper(cost, key)
            rows.append([network, key[0], key[1], len(right), statistics.mean(right), statistics.mean(majority[key]),
                         *against(key, (BASE, 1)), rival[1], *against(key, rival), cost[key], cost[key] / cost[BASE, 1],
                         (1 - statistics.mean(right)) * 100])
    write(out / "votes.csv", ["network", "ensemble", "k", "sets", "weighted", "majority", "over_one_bf16", "low", "high",
                              "bf16_no_cheaper", "over_bf16_no_cheaper", "low_no_cheaper", "high_no_cheaper", "cost_per_million", "cost_x",
                              "wrong_percent"], rows)
    print(f"{count} intervals, 95 % together")


# Sizes of a pool: width of the network that answers, model whose size costs.
SIZES = {"8": "llama_60m", "16": "llama_350m", "32": "llama_1b", "128": "llama3_8b"}
SEEDS_OF_POOL = 3
TRACES = {
    "poisson": {"arrivals": "poisson", "rate": 150, "seconds": 240},
    "diurnal": {"arrivals": "diurnal", "rate": 150, "seconds": 240, "period": 120, "depth": 0.7},
    "bursts": {"arrivals": "bursts", "rate": 75, "seconds": 240, "period": 60, "length": 12, "factor": 5},
}
POOLS = {"bf16": ["bf16"], "both": ["bf16", "nvfp4@fprop"]}
FIGURES = ["cost_per_million", "p50_ms", "p95_ms", "p99_ms", "accuracy", "members", "met_latency", "met_accuracy", "met_both",
           "instances_lost"]
INTERVALS = ["cost_per_million", "p50_ms", "p99_ms", "met_both"]
RATIOS = ["cost_per_million", "p50_ms"]


def pool_checkpoint(folder, number, width, seed):
    path = folder / f"pool-{number}-{width}-{seed}.ck"
    return trained(path, "classifier", "bf16", seed, [f"data_seed={200 + number}", f"width={width}"])


def policies_of(folder, number, traces_of_set):
    """What `serve` says of each pool and trace of one set. Targets stand relative to the best bf16 member: three points of
    accuracy below it, one below, and half a point above it, which no single member promises; a request may take three times
    what the largest bf16 member needs alone."""
    result = {}
    targets = None
    for pool, recipes in POOLS.items():
        members = [{"checkpoint": pool_checkpoint(folder, number, width, seed), "recipe": recipe, "model": model}
                   for width, model in SIZES.items() for seed in range(1, SEEDS_OF_POOL + 1) for recipe in recipes]
        for trace, arrivals in TRACES.items():
            def serve(targets, *words):
                file = service(folder, members, "llama_1b", targets=targets, trace=arrivals, instance=INSTANCE)
                return json.loads(run("serve", file, "--json", *words))
            if targets is None:
                known = serve([{"accuracy": 0.5, "latency_ms": 1000}], "--seeds", "1", "--policies", "single")["members"]
                best, slow = max(m["accuracy"] for m in known), max(m["one_ms"] for m in known)
                targets = [{"accuracy": best + more, "latency_ms": 3 * slow} for more in (-0.03, -0.01, 0.005)]
            result[f"{pool},{trace}"] = serve(targets, "--seeds", str(traces_of_set), "--first-seed", str(1000 * number))
    return json.dumps(result)


def study_policies(folder, out, sets, traces_of_set=2):
    runs = {}
    for number in finished(folder, "policies", "pool", sets):
        found = remembered(folder / f"policies-pool-{number}.json", lambda: policies_of(folder, number, traces_of_set))
        for key, result in found.items():
            for row in result["policies"]:
                for figure in FIGURES:
                    runs.setdefault((*key.split(","), row["policy"]), {}).setdefault(figure, []).append(row[figure]["mean"])
        print(f"policies: set {number}", flush=True)
    rows = []
    count = (len(INTERVALS) + len(RATIOS)) * len(runs)
    for (pool, trace, policy), figures in runs.items():
        row = [pool, trace, policy, len(figures["accuracy"])]
        for figure in FIGURES:
            mean, low, high = compare(figures[figure], count)
            row += [mean, low, high] if figure in INTERVALS else [mean]
        rival = runs["bf16", trace, "infaas"]
        for figure in RATIOS:  # how many times infaas on bf16 members takes
            ratios = [b / a for a, b in zip(figures[figure], rival[figure])]
            row += list(compare(ratios, count))
        rows.append(row + [100 * (1 - statistics.mean(figures["accuracy"]))])
    head = ["pool", "trace", "policy", "sets"]
    for figure in FIGURES:
        head += [figure] + ([f"{figure}_low", f"{figure}_high"] if figure in INTERVALS else [])
    head += ["cheaper_x", "cheaper_low", "cheaper_high", "faster_x", "faster_low", "faster_high", "wrong_percent"]
    write(out / "policies.csv", head, rows)
    write(out / "latency.csv", ["pool", "trace", "policy", "percentile", "ms"],
          [[*key, p, statistics.mean(figures[f"p{p}_ms"])] for key, figures in runs.items() for p in (50, 95, 99)])
    print(f"{count} intervals, 95 % together")


INSTANCE = {"share": 0.001, "overhead_ms": 0, "batch": 16, "start_up_s": 10, "tick_s": 5, "losses_per_hour": 20, "transient_price": 0.3}

if __name__ == "__main__":
    build, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    amount = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    build.mkdir(parents=True, exist_ok=True)
    results.mkdir(parents=True, exist_ok=True)
    parts = sys.argv[4].split(",") if len(sys.argv) > 4 else ["votes", "policies"]
    if "votes" in parts:
        study_votes(build, results, amount, list(NETWORKS))
    if "policies" in parts:
        study_policies(build, results, amount)
