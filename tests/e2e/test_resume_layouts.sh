#!/bin/bash
# A job goes on under other layouts: 1+2 ranks, 2+2, two replicas, one rank, 1+2 again, once after kill -9. Losses are
# those of a job that nothing disturbed: to the bit while only pipelines change, within rounding behind replicas.
. "$(dirname "$0")/../support/e2e.sh"
make_data 48
common=(batch=12 seq=192 slots=8 steps=100000 lr=1e-4)
write_job 1.lua "${common[@]}" 'modality="encoder-colocated"'
write_job 1+2.lua "${common[@]}" vision=1 llm=2
write_job 2+2.lua "${common[@]}" vision=2 llm=2
write_job dp2.lua "${common[@]}" 'modality="encoder-colocated"' 'plan=dp = 2,'

paused() { # ID: after three steps more, and a checkpoint
  wait_step "$1" $(($(job "$1" step) + 3))
  expect_rc 0 "$C" pause "$1"
  wait_state "$1" PAUSED
}
ranks_are() { # ID RANKS GENERATION
  until_true "generation $3 of job $1 has a plan for $2 ranks" has_plan "$@"
}
has_plan() {
  [ "$(job "$1" generation)" = "$3" ] && [ "$("$C" show "$1" --json | field plan.n_ranks)" = "$2" ]
}

base=$(submit 1.lua)
id=$(submit 1+2.lua)
paused "$id"
[ "$(job "$id" generation)" = 0 ] || fail "generation $(job "$id" generation)"

# --- what is trained must stay: refused with the key and both values, and nothing has changed
before=$(cat "$jobs/$id/spec.json")
write_job other.lua "${common[@]}" vision=2 llm=2 lr=1e-3
expect_rc 3 "$C" resume "$id" other.lua
expect_text "optimizer.lr is 0.0001 in the job and 0.001 in the script"
write_job other.lua "${common[@]}" batch=4
expect_rc 3 "$C" resume "$id" other.lua
expect_text "batch_samples is 12 in the job and 4 in the script"
write_job other.lua "${common[@]}" 'train=:train("llm")'
expect_rc 3 "$C" resume "$id" other.lua
expect_text "model.rules[0].glob"
write_job other.lua "${common[@]}" vision=2 llm=9
! "$C" resume "$id" other.lua >"$work/said" 2>&1 || fail "11 ranks on a node of 8"
[ "$(cat "$jobs/$id/spec.json")" = "$before" ] || fail "a refused order changed spec.json"
[ "$(job "$id" state)" = PAUSED ] || fail "after refused orders the job is $(job "$id" state)"

# --- 2+2 ranks; kill -9 behind a checkpoint
expect_rc 0 "$C" resume "$id" 2+2.lua
ranks_are "$id" 4 1
[ "$(cat "$jobs/$id/spec-0.json")" = "$before" ] || fail "spec-0.json is not what generation 0 ran"
wait_step "$id" $(($(job "$id" step) + 2))
had=$(job "$id" checkpoint_step)
expect_rc 0 "$C" checkpoint "$id"
has_newer() { [ "$(job "$1" checkpoint_step)" -gt "$2" ]; }
until_true "a checkpoint of generation 1" has_newer "$id" "$had"
kill -9 "$(our_pids cornstarch-worker | tail -n 1)" || true
until_true "the job or the other one ended" eval 'state_is '"$id"' FAILED || state_is '"$base"' FAILED'
if state_is "$base" FAILED; then # it was the other job's only worker
  expect_rc 0 "$C" resume "$base"
  kill -9 "$(children "$(runner_pid "$id")" cornstarch-worker | head -n 1)"
  wait_state "$id" FAILED
fi

# --- two replicas, each with its own files; export reads them
replicas_from=$(($(job "$id" checkpoint_step) + 1))
expect_rc 0 "$C" resume "$id" dp2.lua
ranks_are "$id" 1 2
[ "$("$C" show "$id" --json | field plan.dp)" = 2 ] || fail "not two replicas"
paused "$id"
step=$(job "$id" checkpoint_step)
python3 - "$jobs/$id/ckpt/ckpt-$step/params" <<'PY' || fail "replicas did not write their own parts"
import json, struct, sys
heads = []
for rank in (0, 1):
    with open(f"{sys.argv[1]}/rank-{rank}.safetensors", "rb") as f:
        heads.append(json.loads(f.read(struct.unpack("<Q", f.read(8))[0])))
assert all(any("[" in name for name in head) for head in heads), heads
sizes = [max(v["data_offsets"][1] for k, v in head.items() if k != "__metadata__") for head in heads]
assert 0.8 < sizes[0] / sizes[1] < 1.25, sizes
PY
expect_rc 0 "$C" export "$id" out
[ -s out/llm/model.safetensors ] || fail "no exported weights"

# --- one rank, 1+2 ranks, two replicas again
expect_rc 0 "$C" resume "$id" 1.lua
ranks_are "$id" 1 3
paused "$id"
expect_rc 0 "$C" resume "$id" 1+2.lua
ranks_are "$id" 3 4
paused "$id"
expect_rc 0 "$C" resume "$id" dp2.lua
paused "$id"

# --- as if the daemon had died between spec.json and its row: the row follows the file
cp "$jobs/$id/spec-1.json" "$jobs/$id/spec.json"
expect_rc 0 "$C" resume "$id"
ranks_are "$id" 4 6
paused "$id"

# --- another plan than previewed: refused, accepted with --replan
sed -i 's/"plan_hash":"[0-9a-f]*"/"plan_hash":"'"$(printf 'f%.0s' {1..64})"'"/' "$jobs/$id/spec.json"
expect_rc 0 "$C" resume "$id"
wait_state "$id" FAILED
case $(job "$id" reason) in *"the plan differs"*) ;; *) fail "failed for another reason: $(job "$id" reason)" ;; esac
expect_rc 0 "$C" resume "$id" --replan
wait_state "$id" RUN
paused "$id"

# --- the same losses as without any of this
until_true "the undisturbed job is as far" step_is "$base" "$(job "$id" step)"
expect_rc 0 "$C" stop "$base" --now
python3 - "$jobs/$base/journal" "$jobs/$id/journal" "$replicas_from" <<'PY' || fail "losses differ from the undisturbed job"
import json, sys
def losses(path):
    rows = (json.loads(line) for line in open(path) if line.endswith("\n"))
    return {r["step"]: (r["loss"], r["grad_norm"]) for r in rows if r["type"] == "runner.step" and r.get("kind") != "eval"}
one, two = losses(sys.argv[1]), losses(sys.argv[2])
first = int(sys.argv[3])
assert sorted(two) == list(range(len(two))) and len(two) > first > 4, (first, sorted(two))
exact = [s for s in two if s < first and one[s] != two[s]]
assert not exact, [(s, one[s], two[s]) for s in exact]
worst = max(abs(one[s][0] - two[s][0]) / abs(one[s][0]) for s in two)
assert worst <= 1e-5, (worst, [(s, one[s][0], two[s][0]) for s in two])
print(f"{len(two)} steps, {first} to the bit, the rest within {worst:.1e}")
PY
echo "ok"
