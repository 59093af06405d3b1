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
    # One shard with an index keeps it: without one no engine looks for a file of that name.
    (folder / "model-2.safetensors").unlink()
    index.write_text(json.dumps({"weight_map": {"a.weight": "model-1.safetensors"}}))
    run("quantize", folder, "--scheme", "modelopt_nvfp4", "--out", folder.parent / "one", "--no-sync")
    written = json.loads((folder.parent / "one" / index.name).read_text())["weight_map"]
    assert written == {name: "model-1.safetensors" for name in load(folder.parent / "one/model-1.safetensors")}, written


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


def check_parts(folder):
    """One part of a model, or some of them, is none: refused by every command; all of them, as a folder or one by one, are read."""
    tensors = {f"l.{i}.up_proj.weight": values(16, 64) for i in range(3)}
    quantised = {i: weight(f"l.{i}.up_proj") for i in range(3)}
    series = {"model-{:05}-of-00003": (1, 2, 3), "model-{:05}-of-00002": (0, 1, 2), "x_{}-of-3": (0, 1, 2), "model.safetensors-{:05}-of-00003": (1, 2, 3)}
    commands = lambda path: (("inspect", path), ("compare", path, "--specs", "nvfp4"), ("dequantize", path, "--out", folder / "no", "--force"),
                             ("quantize", path, "--scheme", "modelopt_nvfp4", "--spec", "nvfp4", "--out", folder / "no", "--force"))
    for pattern, numbers in series.items():
        inside = folder / "m"
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir()
        files = [inside / (pattern.format(n) + ".safetensors") for n in numbers]
        for i, file in enumerate(files):
            save(file, quantised[i])
        for words in commands(inside):
            run(*words)
        for words in (("inspect", *files), ("compare", *files, "--specs", "nvfp4"), ("compare", f"{files[0]}:l.0.up_proj.weight", "--specs", "nvfp4")):
            run(*words)
        shutil.rmtree(folder / "no")
        several = (("inspect", *files[1:]), ("compare", *files[1:], "--specs", "nvfp4")) if "3" in pattern else ()  # 1 and 2 of 2 are all
        for words in commands(files[1]) + several:
            error = run(*words, code=2)
            assert "is part" in error and files[1].name in error and not (folder / "no").exists(), error
        files[1].unlink()
        for index in (None, {"weight_map": {f"l.{i}.up_proj.weight": files[i].name for i in (0, 2)}}):
            if index:
                (inside / "model.safetensors.index.json").write_text(json.dumps(index))
            for words in commands(inside):
                error = run(*words, code=2)
                assert f"part {numbers[1]} of" in error and "missing" in error and not (folder / "no").exists(), error
    # Names that only look so are no parts.
    for name in ("a-of-b", "1-of-", "-of-2", "x-1-of-0", "1-of-2-of"):
        save(folder / f"{name}.safetensors", tensors)
        run("inspect", folder / f"{name}.safetensors")
    # Parts of GGUF say it inside.
    parts = [folder / "g" / f"m-0000{i + 1}-of-00003.gguf" for i in range(3)]
    parts[0].parent.mkdir()
    for i, part in enumerate(parts):
        split_part(part, i, 3, 3, f"blk.{i}.ffn_up.weight")
    run("inspect", *parts)
    for words in (("inspect", parts[0].parent), ("compare", parts[0].parent, "--specs", "nvfp4")):
        run(*words)
    split_part(parts[2], 2, 3, 4, "blk.2.ffn_up.weight")
    assert "hold 3 tensors, split.tensors.count says 4" in run("inspect", parts[0].parent, code=2)
    for lost in (1, 0):
        parts[lost].unlink()
        for words in commands(parts[2]) + commands(parts[0].parent) + (("inspect", parts[2]),):
            error = run(*words, code=2)
            assert ("is part" in error or "missing" in error) and "of 3" in error and not (folder / "no").exists(), error


