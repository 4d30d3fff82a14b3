#!/bin/sh
# The daemon in the background: its starter's exit status, its log, reload, reopened logs, its end.
set -eu
bin=${CORNSTARCH_BIN:-build/bin}
dir=$(mktemp -d)
pid=
trap 'if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT INT TERM
fail() { echo "test_daemon_signals: $*" >&2; cat "$dir"/*.log >&2 || true; exit 1; }
# within MESSAGE COMMAND...: the command succeeds within a minute
within() {
    message=$1
    shift
    n=0
    until "$@"; do
        n=$((n + 1))
        [ $n -lt 600 ] || fail "$message"
        sleep 0.1
    done
}
gone() { ! kill -0 "$pid" 2>/dev/null; }

echo 'cpu-devices = 3' >"$dir/conf"
start() { "$bin/cornstarchd" -b -f "$dir/conf" --state-dir "$dir/state" --runtime-dir "$dir/run" "$@"; }

start --log-file "$dir/d.log" || fail "it did not start"
[ -S "$dir/run/daemon.sock" ] || fail "the starter returned before it listened"
find_pid() { pgrep -f "^$bin/cornstarchd -b -f $dir/conf"; }
pid=$(find_pid) || fail "it does not run"
[ "$(stat -c %a "$dir/run/daemon.sock")" = 600 ] || fail "the socket is open to others"
[ "$(stat -c %a "$dir/state")" = 700 ] || fail "the state directory is open to others"

rc=0
start --log-file "$dir/second.log" 2>"$dir/err" || rc=$?
[ $rc = 3 ] || fail "a second daemon ended with $rc, not 3"
grep -q 'another cornstarchd owns' "$dir/err" || fail "the second daemon did not say why"

echo 'cpu-devices = lots' >"$dir/conf"
kill -HUP "$pid"
within "a bad reload was not told" grep -q 'config.reload.*conf:1' "$dir/d.log"
echo 'cpu-devices = 5' >"$dir/conf"
kill -HUP "$pid"
within "a good reload was not told" sh -c "grep 'config.reload' '$dir/d.log' | grep -qv error="

mv "$dir/d.log" "$dir/old.log"
kill -USR1 "$pid"
within "the log was not opened again" [ -e "$dir/d.log" ]

kill -TERM "$pid"
within "it did not end" gone
pid=
[ ! -e "$dir/run/daemon.sock" ] || fail "its socket is left"
grep -q 'daemon.stop' "$dir/d.log" || fail "the end is not in the log"

start --idle-exit 300ms || fail "it did not start again"
pid=$(find_pid) || true
within "no log beside the state" [ -e "$dir/state/daemon.log" ]
[ -z "$pid" ] || within "it did not end by itself" gone
pid=
grep -q 'daemon.idle' "$dir/state/daemon.log" || fail "why it ended is not in the log"

echo 'nonsense' >"$dir/conf"
rc=0
"$bin/cornstarchd" -t -f "$dir/conf" 2>"$dir/err" || rc=$?
[ $rc = 1 ] && grep -q 'conf:1: expected key = value' "$dir/err" || fail "-t: $rc $(cat "$dir/err")"
