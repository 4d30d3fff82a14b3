#!/bin/bash
# A worker or a runner that is stopped (SIGSTOP). A worker, while its job starts and while it trains: the job fails in the time that
# cornstarch-runner(8) promises, ten times its --hang-limit, says which rank it was and that its process is stopped,
# leaves nothing behind, and the next job trains. A runner: 'stop --now' holds all the same, also of a daemon that found it.
. "$(dirname "$0")/../support/e2e.sh"
export CORNSTARCH_RUNNER=$work/runner
cat >"$CORNSTARCH_RUNNER" <<SH
#!/bin/sh
exec "$bin/cornstarch-runner" --hang-limit 1s "\$@"
SH
chmod +x "$CORNSTARCH_RUNNER"
make_data 64
write_job victim.lua vision=1 llm=2 slots=2 batch=32 steps=100000
write_job after.lua vision=1 llm=2 slots=2 batch=8 steps=4

has_workers() { # ID
  runner=$(runner_pid "$1" 2>/dev/null) && [ -n "$runner" ] || return 1
  workers=($(children "$runner" cornstarch-worker))
  [ ${#workers[@]} -eq 3 ]
}

# --- runners that do not hear: one was started by a daemon that is gone
found=$(submit victim.lua)
wait_step "$found" 1
kill -9 "$(daemon_pid)"
own=$(submit victim.lua)
wait_step "$own" 1
deaf=()
for id in "$found" "$own"; do
  has_workers "$id" || fail "job $id has ${#workers[@]} workers"
  deaf+=("$runner" "${workers[@]}")
  kill -STOP "$runner"
  "$C" stop --now "$id" >/dev/null
done
for id in "$found" "$own"; do
  expect_rc 0 "$C" wait "$id"
  expect_text "job $id: CANCELLED: stopped on request: its runner did not answer, and was ended"
done
until_true "the processes of deaf runners are gone" are_gone "${deaf[@]}"

# --- workers
for when in start train; do
  rank=$([ $when = start ] && echo 1 || echo 2)
  stage=$([ $when = start ] && echo llm.0 || echo llm.1)
  id=$(submit victim.lua)
  if [ $when = start ]; then until_true "job $id has workers" has_workers "$id"; else wait_step "$id" 3; fi
  has_workers "$id" || fail "job $id has ${#workers[@]} workers"
  feeder=$(children "$runner" cornstarch-feeder)
  kill -STOP "${workers[rank]}"
  expect_rc 6 "$C" wait "$id"
  expect_text "job $id: FAILED: rank $rank ($stage) stands still"
  expect_text "(the process is stopped)"
  until_true "the processes of job $id are gone" are_gone "$runner" ${feeder:+"$feeder"} "${workers[@]}"
  "$C" wait "$(submit after.lua)" >/dev/null || fail "the job after job $id fails"
done
echo ok
