#!/bin/sh
# The GPUs view in a real terminal, against the stand-in library: readings move while it is shown, keys sort and
# select, a lost card is told.
fake=${CORNSTARCH_BIN:-build/bin}/../lib/libfake-nvml.so
[ -e "$fake" ] || exit 77
CORNSTARCH_NVML=$(realpath "$fake")
export CORNSTARCH_NVML
unset CUDA_VISIBLE_DEVICES
. "$(dirname "$0")/tmux.sh"
console="$bin/cornstarch-console"
export CORNSTARCH_FAKE_NVML="$work/cards"
printf 'count 3\n0 busy 10\n1 busy 90\n2 busy 40\n' >"$work/cards"

open_screen 100 30 "$console"
wait_for 'No jobs yet'
mux send-keys 6
wait_for '\[6 GPUs\]'
wait_for '^.cuda:0 .* 10% .* 14.2/80 GiB +262/700 W +58 C'
wait_for 'load +[^ ]{3}' # three readings
printf 'count 3\n0 busy 10\n1 busy 90\n1 throttle 32\n1 temp 88\n2 busy 40\n2 mem_total error 15\n' >"$work/cards"
wait_for 'cuda:1 is held down: thermal  \(88 C'
wait_for 'cuda:2 cannot be read: GPU is lost'
mux send-keys o
wait_for 'sorted by load'
i=0
until [ "$(mux capture-pane -p | grep -E ' W +[0-9]+ C' | grep -Eo 'cuda:[0-9]' | tr -cd '0-9')" = 120 ]; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "not sorted by load"
    sleep 0.1
done
mux send-keys G
wait_for '^ cuda:0  NVIDIA H100'
for size in 80x24 200x60 61x15; do
    mux resize-window -x "${size%x*}" -y "${size#*x}"
    wait_for '14.2/80'
done
mux send-keys 1
wait_for '\[1 Jobs\]|1 Jobs'
mux send-keys q
wait_for '^EXIT 0'
"$console" dump --view gpus --size 90x20 | grep -Eq '^.cuda:0 .* 10%' || fail "no dump of the GPUs"
echo ok
