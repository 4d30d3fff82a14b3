"""What the end-to-end tests read from a job directory: jobs.py COMMAND ARGS.

  field PATH                  a value of the JSON on standard input; empty when null or absent
  rows DIR [FROM [TO]]        step, loss and gradient norm of the training steps, all digits
  counts DIR                  step, slots, messages and bytes sent
  weights DIR [GLOB]          name and hash of the parameters at the end
  copies DIR                  number of second copies of a tied embedding at the end; fails where one differs
  tensors DIR MODULE          name and XXH3 of every tensor of a model directory, named as in `weights`
"""
import ctypes
import ctypes.util
import fnmatch
import json
import os
import struct
import sys


def journal_rows(folder, kind="train"):
    """Last row of every step: what was repeated after a restart counts once."""
    rows = {}
    with open(os.path.join(folder, "journal"), "rb") as f:
        for line in f:
            if not line.endswith(b"\n"):
                break  # torn by a kill
            row = json.loads(line)
            if row["type"] == "runner.step" and row.get("kind") == kind:
                rows[row["step"]] = row
    return [rows[k] for k in sorted(rows)]


def field(path):
    value = json.load(sys.stdin)
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = (value or {}).get(key)
    print("" if value is None else value if isinstance(value, (str, int)) else repr(value))


def rows(folder, first="0", last="1000000000"):
    for row in journal_rows(folder):
        if int(first) <= row["step"] <= int(last):
            for key in ("loss", "grad_norm"):
                if not isinstance(row[key], float) or not 0 < row[key] < 1e9:
                    sys.exit(f"{folder}: step {row['step']} has {key} {row[key]!r}")
            print(row["step"], repr(row["loss"]), repr(row["grad_norm"]), row["trained_tokens"])


def counts(folder):
    for row in journal_rows(folder):
        print(row["step"], row["slots"], row["messages_sent"], row["bytes_sent"])


def weights(folder, glob="*"):
    with open(os.path.join(folder, "weights.json"), encoding="utf-8") as f:
        doc = json.load(f)
    for name in sorted(doc["xxh3"]):
        if fnmatch.fnmatchcase(name, glob):
            print(name, doc["xxh3"][name])


def copies(folder):
    with open(os.path.join(folder, "weights.json"), encoding="utf-8") as f:
        doc = json.load(f)
    copies = doc.get("copies", {})
    for name, digest in copies.items():
        if digest != doc["xxh3"][name]:
            sys.exit(f"{name}: {doc['xxh3'][name]} and {digest}")
    print(len(copies))


class Digest(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def tensors(folder, module):
    lib = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    lib.XXH3_128bits.restype = Digest
    lib.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    head.pop("__metadata__", None)
    for name in sorted(head):
        first, last = head[name]["data_offsets"]
        digest = lib.XXH3_128bits(body[first:last], last - first)
        print(f"{module}/{name} {digest.high:016x}{digest.low:016x}")


if __name__ == "__main__":
    {f.__name__: f for f in (field, rows, counts, weights, copies, tensors)}[sys.argv[1]](*sys.argv[2:])