def check_links(folder):
    """A link that leads out of a model's folder is refused by name, whatever it is called; --follow-links takes what it leads to."""
    outside = folder / "home"
    outside.mkdir()
    (outside / "id").write_text("a key")
    save(outside / "blob", {"b.weight": values(16, 64)})
    (outside / "config.json").write_text("{}")
    (outside / "sub").mkdir()
    (outside / "sub/notes.txt").write_text("a key")

    def model():
        shutil.rmtree(folder / "m", ignore_errors=True)
        (folder / "m/assets").mkdir(parents=True)
        save(folder / "m/model.safetensors", {"a.weight": values(16, 64)} | weight("q"))
        (folder / "m/config.json").write_text("{}")
        (folder / "m/real.txt").write_text("mine")
        os.symlink("real.txt", folder / "m/alias.txt")  # stays inside
        return folder / "m"

    # name of the link, what it leads to, whether inspect and compare, which copy nothing, meet it
    forms = [("merges.txt", "../home/id", True), ("vocab.json", outside / "id", True), ("assets/logo.png", "../../home/id", False),
             ("assets/inner", outside / "sub", False), ("extra", "../home/sub", True), ("b.safetensors", "../home/blob", True),
             ("config.json", "../home/config.json", True), ("chain.txt", "chain2.txt", True), ("fp4sim.json", "../home/config.json", True),
             ("model.safetensors.index.json", "../home/config.json", True)]
    tried = 0
    for name, target, is_met in forms:
        source = model()
        if (source / name).exists():
            (source / name).unlink()
        os.symlink(target, source / name)
        if name == "chain.txt":
            os.symlink("../home/id", source / "chain2.txt")
        for words in (("quantize", source, "--scheme", "modelopt_nvfp4", "--out", folder / "no"), ("dequantize", source, "--out", folder / "no"),
                      *((("inspect", source), ("compare", source, "--specs", "nvfp4")) if is_met else ())):
            error = run(*words, code=2)
            assert name.replace("chain.txt", "chain") in error and "--follow-links" in error and "blobs" in error and not (folder / "no").exists(), error
            tried += 1
    assert tried == 36, tried
    # A file is read with what lies beside it.
    source = model()
    (source / "config.json").unlink()
    os.symlink("../home/config.json", source / "config.json")
    assert "config.json" in run("inspect", source / "model.safetensors", code=2)
    run("inspect", source / "model.safetensors", "--follow-links")
    # A folder of quantize is read by its own names, changed or not.
    np.save(folder / "x.npy", rng.standard_normal((16, 64)).astype(np.float32))
    run("quantize", folder / "x.npy", "--spec", "nvfp4", "--out", folder / "one", "--no-sync")
    shutil.move(folder / "one/codes.npy", outside / "codes.npy")
    os.symlink("../home/codes.npy", folder / "one/codes.npy")
    for words in ((), ("--changed",)):
        assert "leads out" in run("dequantize", folder / "one", *words, "--out", folder / "no.npy", code=1)
    # A Hugging Face cache: every file a link to ../../blobs.
    source, cache = model(), folder / "hub/models--m"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots/0").mkdir(parents=True)
    for i, name in enumerate(("model.safetensors", "config.json", "real.txt")):
        shutil.copy(source / name, cache / f"blobs/{i}")
        os.symlink(f"../../blobs/{i}", cache / "snapshots/0" / name)
    for words in (("inspect",), ("compare", "--specs", "nvfp4"), ("quantize", "--scheme", "modelopt_nvfp4", "--out", folder / "q"), ("dequantize", "--out", folder / "d")):
        words = words[0], cache / "snapshots/0", *words[1:]
        assert "--follow-links" in run(*words, code=2)
        run(*words, "--follow-links")
    for out in ("q", "d"):
        assert (folder / out / "real.txt").read_text() == "mine" and not (folder / out / "real.txt").is_symlink(), out
    # A link to a folder is named and not copied.
    os.symlink(outside / "sub", source / "assets/inner")
    told = notes("quantize", source, "--follow-links", "--scheme", "modelopt_nvfp4", "--out", folder / "q2", "--no-sync")
    assert "assets/inner/" in told and not (folder / "q2/assets").exists(), told


