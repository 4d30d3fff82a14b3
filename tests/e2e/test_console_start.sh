#!/bin/bash
# The private daemon: consoles that start at the same time start one; after kill -9 the next command
# starts another; daemon stop leaves nothing that listens, and who comes behind it waits; a daemon that
# cannot start says why; sockets that are removed come back, and runtime directories have a checked
# place; plans are made for what the daemon offers.
set -eu
C=$CORNSTARCH_BIN/cornstarch-console
work=$(mktemp -d)
export CORNSTARCH_RUNTIME_DIR=$work/run CORNSTARCH_STATE_DIR=$work/state
trap '"$C" daemon stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
pid_of() { sed 's/.*process \([0-9]*\),.*/\1/' "$1"; }

jobs=
for i in 1 2 3 4 5 6; do
  "$C" daemon start >"$work/out$i" 2>&1 &
  jobs="$jobs $!"
done
for j in $jobs; do wait "$j" || fail "a console could not start: $(cat "$work"/out*)"; done
pids=$(for i in 1 2 3 4 5 6; do pid_of "$work/out$i"; done | sort -u)
[ "$(echo "$pids" | wc -l)" -eq 1 ] || fail "several daemons: $pids"

kill -9 "$pids"
"$C" jobs --json | grep -q '"jobs": \[\]' || fail "no list after kill -9"
"$C" daemon status >"$work/status"
[ "$(pid_of "$work/status")" != "$pids" ] || fail "the killed daemon answers"

"$C" daemon stop
rc=0
"$C" daemon status 2>"$work/err" || rc=$?
[ $rc -eq 5 ] || fail "after daemon stop: exit $rc"
rc=0
"$C" daemon stop 2>/dev/null || rc=$?
[ $rc -eq 5 ] || fail "daemon stop without a daemon: exit $rc"

# a daemon that leaves has taken its socket away and owns its directories for a while: the next waits
python3 - "$work/run/daemon.lock" "$work/held" <<'PY' &
import fcntl, sys, time
with open(sys.argv[1], "r+") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    open(sys.argv[2], "w").close()
    time.sleep(1.5)
PY
until [ -e "$work/held" ]; do sleep 0.02; done
"$C" jobs >/dev/null 2>"$work/err" || fail "the daemon before was leaving: $(cat "$work/err")"
for i in 1 2 3 4 5; do
  "$C" daemon stop >/dev/null && "$C" jobs >/dev/null 2>"$work/err" || fail "after daemon stop $i: $(cat "$work/err")"
done
"$C" daemon stop >/dev/null

# the daemon itself reads what consoles read
mkdir -m 700 "$work/run3"
CORNSTARCH_STATE_DIR=$work/state3 CORNSTARCH_RUNTIME_DIR=$work/run3 "$CORNSTARCH_BIN/cornstarchd" --background
[ -S "$work/run3/daemon.sock" ] && [ -e "$work/state3/history.db" ] || fail "cornstarchd is not where the variables say"
CORNSTARCH_STATE_DIR=$work/state3 CORNSTARCH_RUNTIME_DIR=$work/run3 "$C" daemon stop >/dev/null || fail "nobody answers there"
rc=0
CORNSTARCH_STATE_DIR=state3 "$CORNSTARCH_BIN/cornstarchd" --background 2>"$work/err" || rc=$?
[ $rc -ne 0 ] && grep -q 'CORNSTARCH_STATE_DIR must be an absolute path' "$work/err" || fail "a relative state directory: exit $rc"

# the state directory is a file
rc=0
: >"$work/file"
CORNSTARCH_STATE_DIR=$work/file "$C" jobs 2>"$work/err" || rc=$?
[ $rc -ne 0 ] && grep -q "$work/file" "$work/err" || fail "state directory is a file: exit $rc, $(cat "$work/err")"
# a state database that is garbage is set aside, and who starts the daemon is told
mkdir -p "$work/state2"
head -c 8192 /dev/urandom >"$work/state2/history.db"
CORNSTARCH_STATE_DIR=$work/state2 "$C" jobs >/dev/null 2>"$work/err" || fail "garbage history: $(cat "$work/err")"
grep -q 'the history was damaged and is kept as history.db.damaged-' "$work/err" || fail "not told: $(cat "$work/err")"
CORNSTARCH_STATE_DIR=$work/state2 "$C" daemon stop >/dev/null

