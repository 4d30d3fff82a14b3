#!/bin/bash
# A console that is stopped (SIGSTOP) costs the job nothing: steps go on, the daemon keeps a bounded queue for it,
# and when it continues it is told that messages were dropped and shows the newest.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
mkdir -p "$work/config/cornstarch"
echo 'queue-entries = 16' >"$work/config/cornstarch/cornstarch.conf"
write_job notes.lua vision=1 llm=1 slots=1 batch=2 steps=1000000 'checkpoint={ every_steps = 1, keep = 1 }'
rss_kib() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }

"$C" run --plain notes.lua >console 2>&1 &
console=$!
until_true "the console tells a checkpoint" grep -q 'checkpoint of step' console
id=$("$C" jobs --json | field jobs.0.id)
daemon=$(daemon_pid)
kill -STOP $console
before=$(job "$id" step)
# more than socket buffers and queue hold: a checkpoint is two messages, a step two more
wait_step "$id" $((before + 300))
middle=$(rss_kib "$daemon")
wait_step "$id" $((before + 900))
after=$(rss_kib "$daemon")
[ $((after - middle)) -lt 4096 ] || fail "the daemon grew from $middle to $after KiB while a console slept"
[ "$(job "$id" state)" = RUN ] || fail "the job is $(job "$id" state)"
! is_gone $console || fail "the stopped console is gone"
told=$(grep -c 'checkpoint of step' console)
kill -CONT $console
until_true "the console tells the gap" grep -q '^[0-9]* messages were dropped: this console was too slow' console
dropped=$(sed -n 's/^\([0-9]*\) messages were dropped.*/\1/p' console | head -n 1)
[ "$dropped" -gt 0 ] || fail "a gap of $dropped messages"
after_gap() { sed '1,/messages were dropped/d' console | sed -n 's/.*checkpoint of step \([0-9]*\):.*/\1/p' | tail -n 1; }
is_fresh() { local at; at=$(after_gap); [ -n "$at" ] && [ "$at" -ge $((before + 900)) ]; }
until_true "fresh values after the gap" is_fresh
[ "$(grep -c 'checkpoint of step' console)" -gt "$told" ] || fail "nothing more was told"
kill -INT $console
rc=0
wait $console || rc=$?
[ $rc -eq 0 ] || fail "Ctrl-C: exit $rc"
"$C" stop "$id" --now >/dev/null
wait_state "$id" CANCELLED
echo "ok: $dropped messages dropped"
