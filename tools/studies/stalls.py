"""Stalls that the cost model gives: over the rate of the network, over a network's layers and gradients, on AWS instances.

    /usr/bin/python3 tools/studies/stalls.py results/stalls [build/fp4sim]

network.csv: what the network adds to a step of Llama 3.1 8B, in % of the step without it, on 64 accelerators in nodes of 8 and 4 million tokens a step, with the
profile's network_bandwidth replaced. break_even.csv: the rate at which it adds 10 %, beside the rate of the profile. features.csv: a made-up network of 4e9 multiply-adds an image,
32 images an accelerator in fp32, all-reduce of fp32 gradients; the gradient's volume with 50 layers, then the layers with 100 MB of gradients (in buckets
of 25 MiB, and every layer by itself). instances.csv: four convolutional networks on AWS instances, 32 images an accelerator. batches.csv: Stash's two largest
stalls over the images an accelerator; "one flow": two p3.8xlarge whose ring is one TCP connection of 5 Gb/s.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import study_tables

folder = pathlib.Path(sys.argv[1])
program = sys.argv[2] if len(sys.argv) > 2 else "build/fp4sim"
scratch = tempfile.TemporaryDirectory()
recipes = ["bf16", "mxfp8", "mxfp4", "nvfp4_te"]
chips = ["b200", "gb300", "mi355x", "h200"]


def cost(model, hardware, recipe, devices, *more):
    done = subprocess.run([program, "cost", "--model", str(model), "--hardware", str(hardware), "--recipe", recipe, "--devices", str(devices), "--json", *more],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def write_json(name, value):
    path = pathlib.Path(scratch.name) / f"{name}.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_csv(name, head, rows):
    study_tables.write(folder / name, head, rows)
    print(f"{folder / name}: {len(rows)} rows")


devices, tokens = 64, 1 << 22
llama = json.loads(pathlib.Path("sweeps/models/llama3_8b.json").read_text(encoding="utf-8"))
llama["tokens_per_step"] = tokens // devices
llama["micro_batches"] = 4
llama = write_json("llama", llama)
known = {}


def network_stall(chip, recipe, rate):
    if (chip, recipe, rate) not in known:
        profile = json.loads(pathlib.Path(f"sweeps/hardware/{chip}.json").read_text(encoding="utf-8"))
        profile["network_bandwidth"] = rate
        profile["node_size"] = 8
        known[chip, recipe, rate] = cost(llama, write_json("chip", profile), recipe, devices)["communication"]["network_stall"]
    return known[chip, recipe, rate]


rows, even = [], []
for chip in chips:
    profile = json.loads(pathlib.Path(f"sweeps/hardware/{chip}.json").read_text(encoding="utf-8"))
    for recipe in recipes:
        for step in range(17):
            rate = 1e9 * 2 ** (step / 2)
            rows.append([chip, recipe, f"{rate / 1e9:.4g}", f"{100 * network_stall(chip, recipe, rate):.3g}"])
        low, high = 1e7, 1e13
        while high / low > 1.005:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if network_stall(chip, recipe, middle) > 0.1 else (low, middle)
        even.append([chip, recipe, f"{high / 1e9:.3g}", f"{profile['network_bandwidth']['value'] / 1e9:g}",
                     f"{100 * network_stall(chip, recipe, profile['network_bandwidth']['value']):.3g}"])
write_csv("network.csv", ["chip", "recipe", "GB_per_s", "added_percent"], rows)
write_csv("break_even.csv", ["chip", "recipe", "break_even_GB_per_s", "profile_GB_per_s", "added_at_profile_percent"], even)

ddp = ["--shard", "none", "--gradients", "fp32"]


def stalls(result):
    c = result["communication"]
    return c["interconnect_stall"], c["network_stall"], 1 - c["t0_s"] / c["tm_s"]


def made_up(layers, megabytes):
    """Equal layers with so many MB of fp32 weights and 4e9 multiply-adds an image together."""
    width = max(1, round(math.sqrt(megabytes * 1e6 / 4 / layers)))
    pixels = max(1, round(4e9 / (layers * width * width)))
    return write_json("network", {"name": "made_up", "doc": "equal layers", "source": "made up", "blocks": layers, "width": width,
                                  "linears": [{"name": "l", "in": width, "out": [width], "positions": pixels}], "unquantised": [], "attention_width": 0,
                                  "sequence": 0, "tokens_per_step": 32, "micro_batches": 1, "saved_per_token_block": 0, "extra_parameters": 0})


instances = [("p2_16xlarge", 16), ("p3_16xlarge", 8), ("p3_8xlarge", 8), ("p4d_24xlarge", 8)]
label = {("p3_8xlarge", 8): "2 x p3_8xlarge"}
rows = []
for chip, count in instances:
    name = label.get((chip, count), chip)
    for megabytes in [25, 50, 100, 200, 400, 800]:
        rows.append(["MB of gradients, 50 layers", name, megabytes, f"{100 * stalls(cost(made_up(50, megabytes), chip, 'fp32', count, *ddp))[2]:.3g}"])
    for feature, more in [("layers, buckets of 25 MiB", []), ("layers, each by itself", ["--weight", "bucket_bytes=0"])]:
        for layers in [8, 16, 32, 64, 128, 256, 512]:
            found = stalls(cost(made_up(layers, 100), chip, "fp32", count, *ddp, *more))[2]
            rows.append([feature, name, layers, f"{100 * found:.3g}"])
rows.sort(key=lambda row: row[0])
write_csv("features.csv", ["feature", "instance", "value", "stall_percent"], rows)

rows = []
for network in ["resnet18", "resnet50", "vgg11", "vgg16"]:
    for chip, count in [("p2_8xlarge", 8), ("p2_16xlarge", 16), ("p3_8xlarge", 4), ("p3_8xlarge", 8), ("p3_16xlarge", 8), ("p3dn_24xlarge", 8),
                        ("p4d_24xlarge", 8), ("p5_48xlarge", 8)]:
        result = cost(network, chip, "fp32", count, *ddp)
        links, wires, _ = stalls(result)
        rows.append([network, chip, count, f"{32 * count / result['step_time_s']:.4g}", f"{100 * links:.3g}", f"{max(0, 100 * wires):.3g}",
                     f"{result['price'] * 1e6 / (32 * count):.3g}"])
write_csv("instances.csv", ["network", "instance", "accelerators", "images_per_s", "interconnect_percent", "network_percent", "dollars_per_million_images"], rows)

rows = []
for network in ["resnet18", "resnet50", "vgg11", "vgg16"]:
    shape = json.loads(pathlib.Path(f"sweeps/models/{network}.json").read_text(encoding="utf-8"))
    two = json.loads(pathlib.Path("sweeps/hardware/p3_8xlarge.json").read_text(encoding="utf-8"))
    two["network_bandwidth"] = 5e9 / 8 / two["node_size"]["value"]
    for images in [4, 8, 16, 24, 32, 48, 64, 128]:
        shape["tokens_per_step"] = images
        model = write_json("network", shape)
        one = cost(model, "p3_16xlarge", "fp32", 8, *ddp)["step_time_s"]
        rows.append([network, images, f"{100 * stalls(cost(model, 'p2_16xlarge', 'fp32', 16, *ddp))[0]:.3g}",
                     f"{cost(model, 'p3_8xlarge', 'fp32', 8, *ddp)['step_time_s'] / one:.3g}",
                     f"{cost(model, write_json('two', two), 'fp32', 8, *ddp)['step_time_s'] / one:.3g}"])
write_csv("batches.csv", ["network", "images", "p2_16xlarge_interconnect_percent", "two_p3_8xlarge_slower", "two_p3_8xlarge_one_flow_slower"], rows)
