# Jobs in other layouts beside one: sourced behind e2e.sh.
compared=0

# losses and norms of job $2 within 1e-4 of those of job $1, evaluations within 1e-3, losses of experts' balance within 5e-3: sums are made in another order
near() {
  python3 - "$jobs/$1/journal" "$jobs/$2/journal" "${4:-0}" <<'PY' || fail "$3: differs from one rank"
import json, math, sys
def rows(path, kind):
    found = (json.loads(line) for line in open(path) if line.endswith("\n"))
    return {r["step"]: r for r in found if r["type"] == "runner.step" and r.get("kind", "train") == kind}
def off(a, b):
    assert math.isfinite(a) and math.isfinite(b), (a, b)
    return abs(a - b) / max(abs(a), 1e-3)
def balanced(a, b): # replicas have other samples in a slot, whose rows alone are balanced
    assert ("aux_loss" in a) == ("aux_loss" in b), (a, b)
    assert "aux_loss" not in a or off(a["aux_loss"], b["aux_loss"]) <= 5e-3, (a["step"], a["aux_loss"], b["aux_loss"])
one, two = (rows(path, "train") for path in sys.argv[1:3])
assert sorted(two) == list(range(len(two))) and 9 < len(two) <= len(one), (sorted(one), sorted(two))
for step in two:
    balanced(one[step], two[step])
    for key in ("loss", "grad_norm"):
        worst = off(one[step][key], two[step][key])
        assert worst <= 1e-4, (step, key, one[step][key], two[step][key])
    assert one[step]["trained_tokens"] == two[step]["trained_tokens"], step
one, two = (rows(path, "eval") for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and len(one) == int(sys.argv[3]), (sorted(one), sorted(two))
for step in one:
    balanced(one[step], two[step])
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
# goes_on WHAT FIRST NEXT...: a job of FIRST.lua is paused and goes on as each NEXT.lua, then stops; it has learned what
# the job of one.lua has, which nothing disturbed
goes_on() {
  local what=$1 undisturbed id next
  undisturbed=$(submit one.lua)
  id=$(submit "$2.lua")
  for next in "${@:3}"; do
    wait_step "$id" $(($(job "$id" step) + 3))
    expect_rc 0 "$C" pause "$id"
    wait_state "$id" PAUSED
    expect_rc 0 "$C" resume "$id" "$next.lua"
    wait_state "$id" RUN
  done
  wait_step "$id" $(($(job "$id" step) + 3))
  expect_rc 0 "$C" stop "$id" --now
  until_true "the undisturbed job is as far" step_is "$undisturbed" "$(job "$id" step)"
  expect_rc 0 "$C" stop "$undisturbed" --now
  near "$undisturbed" "$id" "$what" 0
}
# refused EXIT TEXT KEY=VALUE...: what cannot run is refused before anything starts, by name; common: keys of all
refused() {
  write_job bad.lua "${common[@]}" "${@:3}"
  expect_rc "$1" "$C" submit bad.lua
  expect_text "$2"
}
