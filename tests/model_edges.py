#!/usr/bin/python3
"""Models at the edges: no rows, parts that are left out, marks, split files, places: usage model_edges.py PATH_OF_FP4SIM."""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from checkpoint_files import *

G = np.float32(0.0021)
# scheme -> names that it takes, and shapes of a weight with elements, without rows and, of stacks, without experts
LINEAR = ("l.0.up_proj.weight", "l.0.down_proj.weight", (32, 64), [(0, 64)])
SCHEMES = {"modelopt_nvfp4": LINEAR, "modelopt_mxfp4": LINEAR, "compressed_tensors_nvfp4": LINEAR, "compressed_tensors_mxfp4": LINEAR,
           "ggml_mxfp4": LINEAR, "ggml_nvfp4": LINEAR,
           "gpt_oss_mxfp4": ("l.experts.down_proj", "l.experts.gate_up_proj", (2, 64, 32), [(0, 64, 32), (2, 64, 0)]),
           "deepseek_mxfp4": ("l.experts.0.w1.weight", "l.experts.1.w1.weight", (32, 64), [(0, 64)])}


def values(*shape):
    return ("BF16", bf16(rng.standard_normal(shape).astype(np.float32)))


def weight(name, rows=16, cols=64, factor=G):
    return {f"{name}.weight": ("U8", rng.integers(0, 256, (rows, cols // 2), dtype=np.uint8)),
            f"{name}.weight_scale": ("F8_E4M3", rng.integers(1, 127, (rows, cols // 16), dtype=np.uint8)),
            f"{name}.weight_scale_2": ("F32", np.float32(factor))}


def notes(*words):
    done = subprocess.run([FP4SIM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stderr


def source_of(folder, tensors, words):
    """The tensors as a file of the kind that the scheme of the words takes."""
    if not any(str(word).startswith("ggml") for word in words):
        save(folder / "m.safetensors", tensors)
        return folder / "m.safetensors"
    gguf(folder / "m.gguf", {name: (30, array.shape, array.tobytes()) for name, (_, array) in tensors.items()})
    return folder / "m.gguf"


def there_and_back(folder, tensors, *words):
    """What `dequantize` makes of what `quantize` made."""
    for name in "qd":
        shutil.rmtree(folder / name, ignore_errors=True)
    run("quantize", source_of(folder, tensors, words), *words, "--out", folder / "q", "--no-sync")
    run("inspect", folder / "q")
    run("dequantize", folder / "q", "--out", folder / "d", "--no-sync")
    return load(folder / "d/m.safetensors")


def check_empty(folder):
    """Weights without rows, experts or columns, through every scheme and back."""
    for scheme, (name, other, shape, empties) in SCHEMES.items():
        for empty in empties:
            for words in ((), ("--spec", "nvfp4")) if scheme == "ggml_nvfp4" else ((),):
                got = there_and_back(folder, {name: values(*empty), other: values(*shape)}, "--scheme", scheme, *words)
                assert got[name][1].shape == empty and got[other][1].shape == shape, (scheme, empty, got[name][1].shape)
        # Without columns there is no block.
        no_columns = (*shape[:-2], 0, shape[-1]) if scheme.startswith("gpt") else (*shape[:-1], 0)
        source = source_of(folder, {name: values(*no_columns), other: values(*shape)}, (scheme,))
        error = run("quantize", source, "--scheme", scheme, "--out", folder / "no", code=2)
        assert name in error and "0 columns" in error and not (folder / "no").exists(), error
    # FP4 of no rows and of no experts, from scheme to scheme.
    whole = weight("a")
    stack = {"b.experts.down_proj": ("U8", np.zeros((0, 8, 32), np.uint8)), "b.experts.down_proj_weight_scale": ("F8_E4M3", np.zeros((0, 8, 4), np.uint8)),
             "b.experts.down_proj_weight_scale_2": ("F32", np.zeros(0, np.float32))}
    for tensors, names, shape in ((weight("b", rows=0), "b.weight", (0, 64)), (stack, "b.experts.down_proj", (0, 8, 64))):
        for scheme in ("modelopt_nvfp4", "compressed_tensors_nvfp4", "compressed_tensors_mxfp4"):
            got = there_and_back(folder, whole | tensors, "--scheme", scheme)
            got = [v[1].shape for k, v in got.items() if k.startswith("b.")]
            assert got == [shape], (scheme, got)


def check_index(folder):
    """Shards that the index leaves out are named and not read; tensors that it leaves out are named and read."""
    save(folder / "model-1.safetensors", {"a.weight": values(16, 64), "more.weight": values(16, 64)})
    save(folder / "model-2.safetensors", {"b.weight": values(16, 64)})
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.weight": "model-1.safetensors"}}))
    for words in (("inspect", folder), ("compare", folder, "--specs", "nvfp4"),
                  ("quantize", folder, "--scheme", "modelopt_nvfp4", "--out", folder.parent / "index_out", "--no-sync")):
        told = notes(*words)
        assert "model-2.safetensors" in told and "left out" in told and "more.weight" in told, told
    got = load(folder.parent / "index_out/model-1.safetensors")
    assert "more.weight_scale" in got and not (folder.parent / "index_out/model-2.safetensors").exists()
    index.write_text(json.dumps({"weight_map": {}}))
    assert "weight_map" in run("inspect", folder, code=2)


def check_companions(folder):
    """Factors of inputs beside stacks go with them: dropped when they are decoded, kept with them."""
    path = folder / "m.safetensors"
    e, inner, outer = 3, 64, 48
    for shape, scales in (((e, inner // 2, outer), (e, inner // 16, outer)), ((e, outer, inner // 2), (e, outer, inner // 16))):
        name = "l.experts.down_proj"
        stack = {name: ("U8", rng.integers(0, 256, shape, dtype=np.uint8)), name + "_weight_scale": ("F8_E4M3", rng.integers(1, 127, scales, dtype=np.uint8)),
                 name + "_weight_scale_2": ("F32", np.full(e, G)), name + "_input_scale": ("F32", np.float32(0.5))}
        save(path, stack | weight("a"))
        told = json.loads(run("dequantize", path, "--out", folder / "d", "--json", "--no-sync", "--force"))
        assert told["outcomes"]["dropped"] == 1 and set(load(folder / "d/m.safetensors")) == {name, "a.weight"}, told["outcomes"]
        run("dequantize", path, "--tensors", "a.weight", "--out", folder / "k", "--no-sync", "--force")
        assert set(load(folder / "k/m.safetensors")) == {*stack, "a.weight"}


def check_marks(folder):
    """A weight that stays in ComfyUI's order keeps the mark that says so, in its shard's header; converted ones lose theirs."""
    path = folder / "m.safetensors"
    layers = {"a": {"format": "nvfp4"}, "b": {"format": "nvfp4"}}
    save(path, weight("a", 128) | weight("b", 128), {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers}), "made": "up"})
    run("dequantize", path, "--out", folder / "whole", "--no-sync")
    whole = load(folder / "whole/m.safetensors")
    for words, a in ((("dequantize", path, "--tensors", "a.weight"), "d"), (("quantize", path, "--scheme", "modelopt_nvfp4", "--keep", "b.weight"), "q")):
        run(*words, "--out", folder / a, "--no-sync")
        raw = (folder / a / "m.safetensors").read_bytes()
        header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]
        kept = json.loads(header["_quantization_metadata"])
        assert kept == {"format_version": "1.0", "layers": {"b": {"format": "nvfp4"}}} and header["made"] == "up", header
        run("dequantize", folder / a, "--out", folder / (a + "2"), "--no-sync")
        again = load(folder / (a + "2") / "m.safetensors")
        for name in ("a.weight", "b.weight"):
            assert np.array_equal(again[name][1], whole[name][1]), (a, name)
        raw = (folder / (a + "2") / "m.safetensors").read_bytes()
        assert "_quantization_metadata" not in json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]


def check_odd_marks(folder):
    """A mark that is no text or names another format than the parts have is named, not guessed."""
    path = folder / "m.safetensors"
    for kind, word in ((4, "format is 4"), ("nvfp5", "'nvfp5'"), ("mxfp8", "'mxfp8'")):
        save(path, weight("a", 128), {"_quantization_metadata": json.dumps({"layers": {"a": {"format": kind}}})})
        error = run("dequantize", path, "--out", folder / "no", code=2)
        assert word in error and "a" in error and not (folder / "no").exists(), error


def check_groups(folder):
    """Words of --fuse that name nothing are an error; carried weights that engines join and whose factors differ are named."""
    path = folder / "m.safetensors"
    save(path, {"l.q_proj.weight": values(16, 64), "l.k_proj.weight": values(16, 64)})
    for groups in ([["*.q_proj", "*.zzz"]], [["*.q_proj", "*.k_proj"], ["l.z"]]):
        (folder / "groups.json").write_text(json.dumps({"groups": groups}))
        error = run("quantize", path, "--scheme", "modelopt_nvfp4", "--fuse", folder / "groups.json", "--out", folder / "no", code=2)
        assert groups[-1][-1] in error and not (folder / "no").exists(), error
    for factor in (G, 2 * G):
        save(path, weight("l.q_proj") | weight("l.k_proj", factor=factor) | weight("l.o_proj", factor=3 * G))
        told = notes("quantize", path, "--scheme", "compressed_tensors_nvfp4", "--out", folder / "q", "--no-sync", "--force")
        assert ("l.q_proj.weight and l.k_proj.weight keep unlike factors" in told) == (factor != G) and "o_proj" not in told, told
    told = notes("quantize", path, "--scheme", "compressed_tensors_nvfp4", "--spec", "nvfp4", "--out", folder / "q", "--no-sync", "--force")
    assert "unlike" not in told, told


def split_part(path, number, count, tensors, name):
    """One file of gguf-split: split.no and split.count are u16, split.tensors.count is i32."""
    text = lambda t: struct.pack("<Q", len(t)) + t.encode()
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 4) + text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("split.no") + struct.pack("<IH", 2, number) + text("split.count") + struct.pack("<IH", 2, count)
    head += text("split.tensors.count") + struct.pack("<Ii", 5, tensors)
    head += text(name) + struct.pack("<IQQIQ", 2, 64, 64, 0, 0)
    path.write_bytes(head + bytes(-len(head) % 32) + rng.standard_normal((64, 64)).astype(np.float32).tobytes())


def check_split(folder):
    """Parts of gguf-split: llama.cpp wants all of them and the number of tensors that they hold together."""
    parts = [folder / f"m-0000{i + 1}-of-00002.gguf" for i in range(2)]
    for i, name in enumerate(("blk.0.ffn_up.weight", "blk.0.ffn_down.weight")):
        split_part(parts[i], i, 2, 2, name)
    for spec, tensors in ((("--spec", "nvfp4"), 4), ((), 2)):  # with a factor each, and without
        out = folder.parent / f"split{tensors}"
        run("quantize", folder, "--scheme", "ggml_nvfp4", *spec, "--out", out, "--no-sync")
        for i, part in enumerate(parts):
            raw = (out / part.name).read_bytes()
            for key, form, value in (("split.no", "<IH", (2, i)), ("split.count", "<IH", (2, 2)), ("split.tensors.count", "<Ii", (5, tensors))):
                at = raw.index(key.encode()) + len(key)
                assert struct.unpack_from(form, raw, at) == value, (key, struct.unpack_from(form, raw, at), value)
            assert struct.unpack_from("<Q", raw, 8)[0] == tensors // 2
    error = run("quantize", parts[0], "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
    assert "part 1 of 2" in error and "folder" in error, error
    split_part(folder / "again.gguf", 0, 2, 2, "blk.1.ffn_up.weight")
    assert "again.gguf" in run("quantize", folder, "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
    (folder / "again.gguf").unlink()
    parts[1].unlink()
    error = run("quantize", folder, "--scheme", "ggml_mxfp4", "--out", folder / "no", code=2)
    assert "part 2 of 2" in error and "missing" in error, error


def check_fp8_scales(folder):
    """A scale of an FP8 weight that is no finite number above 0 is named; rows of zeros may have the scale 0."""
    path = folder / "m.safetensors"
    codes = rng.integers(0, 120, (16, 64), dtype=np.uint8)
    for value in (np.nan, np.inf, 0, -1):
        for shape in ((), (16, 1)):
            scales = np.full(shape, 0.5, np.float32)
            scales[(...,) if shape == () else (3, 0)] = value
            save(path, {"b.weight": ("F8_E4M3", codes), "b.weight_scale": ("F32", scales)})
            if value == 0 and shape:
                run("dequantize", path, "--out", folder / "d", "--no-sync", "--force")
                assert not floats(load(folder / "d/m.safetensors")["b.weight"])[3].any()
                continue
            for words in (("dequantize", path), ("quantize", path, "--scheme", "modelopt_nvfp4")):
                error = run(*words, "--out", folder / "no", code=2)
                assert "b.weight_scale" in error and not (folder / "no").exists(), (value, shape, error)


def check_places(folder):
    """The source is never written over; results in its folder are no part of it; a config.json has to be an object."""
    source = folder / "source"
    source.mkdir()
    save(source / "model.safetensors", {"a.weight": values(16, 64)})
    (source / "config.json").write_text("{}")
    before = (source / "model.safetensors").read_bytes()
    for given in (source, source / "model.safetensors"):
        for out in (source, folder / "source/../source"):
            error = run("quantize", given, "--scheme", "modelopt_nvfp4", "--out", out, "--force", code=2)
            assert "is read from" in error and (source / "model.safetensors").read_bytes() == before, error
    os.symlink(source, source / "loop")
    run("quantize", source, "--scheme", "modelopt_nvfp4", "--out", source / "inner", "--no-sync")
    told = notes("quantize", source, "--scheme", "modelopt_nvfp4", "--out", folder / "outer", "--no-sync")
    assert "inner/" in told and sorted(p.name for p in (folder / "outer").iterdir()) == [
        "config.json", "fp4sim.json", "hf_quant_config.json", "model.safetensors"], told
    for entry in ("text", [1]):  # weights of it remain, so that it has to say what stays
        (folder / "outer/config.json").write_text(json.dumps({"quantization_config": entry}))
        save(folder / "outer/model.safetensors", weight("a") | weight("b"))
        error = run("dequantize", folder / "outer", "--changed", "--tensors", "a.weight", "--out", folder / "no", code=2)
        assert "quantization_config" in error and "object" in error, error
    (source / "config.json").write_text("[1]")
    for words in (("quantize", source, "--scheme", "modelopt_nvfp4"), ("dequantize", folder / "outer")):
        if words[0] == "dequantize":
            (folder / "outer/config.json").write_text("[1]")
        error = run(*words, "--changed", "--out", folder / "no", code=2)
        assert "config.json" in error and "object" in error, error


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for check in (check_empty, check_index, check_companions, check_marks, check_odd_marks, check_groups, check_split, check_fp8_scales, check_places):
            if len(sys.argv) > 2 and check.__name__ not in sys.argv[2:]:
                continue
            folder = pathlib.Path(name) / check.__name__ / "m"
            folder.mkdir(parents=True)
            check(folder)
