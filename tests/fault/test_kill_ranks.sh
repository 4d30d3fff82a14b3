#!/bin/bash
# kill -9 of one worker, or of the feeder: the job fails and says which rank, stage, step and last action it was,
# nothing of it is left behind, and a job beside it never notices.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
write_job victim.lua vision=1 llm=2 slots=2 batch=32 steps=100000 'checkpoint={ every_steps = 5 }'
write_job beside.lua vision=1 llm=1 slots=2 batch=8 steps=300 seed=3
reference=$(done_job beside.lua)

culprit() { # ID KEY
  python3 - "$jobs/$1/journal" "$2" <<'PY'
import json, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
print([r["culprit"] for r in rows if "culprit" in r][-1].get(sys.argv[2], ""))
PY
}
nothing_left() { # ID PIDS...
  local id=$1 pid left
  shift
  until_true "the processes of job $id are gone" are_gone "$@"
  [ ! -e "$sockets/job-$id.sock" ] || fail "job $id leaves its socket"
  left=$(find "$jobs/$id" -name '*.tmp*')
  [ -z "$left" ] || fail "job $id leaves $left"
}
is_ended() { # PID: nothing is left to run, its parent has not looked yet
  [ "$(awk '{ print $3 }' "/proc/$1/stat")" = Z ]
}
has_ckpt() { ls "$jobs/$1/ckpt/" | grep -q '^ckpt-[0-9]*$'; }

beside=$(submit beside.lua)

