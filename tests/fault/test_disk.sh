#!/bin/bash
# A checkpoint that cannot be written (no room: RLIMIT_FSIZE of the workers; a directory that went away) raises an
# alarm and training goes on; the checkpoints before it stay; when there is room again the next one is whole. Only
# a last checkpoint that fails fails the job.
. "$(dirname "$0")/../support/e2e.sh"
command -v prlimit >/dev/null || { echo "skipped: no prlimit"; exit 77; }
make_data 64
write_job long.lua vision=1 llm=2 slots=2 batch=16 steps=100000 'checkpoint={ every_steps = 20, keep = 2 }'
checkpoint_after() { local at; at=$(job "$1" checkpoint_step); [ "$at" -gt "$2" ]; }
alarms() { "$C" show "$1" --json | grep -A 3 '"rule": "checkpoint_failed"' | sed -n 's/.*"count": \([0-9]*\).*/\1/p' | grep . || echo 0; }
more_alarms() { [ "$(alarms "$1")" -gt "$2" ]; }

"$C" run --plain long.lua >console 2>&1 &
console=$!
until_true "the job is shown" grep -q 'is RUN' console
id=$("$C" jobs --json | field jobs.0.id)
until_true "a first checkpoint" checkpoint_after "$id" -1
[ "$(alarms "$id")" -eq 0 ] || fail "an alarm without a reason"

# --- no room
runner=$(runner_pid "$id")
workers=($(children "$runner" cornstarch-worker))
for pid in "${workers[@]}"; do prlimit --pid "$pid" --fsize=16384:unlimited; done
until_true "an alarm" more_alarms "$id" 0
last=$(job "$id" checkpoint_step)
at=$(job "$id" step)
wait_step "$id" $((at + 45)) # past two more checkpoints
until_true "an alarm for each failed checkpoint" more_alarms "$id" 1
[ "$(job "$id" state)" = RUN ] || fail "a full disk ended the job: $(job "$id" reason)"
[ "$(job "$id" checkpoint_step)" = "$last" ] || fail "a checkpoint was told that could not be written"
until_true "the console tells the alarm" grep -q '^ERROR checkpoint_failed, step .*: the checkpoint of step .* failed, training goes on: .*File too large' console
[ -e "$jobs/$id/ckpt/ckpt-$last/checkpoint.json" ] || fail "the last good checkpoint is gone"
# an export of what is there still works
expect_rc 0 "$C" export "$id" out1

# --- room again
for pid in "${workers[@]}"; do prlimit --pid "$pid" --fsize=unlimited:unlimited; done
until_true "a checkpoint after there is room again" checkpoint_after "$id" "$last"
last=$(job "$id" checkpoint_step)
nothing_left() { # what is not whole is newer than that: it is being written
  local dir step
  for dir in "$jobs/$id"/ckpt/*.tmp; do
    step=${dir##*/ckpt-}
    [ ! -e "$dir" ] || [ "${step%.tmp}" -gt "$last" ] || return 1
  done
}
until_true "nothing half written is left" nothing_left

# --- the directory is no directory any more
seen=$(alarms "$id")
everybody=("$runner" "${workers[@]}")
kill -STOP "${everybody[@]}" # nobody makes it anew between two commands
mv "$jobs/$id/ckpt" "$jobs/$id/away"
: >"$jobs/$id/ckpt"
kill -CONT "${everybody[@]}"
until_true "an alarm about the directory" more_alarms "$id" "$seen"
at=$(job "$id" step)
wait_step "$id" $((at + 5))
[ "$(job "$id" state)" = RUN ] || fail "a lost directory ended the job: $(job "$id" reason)"
kill -STOP "${everybody[@]}"
rm "$jobs/$id/ckpt"
mv "$jobs/$id/away" "$jobs/$id/ckpt"
kill -CONT "${everybody[@]}"
until_true "a checkpoint after the directory is back" checkpoint_after "$id" "$last"

# --- no room for the runner's own files: rows wait and none is lost
prlimit --pid "$runner" --fsize=4096:unlimited
at=$(job "$id" step)
wait_step "$id" $((at + 90))
! has_rows "$id" $((at + 80)) || fail "the journal grew on a full disk"
prlimit --pid "$runner" --fsize=unlimited:unlimited
until_true "every row is in the journal" has_rows "$id" $((at + 90))
last=$(job "$id" checkpoint_step)
until_true "a checkpoint again" checkpoint_after "$id" "$last"

# --- the last one must not be lost silently
for pid in "${workers[@]}"; do prlimit --pid "$pid" --fsize=16384:unlimited; done
"$C" stop "$id" >/dev/null
rc=0
wait $console || rc=$?
[ $rc -eq 6 ] || fail "a job whose last checkpoint failed: exit $rc: $(tail -n 3 console)"
[ "$(job "$id" state)" = FAILED ] || fail "it is $(job "$id" state)"
expect_text "the final checkpoint of step" console
expect_text "File too large" console
# it can go on from the one before
expect_rc 0 "$C" resume "$id"
wait_state "$id" RUN
"$C" stop "$id" --now >/dev/null
wait_state "$id" CANCELLED
until_true "nothing is left of the checkpoint that failed" nothing_left
echo "ok: $(alarms "$id") alarms"
