#!/bin/bash
# run(0..20) equals run(0..10), kill -9 of the runner and all it started, resume, (10..20): losses, gradient norms
# and weights, all digits. Also for a kill of the workers alone, and on another seed with frozen parts.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
steps=20

# batches so large that ten steps take long enough to be killed in
common=(vision=1 llm=2 slots=4 batch=96 steps=$steps 'checkpoint={ every_steps = 10, keep = 3 }')

kill_and_resume() { # FILE WHOM...: programs to kill
  local file=$1 base id runner pids end=FAILED
  shift
  base=$(done_job "$file")
  [ "$(job "$base" checkpoint_step)" = 19 ] || fail "no checkpoint at the end"
  id=$(submit "$file")
  wait_step "$id" 1
  runner=$(runner_pid "$id")
  pids=$(for name; do children "$runner" "$name"; done)
  [ "$(wc -w <<<"$pids")" -ge 3 ] || fail "job $id has the processes '$pids'"
  if [ "$1" = cornstarch-runner ]; then # the runner first: nobody cleans up
    end=LOST
    pids="$runner $pids"
  fi
  until_true "job $id wrote a checkpoint" test -e "$jobs/$id/ckpt/ckpt-9/checkpoint.json"
  kill -9 $pids
  until_true "the processes of job $id are gone" are_gone $pids
  wait_state "$id" $end
  expect_rc 6 "$C" wait "$id"
  [ "$(jobs_py rows "$jobs/$id" | wc -l)" -lt $steps ] || fail "job $id had ended before the kill"
  expect_rc 0 "$C" resume "$id"
  until_true "job $id goes on" state_left "$id" $end
  "$C" wait "$id" >/dev/null || fail "job $id after resume: exit $?: $(job "$id" reason)"
  [ "$(job "$id" generation)" = 1 ] || fail "the resumed job is generation $(job "$id" generation)"
  [ "$(first_step_of "$id" 1)" = 10 ] || fail "it went on at step $(first_step_of "$id" 1), not at 10"
  jobs_py rows "$jobs/$base" >one
  jobs_py rows "$jobs/$id" >two
  [ "$(wc -l <one)" -eq $steps ] || fail "the undisturbed job has $(wc -l <one) steps"
  cmp -s one two || fail "losses differ after resume: $(diff one two | head -n 6)"
  jobs_py weights "$jobs/$base" >one
  jobs_py weights "$jobs/$id" >two
  [ -s one ] && cmp -s one two || fail "weights differ after resume: $(diff one two | head -n 6)"
  [ -n "$(field weights_hash <"$jobs/$id/state.json")" ] || fail "no hash of the weights"
  [ "$(field weights_hash <"$jobs/$id/state.json")" = "$(field weights_hash <"$jobs/$base/state.json")" ] ||
    fail "the hash of the weights differs after resume"
}
state_left() { [ "$(job "$1" state)" != "$2" ]; }
first_step_of() { # ID GENERATION
  python3 - "$jobs/$1/journal" "$2" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(min(r["step"] for r in rows if r["type"] == "runner.step" and r["generation"] == int(sys.argv[2])))
PY
}

write_job runner.lua "${common[@]}"
kill_and_resume runner.lua cornstarch-runner cornstarch-worker cornstarch-feeder
write_job workers.lua "${common[@]}" 'train=:freeze("*"):train("vision.projector", "llm")' seed=9 lr=1e-3
kill_and_resume workers.lua cornstarch-worker
write_job replicas.lua "${common[@]}" llm=1 'plan=dp = 2,'
kill_and_resume replicas.lua cornstarch-worker
echo "ok"
