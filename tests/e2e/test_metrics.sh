#!/bin/bash
# What the steps of a job say, as others read it: chosen columns, the last steps, CSV, JSON lines, following a job that
# runs, event files of TensorBoard (read here, and by TensorBoard where it is installed).
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
write_job job.lua vision=1 llm=1 steps=12 name='"steps"' \
  eval='{ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 6, max_samples = 8 }'
id=$(submit job.lua)
timeout "$LIMIT_S" "$C" metrics "$id" --follow --lines >followed || fail "following ends with $?"
[ "$(job "$id" state)" = DONE ] || fail "following ended before the job, which is $(job "$id" state)"

# --- the same rows in every form, each once
"$C" metrics "$id" --json >all.json
"$C" metrics "$id" --lines >all.lines
"$C" metrics "$id" --csv >all.csv
"$C" metrics "$id" --columns step,kind,loss,tokens_per_s,step_ms --csv >some.csv
python3 - <<'PY' || fail "forms of one history differ"
import csv, json, math
doc = json.load(open("all.json"))
rows = [{k: v for k, v in zip(doc["columns"], row) if v is not None} for row in doc["rows"]]
key = lambda r: (int(r["step"]), r["kind"])
assert len(rows) == 14 and [key(r) for r in rows].count((5, "eval")) == 1, [key(r) for r in rows]
assert [json.loads(line) for line in open("all.lines")] == rows
followed = [json.loads(line) for line in open("followed")]
assert sorted(followed, key=key) == sorted(rows, key=key), "following lost rows or told them twice"
table = list(csv.DictReader(open("all.csv")))
assert [key(r) for r in table] == [key(r) for r in rows]
for csv_row, row in zip(table, rows):
    assert math.isclose(float(csv_row["loss"]), row["loss"], rel_tol=1e-5)
    if row["kind"] == "train":
        speed = row.get("tokens", row["trained_tokens"]) * 1e3 / row["step_ms"]
        assert math.isclose(float(csv_row["tokens_per_s"]), speed, rel_tol=1e-5)
    else:
        assert csv_row["grad_norm"] == "" and 0 <= float(csv_row["exact_match"]) <= 1
assert [list(r) for r in csv.reader(open("some.csv"))][0] == ["step", "kind", "loss", "tokens_per_s", "step_ms"]
PY
"$C" metrics "$id" --last 3 --columns step,loss >last.txt
[ "$(awk 'NR > 1 { print $1 }' last.txt | sort -nu | tr '\n' ' ')" = "9 10 11 " ] || fail "last steps: $(cat last.txt)"
[ "$("$C" metrics "$id" --limit 5 --lines | wc -l)" = 5 ] || fail "a limit of 5 rows"

# --- as a table in a terminal: figures are whole at every width, the most important ones are there
for width in 60 80 100 200; do
  script -qec "stty cols $width; '$C' metrics $id" /dev/null | tr -d '\r' >"table.$width"
done
python3 - <<'PY' || fail "a table: $(cat table.100)"
import json, math
rows = [json.loads(line) for line in open("all.lines")]
for width, most in ((60, 6), (80, 8), (100, 10), (200, 99)):
    lines = open(f"table.{width}").read().splitlines()
    titles = lines[0].split()
    assert titles[:3] == ["step", "kind", "loss"] and 4 <= len(titles) <= most, titles
    assert max(map(len, lines)) <= width and len(lines) == len(rows) + 1
    for line, row in zip(lines[1:], rows):
        cells = dict(zip(titles, line.split()))
        assert len(line.split()) == len(titles) and int(cells["step"]) == row["step"] and cells["kind"] == row["kind"]
        assert math.isclose(float(cells["loss"]), row["loss"], rel_tol=1e-5), line
assert {"tokens_per_s", "mfu", "bubble", "memory_gib"} < set(titles) and "power_w" not in titles, titles
PY
"$C" metrics "$id" --columns parts | grep -qE ', \.\.\.|^[a-z]+ [0-9.e-]+(, [a-z]+ [0-9.e-]+)*$' || fail 'parts of a step as text'

