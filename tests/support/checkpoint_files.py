"""Files of checkpoints, written and read by numpy, and their decoding from the formats' own documents; no product code.

Programs that import this are called with the path of fp4sim.
"""
import json
import pathlib
import struct
import subprocess
import sys

import numpy as np

FP4SIM = sys.argv[1]
rng = np.random.default_rng(20261123)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
UE4M3 = np.array([np.nan if c == 127 else (c & 7) * 2.0**-9 if c < 8 else (1 + (c & 7) / 8) * 2.0 ** ((c >> 3) - 7)
                  for c in range(128)], np.float32)
E8M0 = np.array([2.0 ** (c - 127) for c in range(255)] + [np.nan], np.float32)
WIDTH = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I32": 4, "F4": 0.5}


def run(*words, code=0):
    done = subprocess.run([FP4SIM, *map(str, words)], capture_output=True, text=True, errors="surrogateescape")
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done.stdout if code == 0 else done.stderr


def save(path, tensors, metadata=None):
    """name -> (type, array), of F4 the bytes; the header counts its elements."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, array) in tensors.items():
        array = np.asarray(array)
        raw = np.ascontiguousarray(array).tobytes()
        shape = list(array.shape)
        if dtype == "F4":
            shape[-1] *= 2
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        a, b = t["data_offsets"]
        assert b - a == WIDTH[t["dtype"]] * int(np.prod(t["shape"])), (name, t)
        kind = {4: np.uint32, 2: np.uint16, 1: np.uint8, 0.5: np.uint8}[WIDTH[t["dtype"]]]
        shape = t["shape"][:-1] + [t["shape"][-1] // 2] if t["dtype"] == "F4" else t["shape"]
        out[name] = (t["dtype"], np.frombuffer(raw[8 + size + a:8 + size + b], kind).reshape(shape))
    return out


def nibbles(packed):  # the even column in the low nibble
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


def decode(codes, scales, block, g):  # codes one by one [rows, K], scales as numbers [rows, K/block]: ggml, MX
    with np.errstate(invalid="ignore"):
        return (E2M1[codes] * np.repeat(scales, block, -1)).astype(np.float32) * np.float32(g)


def decode_modelopt(codes, scales, g):  # q * (s * g): Model-Optimizer, vLLM, torchao
    with np.errstate(invalid="ignore"):
        factor = (scales * np.asarray(g, np.float32)).astype(np.float32)
        return (E2M1[codes] * np.repeat(factor, 16, -1)).astype(np.float32)


def decode_compressed_tensors(codes, scales, s):  # q * (scale / S)
    with np.errstate(invalid="ignore"):
        factor = (scales / np.asarray(s, np.float32)).astype(np.float32)
        return (E2M1[codes] * np.repeat(factor, 16, -1)).astype(np.float32)


def bf16(x):  # nearest even
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def floats(entry):
    dtype, array = entry
    return array.view(np.float32) if dtype == "F32" else (array.astype(np.uint32) << 16).view(np.float32)


def gguf(path, tensors, alignment=64, architecture="made-up"):
    """tensors: name -> (type number, shape slowest first, bytes)."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 4))
    head += text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    head += text("general.alignment") + struct.pack("<II", 4, alignment)
    head += text("tokens") + struct.pack("<IIQ", 9, 8, 3) + text("a") + text("bc") + text("")
    head += text("rates") + struct.pack("<IIQ", 9, 6, 2) + struct.pack("<ff", 1, 2)
    data = bytearray()
    for name, (kind, shape, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += raw + bytes(-len(raw) % alignment)
    path.write_bytes(head + bytes(-len(head) % alignment) + data)


def halves(qs):  # element j in the low nibble of byte j, element j + half in its high one
    return np.concatenate([qs & 15, qs >> 4], -1)


def split_halves(codes):  # the way back: n codes one by one to n/2 bytes
    half = codes.shape[-1] // 2
    return codes[..., :half] | codes[..., half:] << 4


def load_gguf(path):
    """name -> (type number, shape slowest first, bytes), and the entries as they stand in the file."""
    raw = path.read_bytes()
    assert raw[:8] == b"GGUF" + struct.pack("<I", 3), raw[:8]
    count, entries = struct.unpack("<QQ", raw[8:24])
    at, alignment = 24, 32

    def text():
        nonlocal at
        size = struct.unpack("<Q", raw[at:at + 8])[0]
        at += 8 + size
        return raw[at - size:at].decode()

    for _ in range(entries):
        key, kind = text(), struct.unpack("<I", raw[at:at + 4])[0]
        at += 4
        if kind == 8:
            text()
        elif kind == 9:
            item, n = struct.unpack("<IQ", raw[at:at + 12])
            at += 12
            if item == 8:
                for _ in range(n):
                    text()
            else:
                at += 4 * n
        else:
            alignment = struct.unpack("<I", raw[at:at + 4])[0] if key == "general.alignment" else alignment
            at += 4
    head, listed = raw[24:at], []
    for _ in range(count):
        name, axes = text(), struct.unpack("<I", raw[at:at + 4])[0]
        shape = struct.unpack(f"<{axes}Q", raw[at + 4:at + 4 + 8 * axes])[::-1]
        kind, offset = struct.unpack("<IQ", raw[at + 4 + 8 * axes:at + 16 + 8 * axes])
        at += 16 + 8 * axes
        assert offset % alignment == 0, name
        listed.append((name, kind, shape, offset))
    data = (at + alignment - 1) // alignment * alignment
    size = {0: (1, 4), 1: (1, 2), 14: (256, 210), 26: (1, 4), 30: (1, 2), 39: (32, 17), 40: (64, 36)}
    out, end = {}, data
    for name, kind, shape, offset in listed:
        block, width = size[kind]
        end = data + offset + int(np.prod(shape)) // block * width
        out[name] = (kind, shape, raw[data + offset:end])
    assert (end + alignment - 1) // alignment * alignment == len(raw)
    return out, head