# a process shows under its program's name (the kernel keeps 15 bytes), also one that executed itself anew
named() { # NAME PIDS...
  local name=$1 pid
  shift
  [ $# -gt 0 ] || fail "no $name"
  for pid; do
    [ "$(cat "/proc/$pid/comm")" = "${name:0:15}" ] || fail "a $name shows as $(cat "/proc/$pid/comm")"
  done
}

# --- each worker in turn
for rank in 0 1 2; do
  stage=$(sed -n "$((rank + 1))p" <<<$'vision.0\nllm.0\nllm.1')
  id=$(submit victim.lua)
  wait_step "$id" 6
  runner=$(runner_pid "$id")
  workers=($(children "$runner" cornstarch-worker))
  feeder=$(children "$runner" cornstarch-feeder)
  [ ${#workers[@]} -eq 3 ] && [ -n "$feeder" ] || fail "job $id has ${#workers[@]} workers, feeder '$feeder'"
  named cornstarch-worker "${workers[@]}"
  named cornstarch-feeder $feeder
  named cornstarch-runner "$runner"
  named cornstarchd "$(daemon_pid)"
  kill -9 "${workers[rank]}"
  expect_rc 6 "$C" wait "$id"
  expect_text "job $id: FAILED: rank $rank ($stage) died (signal 9) in step "
  reason=$(job "$id" reason)
  [[ $reason =~ \ in\ step\ ([0-9]+)\ (at\ .+|between two actions) ]] || fail "no step or action in '$reason'"
  step=${BASH_REMATCH[1]}
  [ "$(culprit "$id" pid)" = "${workers[rank]}" ] || fail "blamed process $(culprit "$id" pid)"
  [ "$(culprit "$id" rank)" = $rank ] && [ "$(culprit "$id" signal)" = 9 ] || fail "blamed rank $(culprit "$id" rank)"
  [ "$(culprit "$id" step)" = "$step" ] || fail "the reason names step $step, the culprit $(culprit "$id" step)"
  # the newest row is at most one step behind the one it died in
  done=$(jobs_py rows "$jobs/$id" | tail -n 1 | cut -d' ' -f1)
  [ "$step" -ge "$done" ] && [ "$step" -le $((done + 2)) ] || fail "died in step $step after row $done"
  nothing_left "$id" "$runner" "$feeder" "${workers[@]}"
  has_ckpt "$id" || fail "the checkpoints before the death are gone"
  [ "$(job "$id" exit)" = 6 ] || fail "the job's exit code is $(job "$id" exit)"
done

# --- ranks of a context: the one that died is named, not those that wait for its rows; one that fails tells its calls
write_job context.lua vision=1 'llm=1, cp = 3' slots=2 batch=32 steps=100000
for signal in 9 11; do
  rank=$((signal == 9 ? 2 : 1))
  id=$(submit context.lua)
  wait_step "$id" 3
  runner=$(runner_pid "$id")
  workers=($(children "$runner" cornstarch-worker))
  feeder=$(children "$runner" cornstarch-feeder)
  [ ${#workers[@]} -eq 4 ] || fail "job $id has ${#workers[@]} workers"
  kill -$signal "${workers[rank]}"
  expect_rc 6 "$C" wait "$id"
  expect_text "job $id: FAILED: rank $rank (llm.0 part $((rank - 1)) of 3) died (signal $signal) in step "
  [ "$(culprit "$id" rank)" = $rank ] && [ "$(culprit "$id" pid)" = "${workers[rank]}" ] || fail "blamed rank $(culprit "$id" rank)"
  nothing_left "$id" "$runner" "$feeder" "${workers[@]}"
done
expect_rc 0 "$C" logs "$id" --rank 1
expect_text "libc.so.6(__libc_start_main"
expect_text "cornstarch-worker: signal 11 in the calls above"

# --- whatever comes first, the word of who has lost it or its end: it was stopped before, so that others wait for it;
# or the runner was, and finds all of it at once
for way in stopped runner; do
  id=$(submit victim.lua)
  wait_step "$id" 3
  runner=$(runner_pid "$id")
  workers=($(children "$runner" cornstarch-worker))
  feeder=$(children "$runner" cornstarch-feeder)
  if [ $way = stopped ]; then
    kill -STOP "${workers[0]}"
    sleep 0.3
    kill -KILL "${workers[0]}"
    kill -CONT "${workers[0]}" 2>/dev/null || true
  else
    kill -STOP "$runner"
    kill -KILL "${workers[0]}"
    until_true "rank 1 has noticed" is_ended "${workers[1]}"
    kill -CONT "$runner"
  fi
  expect_rc 6 "$C" wait "$id"
  expect_text "job $id: FAILED: rank 0 (vision.0) died (signal 9) in step "
  nothing_left "$id" "$runner" "$feeder" "${workers[@]}"
done

# --- the feeder
id=$(submit victim.lua)
wait_step "$id" 3
runner=$(runner_pid "$id")
workers=($(children "$runner" cornstarch-worker))
feeder=$(children "$runner" cornstarch-feeder)
kill -9 "$feeder"
expect_rc 6 "$C" wait "$id"
expect_text "job $id: FAILED: the feeder died (signal 9)"
[ "$(culprit "$id" rank)" = -1 ] && [ "$(culprit "$id" pid)" = "$feeder" ] || fail "blamed rank $(culprit "$id" rank)"
nothing_left "$id" "$runner" "$feeder" "${workers[@]}"

# --- the runner: its children end with it, the daemon says so
id=$(submit victim.lua)
wait_step "$id" 3
runner=$(runner_pid "$id")
all=($(children "$runner" cornstarch-worker) $(children "$runner" cornstarch-feeder))
kill -9 "$runner"
expect_rc 6 "$C" wait "$id"
expect_text "job $id: LOST: its runner was ended by signal 9 (Killed); "
if has_ckpt "$id"; then expect_text "resume goes on from the checkpoint of step "; else expect_text "it has no checkpoint"; fi
until_true "the children of a killed runner end" are_gone "${all[@]}"

# --- the job beside them
"$C" wait "$beside" >/dev/null || fail "the job beside failed: $(job "$beside" reason)"
[ "$(job "$beside" generation)" = 0 ] || fail "the job beside was started again"
jobs_py rows "$jobs/$reference" >one
jobs_py rows "$jobs/$beside" >two
[ "$(wc -l <one)" -eq 300 ] && cmp -s one two || fail "the job beside was touched: $(diff one two | head -n 4)"
[ -n "$(our_pids cornstarchd)" ] || fail "our_pids sees nothing"
[ -z "$(our_pids cornstarch-worker)$(our_pids cornstarch-feeder)$(our_pids cornstarch-runner)" ] ||
  fail "processes are left: $(our_pids)"
echo ok