"$C" logs "$id" >said && grep -q 'state=RUN$' said || fail "a state before the first step: $(grep state= said)"

# --- what a step's time was made of: parts of a rank's time, busy shares as the bubbles have them, FLOPs counted here
python3 - "$jobs/$id/journal" <<'PY' || fail "parts of a step"
import json, math, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
rows = [r for r in rows if r["type"] == "runner.step" and r["kind"] == "train"]
assert len(rows) == 12
for r in rows:
    ms, parts = r["makespan_ns"] / 1e6, r["parts"]
    assert all(v >= 0 for v in parts.values()) and parts["forward"] > 0 and parts["backward"] > 0, parts
    assert math.isclose(sum(parts.values()), ms, rel_tol=0.02), (parts, ms)
    assert sorted(r["modules"]) == ["llm", "vision"]
    for stage, bubble in zip(("vision", "llm"), r["stage_bubble"]):
        assert math.isclose(r["modules"][stage]["busy"], 1 - bubble, abs_tol=1e-6)
    # both modules run on one rank each: the whole is the mean of the two
    assert math.isclose(r["mfu"], sum(m["mfu"] for m in r["modules"].values()) / 2, rel_tol=1e-9)
    assert 0 < r["mfu"] < 1 and 1 << 20 < r["mem_bytes"] < 1 << 36, r

# FLOPs counted here from the configurations: products of matrices and attention, forward once, backward twice (what
# nothing trains before: once); a CPU rank is planned with 50 GFLOP/s
t, v = (json.load(open(f"data/{name}/config.json")) for name in ("llm", "vision"))
h, width = t["hidden_size"], t["num_attention_heads"] * t["head_dim"]
patches = (v["image_size"] // v["patch_size"]) ** 2

def llm(tokens, labels, seq=512):
    mixer = h * (width + 2 * t["num_key_value_heads"] * t["head_dim"]) + width * h
    mlp, attention = 3 * h * t["intermediate_size"], 4 * (seq + 1) / 2 * width
    blocks = t["num_hidden_layers"]  # the MLP of the last one looks at rows with a label, as the head does
    rows = tokens * (blocks * (2 * mixer + attention) + (blocks - 1) * 2 * mlp)
    return 3 * (rows + 2 * labels * (mlp + t["vocab_size"] * h))

def vision(pictures):
    w, rows = v["hidden_size"], pictures * patches
    block = 4 * w * w + 2 * w * v["intermediate_size"]
    first, projector = 2 * rows * 3 * v["patch_size"] ** 2 * w, 2 * rows * (w * h + h * h)
    return 3 * v["num_hidden_layers"] * rows * (2 * block + 4 * patches * w) + 2 * first + 3 * projector

for r in rows:
    counted = {"llm": llm(r["tokens"], r["trained_tokens"]), "vision": vision(r["samples"])}
    for module, flops in counted.items():
        assert math.isclose(r["modules"][module]["mfu"] * r["makespan_ns"] * 50, flops, rel_tol=1e-9), (module, flops)
PY
"$C" metrics "$id" --columns step_ms/forward,mfu/llm,memory_gib --csv --last 1 | sed -n 2p |
  grep -Eq '^[0-9.]+,[0-9.e-]+,[0-9.]+$' || fail "members as columns"

# --- what cannot be is refused
expect_rc 1 "$C" metrics "$id" --columns step,speed
expect_text 'no column "speed"'
expect_text tokens_per_s
expect_rc 1 "$C" metrics "$id" --csv --lines
expect_rc 1 "$C" metrics "$id" --json --follow
expect_rc 1 "$C" metrics "$id" --last 3 --after 2

# --- event files: every value of every row, again in place of the first ones
for round in 1 2; do
  "$C" metrics "$id" --tensorboard board/one >said || fail "$(cat said)"
  [ "$(find board -name 'events.out.tfevents.*' | wc -l)" = 2 ] || fail "files: $(find board -type f)"
done
cat >check_board.py <<'PY'
import glob, json, math, sys
sys.path.insert(0, sys.argv[1])
from tfevents import values
doc = json.load(open("all.json"))
rows = [{k: v for k, v in zip(doc["columns"], row) if v is not None} for row in doc["rows"]]
found = {}
for split in ("train", "eval"):
    (path,) = glob.glob(f"board/one/{split}/events.out.tfevents.*")
    for step, wall, tag, value in values(path):
        assert (split, step, tag) not in found
        found[split, step, tag] = (wall, value)
for row in rows:
    for tag in ("loss", "grad_norm", "lr", "step_ms"):
        if tag in row:
            wall, value = found[row["kind"], row["step"], tag]
            assert math.isclose(value, row[tag], rel_tol=1e-6), (tag, value, row[tag])
            assert abs(wall - row["wall_ns"] / 1e9) < 1e-3
assert len([k for k in found if k[0] == "train" and k[2] == "loss"]) == 12
assert len([k for k in found if k[0] == "eval" and k[2] == "exact_match"]) == 2
PY
python3 check_board.py "$root/tests/e2e" || fail "event files do not hold the rows"
cat >with_tensorboard.py <<'PY'
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import json, math
doc = json.load(open("all.json"))
rows = [{k: v for k, v in zip(doc["columns"], row) if v is not None} for row in doc["rows"]]
for split in ("train", "eval"):
    board = EventAccumulator(f"board/one/{split}")
    board.Reload()
    want = [(r["step"], r["loss"]) for r in rows if r["kind"] == split]
    got = [(e.step, e.value) for e in board.Scalars("loss")]
    assert [s for s, _ in want] == [s for s, _ in got], got
    assert all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(want, got))
