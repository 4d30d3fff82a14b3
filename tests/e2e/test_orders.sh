#!/bin/bash
# Orders through the command line, with their exit codes: detach, checkpoint, pause, resume, stop, wait, export.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
write_job long.lua vision=1 llm=2 slots=2 batch=16 steps=100000

# --- Ctrl-C in run detaches: exit 0, the way back is told, the job goes on
"$C" run --plain long.lua >console 2>&1 &
console=$!
until_true "the job is shown" grep -q 'is RUN' console
id=$("$C" jobs --json | field jobs.0.id)
wait_step "$id" 2
kill -INT $console
rc=0
wait $console || rc=$?
[ $rc -eq 0 ] || fail "Ctrl-C: exit $rc: $(tail -n 3 console)"
expect_text "Detached: job $id goes on" console
expect_text "cornstarch-console wait $id" console
expect_text "cornstarch-console stop $id" console
at=$(job "$id" step)
wait_step "$id" $((at + 3))

# --- checkpoint
[ ! -d "$jobs/$id/ckpt" ] || [ -z "$(ls "$jobs/$id/ckpt")" ] || fail "a checkpoint nobody asked for"
expect_rc 0 "$C" checkpoint "$id"
has_checkpoint() { [ "$(job "$1" checkpoint_step)" -gt "${2:--1}" ] 2>/dev/null; }
until_true "a checkpoint is told" has_checkpoint "$id"
step=$(job "$id" checkpoint_step)
[ -e "$jobs/$id/ckpt/ckpt-$step/checkpoint.json" ] || fail "no directory of the checkpoint of step $step"
[ "$(job "$id" state)" = RUN ] || fail "after a checkpoint the job is $(job "$id" state)"
expect_rc 3 "$C" resume "$id" # it runs

# three workers; the checks below want none
[ "$(our_pids cornstarch-worker | wc -l)" -eq 3 ] || fail "workers: $(our_pids cornstarch-worker)"

# --- pause: a checkpoint, ranks released, wait ends with 0
runner=$(runner_pid "$id")
"$C" wait "$id" >waited 2>&1 &
waiter=$!
expect_rc 0 "$C" pause "$id"
rc=0
wait $waiter || rc=$?
[ $rc -eq 0 ] || fail "wait for a paused job: exit $rc"
expect_text "job $id: PAUSED" waited
until_true "the ranks are released" is_gone "$runner"
[ -z "$(our_pids cornstarch-worker)" ] || fail "workers of a paused job: $(our_pids cornstarch-worker)"
paused=$(job "$id" step)
[ "$(job "$id" checkpoint_step)" = $((paused - 1)) ] || fail "paused after step $paused, checkpoint $(job "$id" checkpoint_step)"
for order in pause checkpoint; do
  expect_rc 3 "$C" $order "$id"
  expect_text PAUSED
done

# --- resume goes on where it was
expect_rc 0 "$C" resume "$id"
wait_step "$id" $((paused + 3))
[ "$(job "$id" generation)" = 1 ] || fail "generation $(job "$id" generation)"
python3 - "$jobs/$id/journal" "$paused" <<'PY' || fail "it did not go on at step $paused"
import json, sys
rows = [json.loads(l) for l in open(sys.argv[1]) if l.endswith("\n")]
steps = [r["step"] for r in rows if r["type"] == "runner.step"]
assert steps == list(range(len(steps))), "steps are missing or came twice"
assert min(r["step"] for r in rows if r["type"] == "runner.step" and r["generation"] == 1) == int(sys.argv[2])
PY

# --- stop: with a checkpoint; then nothing but resume
expect_rc 0 "$C" stop "$id"
rc=0
"$C" wait "$id" >waited 2>&1 || rc=$?
expect_text "job $id: CANCELLED" waited
[ $rc -eq 0 ] || fail "wait for a stopped job: exit $rc"
stopped=$(job "$id" step)
[ "$(job "$id" checkpoint_step)" = $((stopped - 1)) ] || fail "no checkpoint of the last step"
for order in pause checkpoint stop; do
  expect_rc 3 "$C" $order "$id"
  expect_text CANCELLED
done

# --- export, by number, by directory, into what is not empty
expect_rc 0 "$C" export "$id" out1
expect_rc 0 "$C" export "$jobs/$id/ckpt/ckpt-$((stopped - 1))" out2
for file in llm/model.safetensors vision/model.safetensors llm/tokenizer.json vision/config.json; do
  cmp "out1/$file" "out2/$file" || fail "$file differs between the two ways"
done
"$C" model check out1/llm >/dev/null || fail "the exported LLM does not pass model check"
"$C" model check out1/vision >/dev/null || fail "the exported encoder does not pass model check"
jobs_py tensors out1/llm llm >now
jobs_py weights "$jobs/$id" 'llm/*' >want
[ -s want ] && cmp -s now want || fail "exported weights are not the trained ones: $(diff want now | head -n 3)"
expect_rc 3 "$C" export "$id" out1
expect_text "not empty"

# --- stop --now: no checkpoint
id=$(submit long.lua)
wait_step "$id" 2
expect_rc 0 "$C" stop "$id" --now
wait_state "$id" CANCELLED
[ "$(job "$id" checkpoint_step)" = -1 ] || fail "stop --now wrote a checkpoint"
expect_rc 2 "$C" export "$id" out3

# --- jobs that are not there
for order in show wait pause resume stop checkpoint metrics logs; do
  expect_rc 2 "$C" $order 999
  expect_text 999
done
expect_rc 2 "$C" export 999 out3
[ ! -e out3 ] || fail "a failed export leaves a directory"
nothing_runs() { [ -z "$(our_pids cornstarch-runner)" ]; }
until_true "nothing runs" nothing_runs
echo ok
