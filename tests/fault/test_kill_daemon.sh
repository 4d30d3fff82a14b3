#!/bin/bash
# kill -9 of the daemon while a job trains: training goes on without it; the next daemon finds the job, the same
# runner and every step it missed; a console that watches says so and comes back by itself.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
write_job long.lua vision=1 llm=2 slots=2 batch=16 steps=100000 # ends when it is stopped, however slow this is
# the step series of the daemon: 0..N-1, each once, N at least $2, with the losses of the journal
series_is_whole() {
  "$C" metrics "$1" --json >metrics.json
  python3 - metrics.json "$jobs/$1/journal" "$2" <<'PY'
import json, sys
doc = json.load(open(sys.argv[1]))
step, loss = doc["columns"].index("step"), doc["columns"].index("loss")
got = [(r[step], r[loss]) for r in doc["rows"]]
rows = [json.loads(l) for l in open(sys.argv[2]) if l.endswith("\n")]
want = [(r["step"], r["loss"]) for r in rows if r["type"] == "runner.step"]
assert [s for s, _ in got] == list(range(len(got))), got
assert len(got) >= int(sys.argv[3]), f"{len(got)} rows, {sys.argv[3]} steps were done before"
assert got == want[: len(got)], "losses differ from the journal's"
PY
}

# --- nobody watches
id=$(submit long.lua)
wait_step "$id" 5
runner=$(runner_pid "$id")
first=$(daemon_pid)
kill -9 "$first"
until_true "the daemon is gone" is_gone "$first"
at=$(rows "$id")
until_true "twenty steps without a daemon" has_rows "$id" $((at + 20))
expect_rc 5 "$C" daemon status
missed=$(rows "$id")
[ "$(job "$id" state)" = RUN ] || fail "the new daemon says the job is $(job "$id" state)"
second=$(daemon_pid)
[ "$second" != "$first" ] || fail "no new daemon"
[ "$(runner_pid "$id")" = "$runner" ] && ! is_gone "$runner" || fail "it is not the runner from before"
series_is_whole "$id" "$missed" || fail "the new daemon's series has holes"
wait_step "$id" $((missed + 5)) # its figures move
"$C" stop "$id" >/dev/null # and it takes orders
wait_state "$id" CANCELLED

# --- a console watches
write_job watched.lua vision=1 llm=2 slots=2 batch=16 steps=4000 # of which the console tells every 200th
"$C" run --plain watched.lua >console 2>&1 &
console=$!
until_true "the console tells a step" grep -q '^step ' console
id=$("$C" jobs --json | field jobs.0.id)
"$C" wait "$id" >waited 2>&1 &
waiter=$!
first=$(daemon_pid)
kill -9 "$first"
until_true "the console says that the daemon is gone" grep -q 'The daemon is gone; training goes on' console
until_true "the console is back" grep -q 'The daemon is back' console
step_since() { sed '1,/The daemon is back/d' console | grep -q '^step '; }
until_true "a step after the daemon was back" step_since
"$C" stop "$id" >/dev/null
rc=0
wait $console || rc=$?
[ $rc -eq 0 ] || fail "the console ended with $rc: $(tail -n 3 console)"
expect_text "next: cornstarch-console resume $id" console
expect_text "is CANCELLED" console
rc=0
wait $waiter || rc=$?
[ $rc -eq 0 ] || fail "wait ended with $rc: $(cat waited)"
expect_text "job $id: CANCELLED" waited
series_is_whole "$id" "$(rows "$id")" || fail "the series has holes"
[ "$(job "$id" generation)" = 0 ] || fail "the job was started again"
[ "$("$C" jobs --json | field jobs.2.id)" = "" ] || fail "more than two jobs"

# --- SIGTERM: clean end, the job goes on
id=$(submit long.lua)
wait_step "$id" 2
runner=$(runner_pid "$id")
pid=$(daemon_pid)
kill -TERM "$pid"
until_true "the daemon ends" is_gone "$pid"
[ ! -e "$sockets/daemon.sock" ] || fail "its socket is left"
! is_gone "$runner" || fail "the runner ended with the daemon"
wait_step "$id" 10
[ "$(runner_pid "$id")" = "$runner" ] || fail "it is not the runner from before"
"$C" stop "$id" >/dev/null
wait_state "$id" CANCELLED

# --- the runner ends while there is no daemon: the next one learns how it ended
write_job short.lua vision=1 llm=2 slots=2 batch=16 steps=60
id=$(submit short.lua)
until_true "its runner is there" test -e "$jobs/$id/state.json"
runner=$(runner_pid "$id")
kill -9 "$(daemon_pid)"
until_true "the job ends by itself" is_gone "$runner"
[ "$(job "$id" state)" = DONE ] || fail "a job that ended meanwhile is $(job "$id" state): $(job "$id" reason)"
series_is_whole "$id" 60 || fail "the series has holes"
expect_rc 0 "$C" wait "$id"
echo ok