def check_mlx(folder):
    """Folders of MLX (python/mlx/nn/layers/quantized.py, mlx_lm/utils.py): words of eight codes, scales as bytes, the mode in config.json."""
    for mode, block, table in (("nvfp4", 16, UE4M3), ("mxfp4", 32, E8M0)):
        source = folder / mode
        source.mkdir()
        for shape in ((16, 64), (3, 16, 64)):
            codes = rng.integers(0, 256, (*shape[:-1], shape[-1] // 2), dtype=np.uint8)
            scales = rng.integers(100, 126, (*shape[:-1], shape[-1] // block), dtype=np.uint8)
            expected = decode(nibbles(codes), table[scales], block, 1)
            save(source / "model.safetensors", {"l.weight": ("I32", codes.view(np.uint32)), "l.scales": ("U8", scales), "n.bias": values(16)})
            raw = (source / "model.safetensors").read_bytes()
            (source / "model.safetensors").write_bytes(raw.replace(b'"I32"', b'"U32"'))
            for said in (mode, None, "affine"):
                entry = {"quantization": {"group_size": block, "bits": 4, "mode": said}} if said else {}
                (source / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **entry, "quantization_config": {"group_size": block}}))
                if said == "affine":
                    error = run("dequantize", source, "--out", folder / "no", code=2)
                    assert "l.weight" in error and "'affine'" in error, error
                    continue
                shutil.rmtree(folder / "d", ignore_errors=True)
                run("dequantize", source, "--out", folder / "d", "--no-sync")
                got = load(folder / "d/model.safetensors")
                assert np.array_equal(floats(got["l.weight"]), expected) and set(got) == {"l.weight", "n.bias"}
                config = json.loads((folder / "d/config.json").read_text())
                assert "quantization" not in config and "quantization_config" not in config, config
            (source / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
            rows = {r["tensor"]: r for r in json.loads(run("inspect", source, "--json"))["rows"]}
            assert rows["l.weight"]["scheme"] == f"mlx_{mode}" and rows["l.weight"]["shape"] == list(shape), rows
            # Written: words again, the same values as the preset gives, and the mode where mlx-lm looks for it.
            save(source / "model.safetensors", {"l.up_proj.weight": values(*shape[-2:]), "n.bias": values(16)})
            shutil.rmtree(folder / "q", ignore_errors=True)
            run("quantize", source, "--scheme", f"mlx_{mode}", "--out", folder / "q", "--no-sync")
            raw = (folder / "q/model.safetensors").read_bytes()
            assert json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["l.up_proj.weight"]["dtype"] == "U32"
            (folder / "q/model.safetensors").write_bytes(raw.replace(b'"U32"', b'"I32"'))
            got = load(folder / "q/model.safetensors")
            assert got["l.up_proj.weight"][1].shape == (16, 8) and got["l.up_proj.scales"] [1].shape == (16, 64 // block)
            whole = decode(nibbles(got["l.up_proj.weight"][1].view(np.uint8)), table[got["l.up_proj.scales"][1]], block, 1)
            np.save(folder / "x.npy", floats(load(source / "model.safetensors")["l.up_proj.weight"]))
            run("quantize", folder / "x.npy", "--spec", f"mlx_{mode}", "--out", folder / "x", "--no-sync", "--force")
            assert np.array_equal(whole, np.load(folder / "x/dequantized.npy"))
            config = json.loads((folder / "q/config.json").read_text())
            assert config["quantization"] == config["quantization_config"] == {"group_size": block, "bits": 4, "mode": mode}, config
            shutil.rmtree(source)
            source.mkdir()


def check_no_factor(folder):
    """Weights with a factor are quantised anew where a scheme has none, by their values."""
    given = weight("l.up_proj", factor=0.25)
    save(folder / "model.safetensors", given)
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    expected = decode(nibbles(given["l.up_proj.weight"][1]), UE4M3[given["l.up_proj.weight_scale"][1]], 16, np.float32(0.25))
    rows = json.loads(run("quantize", folder, "--scheme", "mlx_nvfp4", "--out", folder.parent / "q", "--no-sync", "--json"))["rows"]
    assert [r["outcome"] for r in rows] == ["quantised"], rows
    run("dequantize", folder.parent / "q", "--out", folder.parent / "d", "--no-sync")
    got = floats(load(folder.parent / "d/model.safetensors")["l.up_proj.weight"])
    assert np.square(got - expected).sum() < 0.02 * np.square(expected).sum()
    # A result in another scheme, by --force, leaves no description of the older one.
    (folder.parent / "q/hf_quant_config.json").write_text("{}")
    run("quantize", folder, "--scheme", "mlx_nvfp4", "--out", folder.parent / "q", "--no-sync", "--force")
    assert (folder.parent / "q/config.json").exists() and not (folder.parent / "q/hf_quant_config.json").exists()


def check_description(folder):
    """What stays FP4 stays described, where the description stood: hf_quant_config.json alone, or an entry of the language model."""
    save(folder / "m.safetensors", weight("l.up_proj") | weight("l.down_proj"))
    entry = {"quant_algo": "NVFP4", "group_size": 16}
    for inside, beside in (({}, entry), ({"quantization_config": None}, entry), ({"text_config": {"quantization_config": entry}}, None), ({"compression_config": {**entry, "ignore": ["h"]}}, entry)):
        shutil.rmtree(folder.parent / "d", ignore_errors=True)
        (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **inside}))
        (folder / "hf_quant_config.json").unlink(missing_ok=True)
        if beside:
            (folder / "hf_quant_config.json").write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": beside}))
        run("dequantize", folder, "--tensors", "l.up_proj.weight", "--out", folder.parent / "d", "--no-sync")
        config = json.loads((folder.parent / "d/config.json").read_text())
        expected = json.loads((folder / "config.json").read_text())
        for place, key in ((expected.get("text_config", {}), "quantization_config"), (expected, "compression_config")):
            if key in place:
                place[key].setdefault("ignore", []).append("l.up_proj")
        assert config == expected, config
        own = folder.parent / "d/hf_quant_config.json"
        assert own.exists() == bool(beside)
        if beside:
            expected = {"producer": {"name": "modelopt"}, "quantization": {**entry, "exclude_modules": ["l.up_proj"]}}
            assert json.loads(own.read_text()) == expected, own.read_text()


def check_beside(folder):
    """Weights of numbers that something beside them changes are refused before the work, and stay by --keep."""
    path = folder / "m.safetensors"
    for name, shape in (("pre_quant_scale", (64,)), ("lora_A.weight", (4, 64))):
        save(path, {"l.up_proj.weight": values(16, 64), "l.up_proj." + name: values(*shape), "l.down_proj.weight": values(16, 64)})
        words = "quantize", path, "--scheme", "modelopt_nvfp4", "--out", folder / "q", "--no-sync"
        error = run(*words, code=2)
        assert f"l.up_proj.{name}" in error and "--keep 'l.up_proj.weight'" in error and not (folder / "q").exists(), error
        run(*words, "--keep", "l.up_proj.weight", "--force")
        got = load(folder / "q/m.safetensors")
        assert got["l.up_proj.weight"][0] == "BF16" and got["l.down_proj.weight"][0] == "U8", got.keys()
        shutil.rmtree(folder / "q")


def check_names(folder):
    """A name that fnmatch reads as a pattern stands for itself."""
    save(folder / "m.safetensors", {"l.[x].up_proj.weight": values(16, 40), "l.y.up_proj.weight": values(16, 64)})
    words = "quantize", folder / "m.safetensors", "--scheme", "modelopt_nvfp4", "--out", folder / "q", "--no-sync"
    assert "--keep 'l.[x].up_proj.weight'" in run(*words, code=2)
    run(*words, "--keep", "l.[x].up_proj.weight")
    assert load(folder / "q/m.safetensors")["l.[x].up_proj.weight"][1].shape == (16, 40)


def check_wide_codes(folder):
    """A byte that is no code of four bits is not cut to one."""
    np.save(folder / "c.npy", np.array([[3] * 31 + [17]] * 2, np.uint8))
    words = "convert", folder / "c.npy", "--matrix", "2x32", "--nibbles", "unpacked:low_first", "--out", folder / "o.npy"
    assert "code 17 at row 0, column 31 has more than the 4 bits of low_first" in run(*words, code=2)
    assert not (folder / "o.npy").exists()


def mxfp4(name, k, rows=16, cols=64):
    """A weight of compressed-tensors whose scales are 2^k, k of shape [rows, cols/32] or a number."""
    codes = rng.integers(0, 256, (rows, cols // 2), dtype=np.uint8)
    scales = (np.zeros((rows, cols // 32), int) + k + 127).astype(np.uint8)
    return {f"{name}.weight_packed": ("U8", codes), f"{name}.weight_scale": ("U8", scales)}


def check_exact(folder):
    """MXFP4 to NVFP4 (Model-Optimizer, --cast_mxfp4_to_nvfp4): g = 2^(k_max - 8), scales 2^(k - k_max + 8), the same codes."""
    path = folder / "m.safetensors"
    e4m3_of_power = {p: next(c for c in range(127) if UE4M3[c] == np.float32(2.0**p)) for p in range(-9, 9)}
    k = rng.integers(-20, -2, (16, 2))
    k[0, 0], k[0, 1] = -3, -20  # all 18 powers of E4M3
    tensors = mxfp4("l.o_proj", k)
    codes, scales = (tensors[f"l.o_proj.weight_{part}"][1] for part in ("packed", "scale"))
    true = decode(nibbles(codes), E8M0[scales], 32, 1)
    save(path, tensors)
    for scheme, code_name, factor_name, said in (("modelopt_nvfp4", "weight", "weight_scale_2", 2.0**-11), ("compressed_tensors_nvfp4", "weight_packed", "weight_global_scale", 2.0**11)):
        for words in ((), ("--dry-run",)):
            told = notes("quantize", path, "--scheme", scheme, "--out", folder / scheme, "--no-sync", *words, *(("--force",) if not words else ()))
            assert "1 MXFP4 weights" in told and "without loss" in told, told
        got = load(folder / scheme / "m.safetensors")
        assert np.array_equal(got[f"l.o_proj.{code_name}"][1], codes) and float(floats(got[f"l.o_proj.{factor_name}"]).reshape(())) == said
        expected = np.repeat(np.vectorize(e4m3_of_power.get)(k + 11).astype(np.uint8), 2, -1)
        assert np.array_equal(got["l.o_proj.weight_scale"][1], expected)
        run("dequantize", folder / scheme, "--out", folder / "d", "--no-sync", "--force")
        assert np.array_equal(floats(load(folder / "d/m.safetensors")["l.o_proj.weight"]), true)
    # With words it is quantised anew.
    told = notes("quantize", path, "--scheme", "modelopt_nvfp4", "--spec", "nvfp4", "--out", folder / "w", "--no-sync")
    assert "without loss" not in told and not np.array_equal(load(folder / "w/m.safetensors")["l.o_proj.weight"][1], codes)
    # Weights that are joined share the factor of the largest.
    save(path, mxfp4("l.q_proj", -3) | mxfp4("l.k_proj", -12) | mxfp4("l.o_proj", -30))
    told = notes("quantize", path, "--scheme", "modelopt_nvfp4", "--out", folder / "s", "--no-sync")
    got = load(folder / "s/m.safetensors")
    assert "3 MXFP4 weights" in told and [float(floats(got[f"l.{n}_proj.weight_scale_2"])) for n in "qko"] == [2.0**-11, 2.0**-11, 2.0**-38], told
    # Zeros under any scale, NaN, factors at the ends of float32, and blocks too small, whose codes are rounded.
    rounds = lambda v, shift: min(range(8), key=lambda c: (abs(float(E2M1[c]) - float(E2M1[v]) * 2.0**-shift), c % 2))
    for top, gap in ((0, 18), (0, 19), (0, 21), (127, 20), (-119, 8), (-127, 0)):
        k = np.full((16, 2), top)
        k[3, 1], k[5, 0] = top - gap, max(-127, top - 40)
        tensors = mxfp4("l.o_proj", k)
        codes, scales = (tensors[f"l.o_proj.weight_{part}"][1] for part in ("packed", "scale"))
        codes[5, :16] &= 0x88
        scales[7, 0] = 255
        save(path, tensors)
        told = notes("quantize", path, "--scheme", "modelopt_nvfp4", "--out", folder / "r", "--no-sync", "--force")
        got = load(folder / "r/m.safetensors")
        expected = nibbles(codes).copy()
        if gap > 17:
            expected[3, 32:] = [rounds(c & 7, gap - 17) | c & 8 for c in expected[3, 32:]]
            true, near = (np.abs(E2M1[x]).astype(np.float64) * 2.0**(np.repeat(e, 32, -1).astype(float) - top) for x, e in ((nibbles(codes), k), (expected, np.maximum(k, top - 17))))
            whole = np.repeat(scales != 255, 32, -1)
            error = (((true - near)**2)[whole]).sum() / ((true**2)[whole]).sum()
            assert "1 of 30 blocks" in told and f"NMSE {error:.2g}" in told, (told, error)
        else:
            assert "without loss" in told, told
        assert np.array_equal(nibbles(got["l.o_proj.weight"][1]), expected), (top, gap)
        assert (got["l.o_proj.weight_scale"][1][7, :2] == 127).all() and float(floats(got["l.o_proj.weight_scale_2"])) == 2.0**max(top - 8, -126)
    # Schemes without a factor hold 2^-9 to 2^8; GGUF, MLX and gpt-oss are read.
    block = np.concatenate([rng.integers(118, 135, (16, 2, 1), dtype=np.uint8), rng.integers(0, 256, (16, 2, 16), dtype=np.uint8)], -1)
    for low in (118, 117):
        block[0, 0, 0] = low
        gguf(folder / "g.gguf", {"blk.0.ffn_up.weight": (39, (16, 64), block.tobytes())})
        told = notes("quantize", folder / "g.gguf", "--scheme", "ggml_nvfp4", "--out", folder / "g", "--no-sync", "--force")
        assert ("without loss" in told) == (low == 118), told
        true = decode(halves(block[..., 1:]).reshape(16, 64), E8M0[block[..., 0]], 32, 1)
        run("dequantize", folder / "g", "--out", folder / "dg", "--no-sync", "--force")
        assert np.array_equal(floats(load(folder / "dg/g.safetensors")["blk.0.ffn_up.weight"]), true) == (low == 118)
    experts = "l.mlp.experts.down_proj"
    blocks, scales = rng.integers(0, 256, (2, 32, 2, 16), dtype=np.uint8), rng.integers(110, 127, (2, 32, 2), dtype=np.uint8)
    save(path, {experts + "_blocks": ("U8", blocks), experts + "_scales": ("U8", scales)})
    told = notes("quantize", path, "--scheme", "modelopt_nvfp4", "--out", folder / "o", "--no-sync")
    assert "without loss" in told and any(np.array_equal(v[1], blocks.reshape(2, 32, 32)) for v in load(folder / "o/m.safetensors").values()), told


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
        for check in (check_empty, check_index, check_companions, check_marks, check_odd_marks, check_groups, check_split, check_parts, check_links, check_mlx, check_no_factor, check_names, check_description, check_beside, check_wide_codes, check_exact, check_fp8_scales, check_places):
            if len(sys.argv) > 2 and check.__name__ not in sys.argv[2:]:
                continue
            folder = pathlib.Path(name) / check.__name__ / "m"
            folder.mkdir(parents=True)
            check(folder)
