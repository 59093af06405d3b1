"""What tests/old holds of earlier versions, put into a folder: old_version.py FILE.json; and how it is read again."""
import base64
import hashlib
import json
import os
import sqlite3
import struct
import sys
import zlib


def unpack(given):
    """The files of a version in the folder where this is called."""
    for path, content in given["files"].items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as f:
            f.write(content["text"].encode() if "text" in content else zlib.decompress(base64.b64decode(content["zlib"])))
    for path, lines in given["stores"].items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        sqlite3.connect(path).executescript("\n".join(lines))


def decoded_hash(folder):
    """SHA-256 of the tensors of a folder's .safetensors, in the order of their names."""
    with open(os.path.join(folder, next(name for name in sorted(os.listdir(folder)) if name.endswith(".safetensors"))), "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    found = hashlib.sha256()
    for name, entry in sorted(json.loads(data[8:8 + size]).items()):
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found.update(data[8 + size + begin:8 + size + end])
    return found.hexdigest()


def step(model):
    """A step of the training that tests/support/keep_version.py began."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.03125)
    optimizer.zero_grad()
    x = torch.arange(-256, 256, dtype=torch.float32).reshape(16, 32)
    (model(x / 128) * torch.arange(1, 9) / 32).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    if sys.argv[1] == "hash":
        print(decoded_hash(sys.argv[2]))
    else:
        with open(sys.argv[1], encoding="utf-8") as f:
            unpack(json.load(f))
