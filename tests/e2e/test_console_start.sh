#!/bin/bash
# The private daemon: consoles that start at the same time start one; after kill -9 the next command
# starts another; daemon stop leaves nothing that listens, and who comes behind it waits; a daemon that
# cannot start says why.
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

# the state directory is a file
rc=0
: >"$work/file"
CORNSTARCH_STATE_DIR=$work/file "$C" jobs 2>"$work/err" || rc=$?
[ $rc -ne 0 ] && grep -q "$work/file" "$work/err" || fail "state directory is a file: exit $rc, $(cat "$work/err")"
# a state database that is garbage: the reason is the daemon's own
mkdir -p "$work/state2"
head -c 8192 /dev/urandom >"$work/state2/history.db"
rc=0
CORNSTARCH_STATE_DIR=$work/state2 "$C" jobs 2>"$work/err" || rc=$?
[ $rc -eq 5 ] && grep -q "cornstarchd did not start: ..*history.db" "$work/err" || fail "garbage history: exit $rc, $(cat "$work/err")"

# what a screen reader, a pipe and a dumb terminal get
"$C" </dev/null | grep -q '^ID  NAME' || fail "no list of jobs without a terminal"
"$C" --version | grep -q '^cornstarch-console ' || fail "no version"
"$C" help --completion bash | bash -n || fail "the completion is no bash"
echo ok
