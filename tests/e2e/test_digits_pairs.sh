#!/bin/bash
# Real pictures of different sizes, two a sample: each becomes as many tiles as its shape asks for. The counts of
# data check are those that the sizes give, and at least 90 % of held-out questions about one of the two digits are
# answered correctly after a short training from random weights.
[ -n "${CORNSTARCH_LONG:-}" ] || { echo "skipped: runs with --long"; exit 77; }
. "$(dirname "$0")/../support/e2e.sh"
export CORNSTARCH_BIN=$bin
( . "$root/tests/e2e/tools/oracle_venv.sh"
  oracle_venv digits scikit-learn
  "$venv/bin/python" "$root/tests/e2e/digits.py" pairs pairs ) || exit $?
sed 's/"patch_size": 4/"patch_size": 8/' "$root/lua/examples/shapes-vision.json" >vision.json
"$C" model init vision.json pairs/vision --seed 1 >/dev/null
"$C" model init "$root/lua/examples/shapes-llm.json" pairs/llm --seed 2 --text pairs/text.txt --vocab 320 >/dev/null
cat >pairs/vision/preprocessor_config.json <<'JSON'
{"image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 32, "width": 32}, "crop_to_patches": true,
 "min_patches": 1, "max_patches": 3, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
JSON

"$C" data check "$root/tests/e2e/digits_pairs.lua" --json >check.json
python3 - <<'PY' || fail "data check counts other items"
import json, struct

# transformers' get_optimal_tiled_canvas for 1 to 3 tiles of 32 x 32, and the whole beside several
grids = sorted({(w, h) for n in range(1, 4) for w in range(1, n + 1) for h in range(1, n + 1) if 1 <= w * h <= 3},
               key=lambda g: g[0] * g[1])

def items(width, height):
    best, least = (1, 1), float("inf")
    for w, h in grids:
        off = abs(width / height - w / h)
        if off < least or (off == least and width * height > 0.5 * 32 * 32 * w * h):
            best, least = (w, h), off
    n = best[0] * best[1]
    return n + (n > 1)

sizes = set()
for row, name in zip(json.load(open("check.json"))["sets"], ("train", "test")):
    n = 0
    for sample in json.load(open(f"pairs/{name}.json")):
        for file in sample["images"]:
            size = struct.unpack(">II", open(f"pairs/images/{file}", "rb").read(24)[16:])
            sizes.add(size)
            n += items(*size)
    seen = row["encoders"][0]
    assert row["bad"] == 0 and seen["items"] == n and seen["rows"] == 16 * n, (row, n)
    assert seen["files"] == 2 * row["samples"]
assert len(sizes) == 16
PY

"$C" run --plain "$root/tests/e2e/digits_pairs.lua" >report || fail "exit $?: $(tail -n 5 report)"
id=$("$C" jobs --json | field jobs.0.id)
got=$(job "$id" exact_match)
python3 -c 'import sys; sys.exit(not float(sys.argv[1]) >= 0.90)' "$got" || fail "held-out exact match $got"
echo "ok: exact match $got of held-out pairs"
