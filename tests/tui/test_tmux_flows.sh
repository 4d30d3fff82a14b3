#!/bin/sh
# What two people do all day, in a real terminal. Who trains: is it learning and what is slow; which of two runs is
# better. Who runs the machines: why does this job wait, and make room; what failed, and let it go on.
. "$(dirname "$0")/tmux.sh"
console="$bin/cornstarch-console"
for program in cornstarch-runner cornstarch-feeder cornstarch-worker; do
    [ -x "$bin/$program" ] || exit 77
done
cd "$work"
mkdir -m 700 config
export XDG_CONFIG_HOME="$work/config" PAGER=cat
"$console" data make shapes build/shapes --train 128 --test 16 --seed 1 >/dev/null
"$console" model init "$source_dir/lua/examples/shapes-vision.json" build/shapes/vision --seed 1 >/dev/null
"$console" model init "$source_dir/lua/examples/shapes-llm.json" build/shapes/llm --seed 2 \
    --text build/shapes/text.txt --vocab 320 >/dev/null
sed -e 's/lr = 1e-3,/lr = cs.param("lr", 1e-3),/' "$source_dir/lua/examples/shapes.lua" >shapes.lua
sed -e 's/^  checkpoint.*//' -e 's/^  batch_samples = 24,/  batch_samples = 24, checkpoint = { every_steps = 5 },/' shapes.lua >long.lua
grep -q every_steps long.lua || fail "the script has no batch_samples to put a checkpoint behind"
"$console" run shapes.lua --set steps=30 --set lr=1e-3 --plain >/dev/null
"$console" run shapes.lua --set steps=30 --set lr=1e-5 --plain >/dev/null
"$console" submit long.lua --set steps=100000 >/dev/null

# who trains, first: is it learning, what is slow
open_screen 100 30 "$console"
wait_for '▸ 3 .*RUN'
mux send-keys Enter
wait_for '\[3 Pipeline\]'
wait_for '^ measured '
mux send-keys o
wait_for 'by bubble'
mux send-keys f llm Enter
wait_for 'of 3 with "llm"'
mux send-keys f Escape
wait_gone 'of 3 with'
mux send-keys 5
wait_for '\[5 Metrics\]'
mux send-keys Enter
mux send-keys 7
wait_for '\[7 Logs\]'
mux send-keys / loss Enter
mux send-keys '?'
wait_for 'Logs: what it shows'
mux send-keys Escape
wait_gone 'Logs: what it shows'

# second: which run is better, of the two that ended; figures from Lua
mux send-keys 1
wait_for '\[1 Jobs\]'
mux send-keys j Enter
wait_for 'job 2 '
mux send-keys 5
wait_for '\[5 Metrics\]'
mux send-keys o
wait_for 'lay over job 2'
mux send-keys j Enter
wait_for 'a +1 '
mux send-keys o
mux send-keys d
wait_for 'optimizer.lr'
mux send-keys 8
wait_for 'cs>'
mux send-keys 'cs.jobs()[3].loss < cs.jobs()[2].loss' Enter
wait_for '^ (true|false)'
mux send-keys Escape
wait_for 'i types again'
mux send-keys q
wait_for '^EXIT 0'

# who runs the machines, first: why does this wait; make room; it starts
for job in 4 5 6; do "$console" submit long.lua --set steps=100000 >/dev/null; done
open_screen 100 30 "$console"
wait_for 'QUEUED'
mux send-keys / QUEUED Enter
wait_for '▸ [56] .*QUEUED'
mux send-keys Enter
wait_for 'QUEUED .*it needs 3 CPU ranks'
mux send-keys 7
wait_for 'it needs 3 CPU ranks'
mux send-keys ':!queue' Enter
wait_for 'code 0; Enter goes back'
mux send-keys Enter
mux send-keys 1
mux send-keys G
wait_for '▸ 1 '
mux send-keys / 'RUN' Enter
wait_for '▸ [34] .*RUN'
id=$(mux capture-pane -p | sed -n 's/^▸ \([34]\) .*/\1/p')
mux send-keys X
wait_for "stop job $id: type its number"
mux send-keys "$id" Enter
wait_for "^.$id|▸ $id .*CANC"
i=0
until [ "$("$console" jobs --state RUN,STARTING 2>/dev/null | grep -c '^ *[0-9]')" -ge 2 ]; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "no queued job took the room"
    sleep 0.1
done

# second: what failed, and let it go on
id=$("$console" jobs --state RUN --json | sed -n 's/.*"id": \([0-9]*\).*/\1/p' | tail -1)
[ -n "$id" ] || fail "no job runs"
i=0
until "$console" show "$id" | grep -q '^checkpoint   step'; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "job $id has no checkpoint"
    sleep 0.1
done
for dir in /proc/[0-9]*; do
    if { tr '\0' ' ' <"$dir/cmdline"; } 2>/dev/null | grep -q "job $id rank 1\|jobs/$id/.*rank 1"; then victim=${dir#/proc/}; fi
done
[ -n "${victim:-}" ] || fail "no process of rank 1 of job $id"
kill -9 "$victim"
wait_for "job $id is FAILED"
mux send-keys '!'
wait_for 'why it failed'
wait_for 'go on from the checkpoint of step'
mux send-keys R
wait_for "resume job $id\?"
mux send-keys y
wait_gone 'why it failed'
mux send-keys 1
wait_for '\[1 Jobs\]'
mux send-keys q
wait_for '^EXIT 0'
for job in 3 4 5 6; do
    "$console" stop "$job" >/dev/null 2>&1 || true
    "$console" wait "$job" >/dev/null 2>&1 || true
done
echo ok
