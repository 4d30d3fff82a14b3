# Jobs in other layouts beside one: sourced behind e2e.sh.
compared=0

# losses and norms of job $2 within 1e-4 of those of job $1, evaluations within 1e-3: sums are made in another order
near() {
  python3 - "$jobs/$1/journal" "$jobs/$2/journal" "${4:-0}" <<'PY' || fail "$3: differs from one rank"
import json, math, sys
def rows(path, kind):
    found = (json.loads(line) for line in open(path) if line.endswith("\n"))
    return {r["step"]: r for r in found if r["type"] == "runner.step" and r.get("kind", "train") == kind}
def off(a, b):
    assert math.isfinite(a) and math.isfinite(b), (a, b)
    return abs(a - b) / max(abs(a), 1e-3)
one, two = (rows(path, "train") for path in sys.argv[1:3])
assert sorted(two) == list(range(len(two))) and 9 < len(two) <= len(one), (sorted(one), sorted(two))
for step in two:
    for key in ("loss", "grad_norm"):
        worst = off(one[step][key], two[step][key])
        assert worst <= 1e-4, (step, key, one[step][key], two[step][key])
    assert one[step]["trained_tokens"] == two[step]["trained_tokens"], step
one, two = (rows(path, "eval") for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and len(one) == int(sys.argv[3]), (sorted(one), sorted(two))
for step in one:
    assert off(one[step]["loss"], two[step]["loss"]) <= 1e-3, step
    for key in ("samples", "trained_tokens", "correct"):
        assert one[step][key] == two[step][key], (step, key, one[step][key], two[step][key])
PY
  compared=$((compared + 1))
}
ranks_are() { # ID RANKS
  [ "$("$C" show "$1" --json | field plan.n_ranks)" = "$2" ] || fail "job $1 does not run on $2 ranks"
}
# every other sample without a picture, as data/mixed.json
make_mixed() {
  python3 - <<'PY'
import json
rows = json.load(open("data/train.json"))
for row in rows[1::2]: # no picture at all
    row.pop("image")
    row["conversations"][0]["value"] = row["conversations"][0]["value"].replace("<image>\n", "")
json.dump(rows, open("data/mixed.json", "w"))
PY
}
