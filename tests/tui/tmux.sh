# Sourced by the terminal tests: a tmux server and a daemon of their own. Waits for markers on the screen,
# never for a time; the limit of 60 s is there against hangs only.
set -eu
command -v tmux >/dev/null || exit 77
bin=${CORNSTARCH_BIN:-build/bin}
for program in cornstarch-console cornstarchd; do
    [ -x "$bin/$program" ] || exit 77
done
bin=$(cd "$bin" && pwd)
source_dir=${CORNSTARCH_SOURCE:-$PWD}
work=$(mktemp -d "${TMPDIR:-/tmp}/cs-tui.XXXXXX")
mkdir -m 700 "$work/run" "$work/state"
: >"$work/empty.conf"
export CORNSTARCH_RUNTIME_DIR="$work/run" CORNSTARCH_STATE_DIR="$work/state" LC_ALL=C.UTF-8 TZ=UTC
unset NO_COLOR TMUX
export CORNSTARCH_NVML="${CORNSTARCH_NVML:-none}" # CPU ranks, also on a machine with GPUs

server=0
mux() {
    tmux -L "cs-tui-$$-$server" -f "$work/empty.conf" "$@"
}

# processes of this test: those whose command line or environment names its directory
daemon_pids() {
    for dir in /proc/[0-9]*; do
        if { tr '\0' ' ' <"$dir/cmdline"; } 2>/dev/null | grep -q "cornstarchd .*$work/"; then
            echo "${dir#/proc/}"
        fi
    done
}

clean() {
    mux kill-server 2>/dev/null || true
    "$bin/cornstarch-console" daemon stop >/dev/null 2>&1 || true
    for pid in $(daemon_pids); do
        kill -9 "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*"
    echo "--- the screen:"
    mux capture-pane -p || true
    exit 1
}

# wait_for PATTERN (of grep -E); wait_gone PATTERN
wait_for() {
    i=0
    until mux capture-pane -p | grep -Eq -- "$1"; do
        i=$((i + 1))
        [ $i -lt 600 ] || fail "never saw: $1"
        sleep 0.1
    done
}

wait_gone() {
    i=0
    while mux capture-pane -p | grep -Eq -- "$1"; do
        i=$((i + 1))
        [ $i -lt 600 ] || fail "still there: $1"
        sleep 0.1
    done
}

# open COLUMNS ROWS COMMAND: the command's exit code is shown as EXIT n when it ends
open_screen() {
    mux kill-server 2>/dev/null || true
    server=$((server + 1)) # the old one may still be going down
    mux new-session -d -x "$1" -y "$2" "$3; echo EXIT \$?; exec sleep 1000"
}