# what was removed under a daemon that runs comes back, and no second daemon is started
"$C" daemon start >"$work/status"
first=$(pid_of "$work/status")
is_first() { # WHAT
  "$C" daemon status >"$work/status" 2>"$work/err" || fail "$1: $(cat "$work/err")"
  [ "$(pid_of "$work/status")" = "$first" ] || fail "$1: another daemon"
}
rm "$work/run/daemon.sock"
"$C" jobs >/dev/null || fail "after its socket was removed"
is_first "socket removed"
rm -r "$work/run"
"$C" jobs >/dev/null || fail "after its runtime directory was removed"
is_first "runtime directory removed"
rm "$work/state/daemon.lock" "$work/run/daemon.sock"
"$C" jobs >/dev/null || fail "after its lock was removed"
is_first "lock removed"
# a terminal with another runtime directory finds it by the state directory
CORNSTARCH_RUNTIME_DIR=$work/elsewhere "$C" daemon status >"$work/status" 2>&1 || fail "elsewhere: $(cat "$work/status")"
[ "$(pid_of "$work/status")" = "$first" ] || fail "elsewhere: another daemon"
# one that does not answer is named, with what to do
kill -STOP "$first"
rc=0
"$C" doctor >"$work/said" 2>&1 || rc=$?
kill -CONT "$first"
[ $rc -eq 1 ] && grep -q "^BAD  *daemon .*process $first.*kill -CONT $first" "$work/said" || fail "doctor of a stopped daemon: $rc $(cat "$work/said")"
"$C" doctor >"$work/said" || fail "doctor: $(cat "$work/said")"
"$C" daemon stop >/dev/null

# plans are made for what the daemon offers, not for what is usual
mkdir -p "$work/config/cornstarch"
echo 'cpu-devices = 2' >"$work/config/cornstarch/cornstarch.conf"
root=${CORNSTARCH_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
(cd "$work" && "$C" data make shapes data --train 8 --test 4 --seed 1 >/dev/null &&
  "$C" model init "$root/lua/examples/shapes-llm.json" llm --seed 2 --text data/text.txt --vocab 384 >/dev/null) || fail "no model"
cat >"$work/wide.lua" <<LUA
local cs = require "cornstarch"
return cs.plan { model = cs.mllm { llm = cs.hf "$work/llm" }:train("*"), parallel = { llm = { pp = 3 } }, seq_tokens = 256 }
LUA
"$C" plan "$work/wide.lua" >/dev/null || fail "a plan without a daemon"
XDG_CONFIG_HOME=$work/config "$C" daemon start >/dev/null
for how in "plan" "plan --view" "lua"; do
  rc=0
  "$C" $how "$work/wide.lua" >"$work/said" 2>&1 || rc=$?
  [ $rc -ne 0 ] && grep -q 'has 2 devices' "$work/said" || fail "$how: $rc $(head -n 3 "$work/said")"
done
"$C" daemon stop >/dev/null

# where the session has no directory, and where its path is long
unset CORNSTARCH_RUNTIME_DIR
private() { # doctor and commands agree: works WHAT VARIABLE=VALUE...
  "$C" doctor >"$work/said" 2>&1 || fail "doctor $1: $(cat "$work/said")"
  "$C" jobs >/dev/null 2>"$work/err" || fail "jobs $1: $(cat "$work/err")"
  "$C" daemon stop >/dev/null || fail "stop $1"
}
mkdir -m 700 "$work/tmp"
long=$work/$(printf '%0150d' 0)
mkdir -m 700 "$long"
(export XDG_RUNTIME_DIR=$long TMPDIR=$work/tmp && private "with a long path")
[ -d "$long/cornstarch" ] || fail "the long path was not used"
(export XDG_RUNTIME_DIR=$work/none TMPDIR=$work/tmp && private "without a session" && grep -q 'because .*none' "$work/said") || fail "why it is elsewhere: $(cat "$work/said")"
[ -d "$work/tmp/cornstarch-$(id -u)" ] || fail "no private directory"
rm -r "$work/tmp/cornstarch-$(id -u)"
ln -s "$long" "$work/tmp/cornstarch-$(id -u)"
for command in doctor jobs; do
  rc=0
  XDG_RUNTIME_DIR=$work/none TMPDIR=$work/tmp "$C" $command >"$work/said" 2>&1 || rc=$?
  [ $rc -ne 0 ] && grep -q 'is not a directory' "$work/said" || fail "$command in a link: $rc $(cat "$work/said")"
done
export CORNSTARCH_RUNTIME_DIR=$work/run

# what a screen reader, a pipe and a dumb terminal get
"$C" </dev/null | grep -q '^ID  NAME' || fail "no list of jobs without a terminal"
for words in "--color never" "--color=never" "--glyphs ascii" "--plain --color never --glyphs utf8"; do
  "$C" $words </dev/null | grep -q '^ID  NAME' || fail "$words: no list of jobs"
done
rc=0
"$C" --color never jbos </dev/null >"$work/said" 2>&1 || rc=$?
[ $rc -eq 1 ] && grep -q 'jobs' "$work/said" || fail "a command behind --color WORD: $rc $(cat "$work/said")"
"$C" help --json | grep -q '"name": "checkpoint"' || fail "help --json has no commands"
"$C" help logs --json >"$work/said"
grep -q '"letter": "f"' "$work/said" && ! grep -q '"name": "checkpoint"' "$work/said" || fail "help logs --json: $(cat "$work/said")"
"$C" --version | grep -q '^cornstarch-console ' || fail "no version"
"$C" help --completion bash | bash -n || fail "the completion is no bash"
echo ok