PY
for python in ${CORNSTARCH_PYTHON:-} python3; do
  "$python" -c 'import tensorboard' 2>/dev/null || continue
  "$python" with_tensorboard.py || fail "TensorBoard reads something else"
  echo "read by TensorBoard, too"
  break
done

# --- event files of a job that asks for them, written while it runs, through a pause: what TensorBoard shows of them
# (a later file supersedes from its first step on) is what the history says
cat >board_job.py <<'PY'
import glob, json, math, sys
sys.path.insert(0, sys.argv[1])
from tfevents import fields, records, values
rows = [json.loads(line) for line in open("live.lines")]
shown = {}
for split in ("train", "eval"):
    paths = sorted(glob.glob(f"live/{split}/events.out.tfevents.*"))
    assert len(paths) == (int(sys.argv[2]) if split == "train" else len(paths)) and paths, paths
    for path in paths:
        for event in map(lambda record: dict(fields(record)), records(open(path, "rb").read())):
            if 7 in event: # a session begins
                shown = {k: v for k, v in shown.items() if k[0] != split or k[1] < event.get(2, 0)}
        for step, wall, tag, value in values(path):
            shown[split, step, tag] = value
want = {(r["kind"], r["step"], tag): r[tag] for r in rows for tag in ("loss", "grad_norm", "step_ms") if tag in r}
got = {k: v for k, v in shown.items() if k[2] in ("loss", "grad_norm", "step_ms")}
assert sorted(want) == sorted(got), sorted(set(want) ^ set(got))
for key, value in want.items():
    assert math.isclose(value, got[key], rel_tol=1e-6), (key, value, got[key])
PY
write_job live.lua vision=1 llm=1 steps=400 name='"live", tensorboard = "live"' \
  eval='{ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 150, max_samples = 4 }'
id=$(submit live.lua)
wait_step "$id" 3
has_events() { [ -n "$(find live/train -name 'events.out.tfevents.*' -size +1k 2>/dev/null)" ]; }
until_true "event files while the job runs" has_events
"$C" pause "$id" >said || fail "$(cat said)"
wait_state "$id" PAUSED
"$C" resume "$id" >said || fail "$(cat said)"
"$C" wait "$id" >said || fail "$(cat said)"
"$C" metrics "$id" --lines >live.lines
python3 board_job.py "$root/tests/e2e" 2 || fail "live event files do not hold the rows"

# --- a directory that cannot be is refused before anything is submitted
touch taken
write_job taken.lua vision=1 llm=1 steps=2 name='"taken", tensorboard = "taken/board"'
expect_rc 3 "$C" submit taken.lua
expect_text tensorboard
