#!/bin/bash
# run(0..n) equals run(0..k), kill -9 of the runner and all it started, resume, (k..n): losses, gradient norms
# and weights, all digits. Also for a kill of the workers alone, and on another seed with frozen parts.
# The job that is killed goes on until it is stopped, so it cannot end before it is killed however slow this
# script is; the undisturbed one is given as many steps as that one made.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64

common=(vision=1 llm=2 slots=4 batch=96 'checkpoint={ every_steps = 10, keep = 1000 }')

kill_and_resume() { # WHOM KEY=VALUE...: what to kill (programs, comma-separated), the job
  local whom=${1//,/ } base id runner pids end=FAILED at steps
  shift
  write_job killed.lua "${common[@]}" "$@" steps=100000
  id=$(submit killed.lua)
  wait_step "$id" 1
  runner=$(runner_pid "$id")
  pids=$(for name in $whom; do children "$runner" "$name"; done)
  [ "$(wc -w <<<"$pids")" -ge 3 ] || fail "job $id has the processes '$pids'"
  if [[ $whom = cornstarch-runner* ]]; then # the runner first: nobody cleans up
    end=LOST
    pids="$runner $pids"
  fi
  until_true "job $id wrote a checkpoint" has_whole_ckpt "$id" 9
  kill -9 $pids
  until_true "the processes of job $id are gone" are_gone $pids
  wait_state "$id" $end
  expect_rc 6 "$C" wait "$id"
  at=$(newest_ckpt "$id")
  expect_rc 0 "$C" resume "$id"
  until_true "job $id goes on" state_left "$id" $end
  until_true "job $id saves again" has_whole_ckpt "$id" $((at + 10))
  "$C" stop "$id" >/dev/null
  wait_state "$id" CANCELLED
  [ "$(job "$id" generation)" = 1 ] || fail "the resumed job is generation $(job "$id" generation)"
  [ "$(first_step_of "$id" 1)" = $((at + 1)) ] || fail "it went on at step $(first_step_of "$id" 1), not after $at"
  steps=$(job "$id" step)
  [ "$(job "$id" checkpoint_step)" = $((steps - 1)) ] || fail "job $id was not saved at its end"
  write_job whole.lua "${common[@]}" "$@" steps="$steps"
  base=$(done_job whole.lua)
  jobs_py rows "$jobs/$base" >one
  jobs_py rows "$jobs/$id" >two
  [ "$(wc -l <one)" -eq "$steps" ] || fail "the undisturbed job has $(wc -l <one) steps"
  cmp -s one two || fail "losses differ after resume: $(diff one two | head -n 6)"
  jobs_py weights "$jobs/$base" >one
  jobs_py weights "$jobs/$id" >two
  [ -s one ] && cmp -s one two || fail "weights differ after resume: $(diff one two | head -n 6)"
  [ -n "$(field weights_hash <"$jobs/$id/state.json")" ] || fail "no hash of the weights"
  [ "$(field weights_hash <"$jobs/$id/state.json")" = "$(field weights_hash <"$jobs/$base/state.json")" ] ||
    fail "the hash of the weights differs after resume"
}
state_left() { [ "$(job "$1" state)" != "$2" ]; }
newest_ckpt() { # the newest whole one: its step
  for file in "$jobs/$1"/ckpt/ckpt-*/checkpoint.json; do echo "$file"; done |
    sed -n 's|.*/ckpt-\([0-9]*\)/checkpoint.json|\1|p' | sort -n | tail -n 1
}
first_step_of() { # ID GENERATION
  python3 - "$jobs/$1/journal" "$2" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(min(r["step"] for r in rows if r["type"] == "runner.step" and r["generation"] == int(sys.argv[2])))
PY
}

kill_and_resume cornstarch-runner,cornstarch-worker,cornstarch-feeder
kill_and_resume cornstarch-worker 'train=:freeze("*"):train("vision.projector", "llm")' seed=9 lr=1e-3
kill_and_resume cornstarch-worker llm=1 'plan=dp = 2,'
echo "ok"
