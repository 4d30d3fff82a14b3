#!/usr/bin/env python3
"""Write shards.json: small Parquet files (pyarrow 26) and tar archives (Python's tarfile) in base64, and what is in
them.

    python3 tests/golden/make_shards.py > tests/golden/shards.json

`parquet`: all hold the rows of `rows`; bytes stand there as {"hex": ...}. `tar`: all hold the samples of `samples`:
the turns' texts, the names and bytes of the media."""
import base64
import io
import json
import random
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq

r = random.Random(16)


def some(f, p=0.25):
    return None if r.random() < p else f()


def text():
    return "".join(r.choice(["a", "\u00e9", "\u65e5", "\n", " ", "word"]) for _ in range(r.randrange(8)))


def blob():
    return bytes(r.randrange(256) for _ in range(r.randrange(20)))


def many(f, n=4):
    return [f() for _ in range(r.randrange(n))]


image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
part = pa.struct([("type", pa.string()), ("text", pa.string())])
turn = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
columns = {
    "whole": (pa.int32(), lambda: some(lambda: r.randrange(-2**31, 2**31))),
    "long": (pa.int64(), lambda: r.randrange(-2**63, 2**63)),
    "real": (pa.float32(), lambda: some(lambda: r.choice([0.5, -1.25, 3.0]))),
    "double": (pa.float64(), lambda: some(lambda: r.choice([0.5, -1.25, 3.0]))),
    "flag": (pa.bool_(), lambda: some(lambda: r.random() < 0.5)),
    "text": (pa.string(), lambda: some(text)),
    "word": (pa.string(), lambda: r.choice(["x", "yy"])),
    "fixed": (pa.binary(3), lambda: bytes(r.randrange(256) for _ in range(3))),
    "image": (image, lambda: some(lambda: {"bytes": some(blob), "path": some(text)})),
    "images": (pa.list_(image), lambda: some(lambda: many(lambda: some(lambda: {"bytes": blob(), "path": None})))),
    "messages": (pa.list_(turn), lambda: many(lambda: {"role": text(), "content": some(
        lambda: many(lambda: {"type": "t", "text": some(text)}))})),
    "nested": (pa.list_(pa.list_(pa.int32())), lambda: some(lambda: many(lambda: some(lambda: many(lambda: some(
        lambda: r.randrange(9))))))),
}
n = 40
table = pa.table({k: pa.array([make() for _ in range(n)], kind) for k, (kind, make) in columns.items()})
delta = {"whole": "DELTA_BINARY_PACKED", "long": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY",
         "word": "DELTA_LENGTH_BYTE_ARRAY", "flag": "RLE"}
ways = {
    "snappy, dictionaries": {"compression": "snappy"},
    "zstd, second kind of pages": {"compression": "zstd", "data_page_version": "2.0"},
    "gzip, row groups": {"compression": "gzip", "row_group_size": 13},
    "not packed, small pages": {"compression": "NONE", "data_page_size": 60, "write_batch_size": 3,
                                "use_dictionary": False},
    "small pages of the second kind": {"compression": "snappy", "data_page_size": 60, "write_batch_size": 3,
                                       "data_page_version": "2.0"},
    "differences": {"compression": "snappy", "use_dictionary": False, "column_encoding": delta},
}
refused = {"brotli": ({"compression": "brotli"}, "Brotli"), "lz4": ({"compression": "lz4"}, "LZ4"),
           "split bytes": ({"compression": "NONE", "use_dictionary": False,
                            "column_encoding": {"real": "BYTE_STREAM_SPLIT"}}, "encoding 9")}


def write(options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return base64.b64encode(out.getvalue()).decode()


def plain(v):
    if isinstance(v, bytes):
        return {"hex": v.hex()}
    if isinstance(v, list):
        return [plain(x) for x in v]
    return {k: plain(x) for k, x in v.items()} if isinstance(v, dict) else v


turns = {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}
long = "folder/" * 15 + "long" * 15
samples = [  # key, files
    ("000", {"jpg": b"picture 0", "json": json.dumps(turns).encode()}),
    ("001", {"txt": b"a\n", "png": b"picture 1"}),
    (long, {"json": json.dumps(turns["conversations"]).encode(), "0.jpg": b"first", "1.JPG": b"second"}),
    ("a.b/002", {"json": json.dumps({**turns, "image": "002.webp"}).encode(), "webp": b"picture 2"}),
]
contents = [
    {"id": key, "question": "" if "txt" in files else "q", "answer": "a",
     "media": [base64.b64encode(b).decode() for e, b in files.items() if e not in ("json", "txt")]}
    for key, files in samples]


def tar(kind):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as t:
        for key, files in samples:
            for end, data in files.items():
                info = tarfile.TarInfo(key + "." + end)
                info.size = len(data)
                if kind == tarfile.PAX_FORMAT:
                    info.pax_headers = {"mtime": "1.5", "comment": "x" * 30}
                t.addfile(info, io.BytesIO(data))
    return base64.b64encode(out.getvalue()).decode()


print(json.dumps({
    "rows": [plain(row) for row in table.to_pylist()],
    "parquet": [{"name": k, "file": write(o)} for k, o in ways.items()],
    "refused": [{"name": k, "file": write(o), "why": why} for k, (o, why) in refused.items()],
    "samples": contents,
    "tar": [{"name": k, "file": tar(v)} for k, v in
            {"ustar": tarfile.USTAR_FORMAT, "GNU": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}.items()],
}, separators=(",", ":")))
