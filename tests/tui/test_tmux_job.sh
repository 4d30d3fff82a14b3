#!/bin/sh
# Submit and watch in a real terminal: a real job on CPU ranks, the daemon killed under it, the console coming
# back by itself, the job stopped by typing its number, its logs in a pager that is left early.
. "$(dirname "$0")/tmux.sh"
console="$bin/cornstarch-console"
for program in cornstarch-runner cornstarch-feeder cornstarch-worker; do
    [ -x "$bin/$program" ] || exit 77
done
cd "$work"
"$console" data make shapes build/shapes --train 128 --test 16 --seed 1 >/dev/null
"$console" model init "$source_dir/lua/examples/shapes-vision.json" build/shapes/vision --seed 1 >/dev/null
"$console" model init "$source_dir/lua/examples/shapes-llm.json" build/shapes/llm --seed 2 \
    --text build/shapes/text.txt --vocab 320 >/dev/null
sed -e 's/^  steps = .*/  steps = 100000,/' "$source_dir/lua/examples/shapes.lua" >shapes.lua

step_now() {
    mux capture-pane -p | sed -n 's/.* RUN  \([0-9]*\)\/100000.*/\1/p' | head -1
}

open_screen 100 30 "$console run shapes.lua"
wait_for '\[3 Pipeline\]'
wait_for '^ measured '
wait_for '1 llm.0 .*[1-9].*[a-z].*%'
mux send-keys 2
wait_for 'vision.projector .*\[TRAIN  \]'
mux send-keys 7
wait_for '\[7 Logs\]'
mux send-keys 3
wait_for '\[3 Pipeline\]'

before=$(step_now)
[ -n "$before" ] || fail "no step in the header"
for pid in $(daemon_pids); do
    kill -9 "$pid"
done
wait_for 'no connection: these values are old'
"$console" daemon start >/dev/null
wait_gone 'no connection'
i=0
until after=$(step_now) && [ -n "$after" ] && [ "$after" -gt "$before" ]; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "no step after the daemon came back"
    sleep 0.1
done

mux send-keys X
wait_for 'stop job 1: type its number'
mux send-keys 9 Enter
wait_for 'nothing was done'
mux send-keys X
wait_for 'stop job 1: type its number'
mux send-keys 1 Enter
wait_for 'CANCELLED'
mux send-keys q
wait_for '^EXIT [0-9]'

# a pager that leaves before it has read all, which is more than a pipe holds, gives the screen back
log=$(find "$work/state" -path '*/jobs/1/logs/0.log')
[ -n "$log" ] || fail "no log of rank 0"
now=$(date -u +%Y-%m-%dT%H:%M:%S.000Z)
i=0
while [ $i -lt 1500 ]; do
    i=$((i + 1))
    echo "$now info line number $i of many that are longer than a pipe is wide"
done >>"$log"
open_screen 100 30 "PAGER='head -1' $console"
wait_for 'CANCELLED'
mux send-keys Enter
wait_for '\[3 Pipeline\]'
mux send-keys 7
wait_for 'line number 1500 '
mux send-keys '|'
mux send-keys 1
wait_for '\[1 Jobs\]'
mux send-keys q
wait_for '^EXIT [0-9]'
echo ok
