#!/bin/sh
# The Plan view of a real job in a real terminal: its parts, a preview that follows keys, what-if filled in row
# by row, and nothing of it reaching the job.
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

open_screen 100 30 "$console run shapes.lua"
wait_for '^ measured '
plan_before=$("$console" show 1 --json | tr -d ' \n' | sed 's/.*"plan_hash":"\([0-9a-f]*\)".*/\1/')

# straight to what-if; every row gets its figures, the search comes last
mux send-keys p
wait_for '\[9 Plan\]'
wait_for '\[what-if\]'
wait_for 'this plan +1f1b '
wait_for 'gpipe +gpipe .*%.*%'
wait_for 'search: no. 1'
wait_gone ' \.\.\. '

# a row looked at, then back
mux send-keys j j Enter t
wait_for 'gpipe, [0-9]+ slots'
wait_for '\[preview\]'
wait_for '^ critical path  0'
mux send-keys u
wait_for '\[own plan\]'
mux send-keys s s
wait_for 'interleaved, [0-9]+ slots'
mux send-keys u m
wait_for 'W weights  G gradients'
mux send-keys c
wait_for 'the step starts here'
mux send-keys b
wait_for '4 ranks  slot 1 of'
mux send-keys + +
wait_for '6 ranks  slot 1 of'
wait_for 'exact +1\.'

for size in 80x24 200x60 61x15 100x30; do
    mux resize-window -x "${size%x*}" -y "${size#*x}"
    wait_for 'q detach'
    wait_for '\[balance\]'
    # after 22 steps the costs are measured ones, under the open view
    [ "$size" != 200x60 ] || wait_for 'measured costs'
done
mux send-keys '?'
wait_for 'Plan: what it shows'
mux send-keys Escape
wait_gone 'Plan: what it shows'

plan_after=$("$console" show 1 --json | tr -d ' \n' | sed 's/.*"plan_hash":"\([0-9a-f]*\)".*/\1/')
[ -n "$plan_before" ] && [ "$plan_before" = "$plan_after" ] || fail "the plan changed: $plan_before $plan_after"
mux send-keys X
wait_for 'stop job 1: type its number'
mux send-keys 1 Enter
wait_for 'CANCELLED'
mux send-keys q
wait_for '^EXIT [0-9]'

# the same view of a script, without a daemon: nothing to give orders to
"$console" daemon stop >/dev/null
open_screen 100 30 "$console plan --view shapes.lua"
wait_for '\[timeline\] .*\[own plan\]'
wait_for 'script  shapes  NOT RUN'
mux send-keys w
wait_for 'search: no. 1'
mux send-keys X
wait_for 'nothing runs here'
mux send-keys 1
wait_for '\[1 Jobs\]'
mux send-keys Enter
wait_for '\[3 Pipeline\]'
mux send-keys q
wait_for '^EXIT 0'
[ -z "$(daemon_pids)" ] || fail "a daemon was started for a script"
echo ok
