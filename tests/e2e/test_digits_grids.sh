#!/bin/bash
# Real pictures of different sizes, two a sample, as Qwen3-VL takes them: grids of patches between its marks, rows
# handed to blocks of the language model, positions over height and width. The counts of data check are those that
# the sizes give, and at least 90 % of held-out questions are answered correctly after a short training from random
# weights.
. "$(dirname "$0")/../support/e2e.sh"
export CORNSTARCH_BIN=$bin
( . "$root/tests/e2e/tools/oracle_venv.sh"
  oracle_venv digits scikit-learn
  "$venv/bin/python" "$root/tests/e2e/digits.py" pairs pairs ) || exit $?
"$C" model init "$root/lua/examples/shapes-llm.json" llm --text pairs/text.txt --vocab 320 >/dev/null
python3 "$root/tests/e2e/tools/tiny_qwen3_vl.py" llm pairs/model

"$C" data check "$root/tests/e2e/digits_grids.lua" --json >check.json
python3 - <<'PY' || fail "data check counts other items"
import json, struct

# sides of 32 to 56 in steps of 8 are whole groups of 2 x 2 patches of 4: nothing is resized
for row, name in zip(json.load(open("check.json"))["sets"], ("train", "test")):
    n = rows = 0
    for sample in json.load(open(f"pairs/{name}.json")):
        for file in sample["images"]:
            width, height = struct.unpack(">II", open(f"pairs/images/{file}", "rb").read(24)[16:])
            n, rows = n + 1, rows + width // 8 * (height // 8)
    seen = row["encoders"][0]
    assert row["bad"] == 0 and seen["items"] == n and seen["rows"] == rows, (row, n, rows)
PY

"$C" run --plain "$root/tests/e2e/digits_grids.lua" >report || fail "exit $?: $(tail -n 5 report)"
id=$("$C" jobs --json | field jobs.0.id)
got=$(job "$id" exact_match)
python3 -c 'import sys; sys.exit(not float(sys.argv[1]) >= 0.90)' "$got" || fail "held-out exact match $got"
echo "ok: exact match $got of held-out pairs"
