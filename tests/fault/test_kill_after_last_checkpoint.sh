#!/bin/bash
# A job that is killed when its last checkpoint is written, but not its evaluation nor what its weights became, ends
# after resume as the undisturbed one: the same numbers of the evaluation, the same weights, no step trained again. So
# does a job that is paused at its last step, before it is evaluated.
. "$(dirname "$0")/../support/e2e.sh"
make_data 1024

# a feeder that waits, so that the request of a checkpoint is there before its only step
cat >feeder <<SH
#!/bin/bash
until [ -e "$work/go" ]; do [ -d "$work" ] || exit 1; sleep 0.05; done
exec "$bin/cornstarch-feeder"
SH
chmod +x feeder
export CORNSTARCH_FEEDER=$work/feeder
write_job job.lua vision=1 llm=2 batch=8 steps=1 \
  'eval={ data = cs.data.llava { json = "data/train.json", images = "data/images" }, metric = "exact_match" }'

# evals ID: step, samples, correct, tokens, loss of every evaluation in the journal
evals() {
  python3 - "$jobs/$1/journal" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if row["type"] == "runner.step" and row["kind"] == "eval":
        print(row["step"], row["samples"], row["correct"], row["trained_tokens"], row["loss"])
PY
}

# start_asking REQUEST: submits the job, asks its runner before the only step, lets the feeder go; prints the id; the
# job's processes are in the file pids. The daemon would pass a request on only once a job trains.
start_asking() {
  local id runner
  rm -f go
  id=$(submit job.lua)
  until_true "job $id has a feeder" test -e "$jobs/$id/logs/feeder.log"
  python3 - "$sockets/job-$id.sock" "$1" <<'PY'
import json, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
line.sendall(b'{"type":"%s"}\n{"type":"ping","id":1}\n' % sys.argv[2].encode())
for answer in line.makefile():
    if json.loads(answer)["type"] == "pong": # it has asked the feeder
        break
else:
    sys.exit("the runner is gone")
PY
  runner=$(runner_pid "$id")
  echo "$runner" $(pgrep -P "$runner") >pids # the runner first: nobody cleans up
  touch go
  echo "$id"
}

# ends_like BASE ID: one evaluation with the same numbers, the same weights and state
ends_like() {
  local key
  evals "$1" >one
  evals "$2" >two
  [ "$(wc -l <one)" = 1 ] || fail "the undisturbed job has $(wc -l <one) evaluations"
  cmp -s one two || fail "job $2: another evaluation: $(diff one two)"
  [ "$(rows "$2")" = 1 ] || fail "job $2: $(rows "$2") training steps in the journal"
  jobs_py weights "$jobs/$1" >one
  jobs_py weights "$jobs/$2" >two
  [ -s one ] && cmp -s one two || fail "job $2: other weights: $(diff one two | head -n 6)"
  for key in exact_match weights_hash checkpoint_step step; do
    [ -n "$(field $key <"$jobs/$1/state.json")" ] || fail "the undisturbed job's state has no $key"
    [ "$(field $key <"$jobs/$2/state.json")" = "$(field $key <"$jobs/$1/state.json")" ] || fail "job $2: $key differs"
  done
}

id=$(start_asking runner.checkpoint)
until_true "job $id wrote its checkpoint" has_whole_ckpt "$id" 0
kill -9 $(cat pids) 2>/dev/null || true # workers end with their runner: they may be gone
until_true "the processes of job $id are gone" are_gone $(cat pids)
wait_state "$id" LOST
[ -z "$(evals "$id")" ] || fail "the evaluation was over before the kill: it is too short for this test"
[ ! -e "$jobs/$id/weights.json" ] || fail "the job had ended before the kill"
stat -c %Y.%i "$jobs/$id/ckpt/ckpt-0/checkpoint.json" >saved

"$C" resume "$id" >/dev/null
"$C" wait "$id" >/dev/null || fail "resumed: $(job "$id" state) $(job "$id" reason)"
stat -c %Y.%i "$jobs/$id/ckpt/ckpt-0/checkpoint.json" | cmp -s - saved || fail "the checkpoint was written again"

base=$(done_job job.lua)
ends_like "$base" "$id"
"$C" export "$id" "$work/exported" >/dev/null || fail "the job cannot be exported"

id=$(start_asking runner.pause)
wait_state "$id" PAUSED
[ -z "$(evals "$id")" ] || fail "a job paused at its last step was evaluated"
"$C" resume "$id" >/dev/null
"$C" wait "$id" >/dev/null || fail "resumed: $(job "$id" state) $(job "$id" reason)"
[ "$(job "$id" state)" = DONE ] || fail "the paused job is $(job "$id" state)"
ends_like "$base" "$id"
echo "ok"
