#!/bin/sh
# The screen in a real terminal: opens, takes every size, helps, survives a killed daemon, gives the terminal
# back.
. "$(dirname "$0")/tmux.sh"
console="$bin/cornstarch-console"

open_screen 100 30 "$console"
wait_for 'No jobs yet'
wait_for '^\[1 Jobs\]  2 Model   3 Pipeline   4 Tokens   5 Metrics   6 GPUs   7 Logs'
mux capture-pane -pe | grep -q "$(printf '\033')\[[0-9;]*36m" || fail "no colour on a terminal that has colours"

# every size: the key line is always the last line, tiny screens hold one line
for size in 80x24 200x60 61x15 100x30; do
    mux resize-window -x "${size%x*}" -y "${size#*x}"
    wait_for 'q detach'
    i=0
    while [ "$(mux capture-pane -p | grep -n 'q detach' | cut -d: -f1)" != "${size#*x}" ]; do
        i=$((i + 1))
        [ $i -lt 600 ] || fail "the key line is not at the bottom of $size"
        sleep 0.1
    done
done
mux resize-window -x 50 -y 10
wait_gone 'q detach'
wait_for '0 jobs'
mux resize-window -x 1 -y 1
mux resize-window -x 100 -y 30
wait_for 'q detach'

# views, help, sequences, a lone Escape
mux send-keys 3
wait_for '\[3 Pipeline\]'
mux send-keys '?'
wait_for 'Pipeline: what it shows'
mux send-keys Escape
wait_gone 'Pipeline: what it shows'
mux send-keys g t
wait_for '\[4 Tokens\]'
mux send-keys g t
wait_for '\[5 Metrics\]'
mux send-keys BTab
mux send-keys BTab
wait_for '\[3 Pipeline\]'
mux send-keys Escape
wait_for '\[1 Jobs\]'

# the daemon dies and comes back
for pid in $(daemon_pids); do
    kill -9 "$pid"
done
wait_for 'no connection: these values are old'
"$console" daemon start >/dev/null
wait_gone 'no connection'

mux send-keys q
wait_for '^EXIT 0'
mux capture-pane -p | grep -q 'q detach' && fail "the screen was left behind"

# a theme of 256 colours on a terminal that has 8: bold and reverse stand for them
mkdir -p "$work/config/cornstarch"
echo 'theme = safe' >"$work/config/cornstarch/console.conf"
open_screen 80 24 "TERM=xterm XDG_CONFIG_HOME=$work/config $console"
wait_for 'No jobs yet'
for pid in $(daemon_pids); do
    kill -9 "$pid"
done
wait_for 'no connection'
mux capture-pane -pe | grep -q "[[;]7m[^─]* no connection" || fail "the line of a lost connection is not in reverse"
"$console" daemon start >/dev/null
wait_gone 'no connection'
mux send-keys q
wait_for '^EXIT 0'

# no colours when they are not wanted; ASCII in a locale without UTF-8
open_screen 80 24 "NO_COLOR=1 LC_ALL=C $console"
wait_for 'No jobs yet'
mux capture-pane -pe | grep -q "$(printf '\033')\[[0-9;]*3[0-7]m" && fail "colours in spite of NO_COLOR"
wait_for '^--------'
mux send-keys C-c C-c
wait_for '^EXIT 0'

# a terminal that cannot place the cursor gets text
open_screen 80 24 "TERM=dumb $console"
wait_for '^EXIT 0'
echo ok
