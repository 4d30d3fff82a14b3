#!/bin/bash
# Gradients and weights that replicas divide: the losses of one rank, what is told and exported at the end, adapters on a
# frozen model that is divided, evaluations, and jobs that go on with another level: 3, 1, 2, one rank, 3.
. "$(dirname "$0")/../support/e2e.sh"
make_data 48
test='eval={ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 10 }'
common=(batch=8 seq=256 slots=4 lr=1e-3)

# losses and norms of job $2 within 1e-4 of those of job $1, as far as both are
near() {
  jobs_py rows "$jobs/$1" >one
  jobs_py rows "$jobs/$2" >two
  python3 - "$4" <<'PY' || fail "$3: differs from job $1"
import sys
one, two = ([[float(x) for x in line.split()[:3]] for line in open(name)] for name in ("one", "two"))
n = min(len(one), len(two))
assert n >= int(sys.argv[1]), (len(one), len(two))
off = [abs(a - b) / max(abs(a), 1e-3) for x, y in zip(one, two) for a, b in zip(x, y)]
assert all(d <= 1e-4 for d in off), max(off)
PY
}
level() { echo "1, zero = $1"; } # of a branch, in the place of its pp

write_job one.lua "${common[@]}" "$test" 'modality="encoder-colocated"'
base=$(done_job one.lua)
for zero in 2 3; do
  write_job zero.lua "${common[@]}" "$test" 'modality="encoder-colocated"' 'plan=dp = 2,' \
    "vision=$(level $zero)" "llm=$(level $zero)"
  id=$(done_job zero.lua)
  near "$base" "$id" "zero $zero" 20
  [ "$("$C" show "$id" --json | field plan.stages.0.zero)" = $zero ] || fail "the plan does not say zero $zero"
done
expect_rc 0 "$C" export "$id" out
expect_rc 0 "$C" model check out/llm
python3 - "$jobs/$base" "$jobs/$id" <<'PY' || fail "the parameters at the end are not told as one rank tells them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and len(one) > 20, (len(one), len(two))
PY

# --- a frozen model that is divided, with adapters that train
for train in ':train("vision.projector")' ':train("vision.projector"):lora { module = "llm", rank = 4, alpha = 8 }'; do
  write_job one.lua "${common[@]}" "train=$train" 'modality="encoder-colocated"'
  write_job zero.lua "${common[@]}" "train=$train" 'plan=dp = 2,' "vision=$(level 3)" "llm=$(level 3)"
  one=$(done_job one.lua)
  two=$(done_job zero.lua)
  near "$one" "$two" "$train" 20
  python3 - "$jobs/$one" "$jobs/$two" <<'PY' || fail "$train: frozen weights that are divided are not told as one rank has them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
frozen = [name for name in one if name.startswith("llm/") and "lora" not in name]
assert len(frozen) > 20 and all(one[name] == two[name] for name in frozen), [n for n in frozen if one[n] != two.get(n)]
PY
done

# --- a job goes on with another level: as the one that nothing disturbed
long=("${common[@]}" steps=100000 lr=1e-4)
write_job one.lua "${long[@]}" 'modality="encoder-colocated"'
for zero in 1 2 3; do
  write_job zero$zero.lua "${long[@]}" 'plan=dp = 2,' "vision=$(level $zero)" "llm=$(level $zero)"
done
undisturbed=$(submit one.lua)
id=$(submit zero3.lua)
for next in zero1 zero2 one zero3; do
  wait_step "$id" $(($(job "$id" step) + 3))
  expect_rc 0 "$C" pause "$id"
  wait_state "$id" PAUSED
  expect_rc 0 "$C" resume "$id" $next.lua
  wait_state "$id" RUN
done
wait_step "$id" $(($(job "$id" step) + 3))
expect_rc 0 "$C" stop "$id" --now
steps=$(rows "$id")
until_true "the undisturbed job is as far" has_rows "$undisturbed" "$steps"
expect_rc 0 "$C" stop "$undisturbed" --now
near "$undisturbed" "$id" "levels 3, 1, 2, one rank, 3" 15

# --- what cannot be divided is refused before anything starts
write_job zero.lua "${common[@]}" "llm=$(level 2)"
! "$C" plan zero.lua >"$work/said" 2>&1 || fail "gradients were divided among one"
expect_text "set dp or cp above 1"
