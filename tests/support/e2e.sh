# Sourced by the tests of real programs (bash): a private daemon with its own directories, a small data set
# with two model directories, helpers that wait for states, and an end that leaves no process behind.
# Nothing waits for a time; LIMIT_S is there against hangs only.
#   . "$(dirname "$0")/../support/e2e.sh"
set -euo pipefail
bin=${CORNSTARCH_BIN:-build/bin}
for program in cornstarch-console cornstarchd cornstarch-runner cornstarch-feeder cornstarch-worker; do
  [ -x "$bin/$program" ] || { echo "$bin/$program is not there: build it, or set CORNSTARCH_BIN"; exit 1; }
done
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
bin=$(cd "$bin" && pwd)
C=$bin/cornstarch-console
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LIMIT_S=${E2E_LIMIT_S:-240}

work=$(mktemp -d "${TMPDIR:-/tmp}/cs-e2e.XXXXXX")
mkdir -m 700 "$work/run" "$work/state" "$work/config"
unset CORNSTARCH_RUNTIME_DIR CORNSTARCH_STATE_DIR CORNSTARCH_RUNNER
export XDG_RUNTIME_DIR=$work/run XDG_STATE_HOME=$work/state XDG_CONFIG_HOME=$work/config
export CORNSTARCH_NVML=${CORNSTARCH_NVML:-none} # CPU ranks, also on a machine with GPUs
export E2E_TAG=$work LC_ALL=C.UTF-8 NO_COLOR=1
sockets=$work/run/cornstarch
jobs=$work/state/cornstarch/jobs
cd "$work"

# our_pids [NAME]: processes that carry this test's tag in their environment; with their program's name
our_pids() {
  local dir exe
  for dir in /proc/[0-9]*; do
    [ "${dir#/proc/}" != $$ ] || continue
    exe=$(readlink "$dir/exe" 2>/dev/null) || continue
    case $exe in "$bin/${1:-cornstarch}"*) ;; *) continue ;; esac
    if { tr '\0' '\n' <"$dir/environ"; } 2>/dev/null | grep -qx "E2E_TAG=$work"; then echo "${dir#/proc/}"; fi
  done
}

cleanup() {
  local rc=$? pid round
  trap - EXIT
  set +e
  for round in 1 2 3; do # a daemon may be starting a runner meanwhile
    for pid in $(our_pids); do kill -9 "$pid" 2>/dev/null; done
  done
  if [ -n "${E2E_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
  exit $rc
}
trap cleanup EXIT
trap 'exit 1' INT TERM
trap 'echo "FAILED: line $LINENO of $0: $BASH_COMMAND" >&2' ERR
set -E

fail() { # to stderr: it is also called in $(...)
  local dir
  exec >&2
  trap - ERR
  echo "FAILED: $*"
  "$C" jobs 2>&1 || true
  for dir in "$jobs"/*/; do
    grep -q '"state": "DONE"' "$dir/state.json" 2>/dev/null && continue
    echo "--- $dir"
    tail -qn 3 "$dir"/logs/*.log 2>/dev/null || true
    grep -h '"runner.note"\|"reason"' "$dir/journal" 2>/dev/null | tail -n 5 || true
  done
  tail -n 5 "$work/state/cornstarch/daemon.log" 2>/dev/null || true
  exit 1
}

# until_true WHAT COMMAND...: the command succeeds within the limit
until_true() {
  local what=$1 end=$((SECONDS + LIMIT_S))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "never: $what"
    sleep 0.05
  done
}

# expect_rc N COMMAND...: exit code N; its output goes to $work/said
expect_rc() {
  local want=$1 rc=0
  shift
  "$@" >"$work/said" 2>&1 || rc=$?
  [ $rc -eq "$want" ] || fail "exit $rc, not $want: $* ($(tail -n 3 "$work/said"))"
}

expect_text() { # TEXT [FILE]
  grep -qF -- "$1" "${2:-$work/said}" || fail "no '$1' in: $(tail -n 20 "${2:-$work/said}")"
}

# field PATH < JSON: job.state, rows.0.2; empty for null and for what is not there
field() { python3 "$root/tests/e2e/jobs.py" field "$1"; }
job() { "$C" show "$1" --json | field "job.$2"; } # job ID KEY
jobs_py() { python3 "$root/tests/e2e/jobs.py" "$@"; }

state_is() { [ "$(job "$1" state)" = "$2" ]; }
wait_state() { until_true "job $1 is $2" state_is "$1" "$2"; }
step_is() { local at; at=$(job "$1" step) && [ "${at:-0}" -ge "$2" ]; }
wait_step() { until_true "job $1 finished $2 steps" step_is "$1" "$2"; } # counted from 1

submit() { "$C" submit "$@" --json | field job.id; } # SCRIPT [OPTION...]
# done_job SCRIPT: run to the end, print its id
done_job() {
  local id
  id=$(submit "$1")
  "$C" wait "$id" >/dev/null || fail "job $id of $1: exit $?, $(job "$id" reason)"
  echo "$id"
}

runner_pid() { field pid <"$jobs/$1/state.json"; }
daemon_pid() { "$C" daemon status --json | field pid; }
# children of a process by program: children PID cornstarch-worker
children() {
  local pid
  for pid in $(pgrep -P "$1" || true); do
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in "$bin/$2") echo "$pid" ;; esac
  done
}
rows() { jobs_py rows "$jobs/$1" | wc -l; } # steps in the journal, whether or not a daemon runs
has_rows() { [ "$(rows "$1")" -ge "$2" ]; }
has_whole_ckpt() { [ -e "$jobs/$1/ckpt/ckpt-$2/checkpoint.json" ]; }
is_gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
are_gone() { local pid; for pid; do is_gone "$pid" || return 1; done; }

# make_data [TRAIN]: data/{train,test}.json, data/images, data/vision, data/llm
make_data() {
  "$C" data make shapes data --train "${1:-64}" --test 32 --seed 1 >/dev/null
  "$C" model init "$root/lua/examples/shapes-vision.json" data/vision --seed 1 >/dev/null
  "$C" model init "$root/lua/examples/shapes-llm.json" data/llm --seed 2 --text data/text.txt --vocab 384 >/dev/null
}

# write_job FILE KEY=VALUE...: a job script on data/; values are Lua, see the defaults
write_job() {
  local file=$1 pair
  local -A v=([train]=':train("*")' [vision]=1 [llm]=1 [modality]='"encoder-parallel"' [slots]=2 [seq]=512
    [batch]=4 [steps]=20 [seed]=1 [llm_dir]='"data/llm"' [vision_dir]='"data/vision"' [json]='"data/train.json"'
    [images]='"data/images"' [checkpoint]='{}' [eval]=nil [lr]=2e-3 [data]='' [plan]='' [name]=nil)
  shift
  for pair; do v[${pair%%=*}]=${pair#*=}; done
  cat >"$file" <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf(${v[vision_dir]}), projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf(${v[llm_dir]}),
}${v[train]}
return cs.job {
  name = ${v[name]},
  plan = cs.plan {
    model = model, parallel = { vision = { pp = ${v[vision]} }, llm = { pp = ${v[llm]} } }, modality = ${v[modality]},
    seq_tokens = ${v[seq]}, slots = ${v[slots]}, ${v[plan]}
  },
  data = cs.data.llava { json = ${v[json]}, images = ${v[images]}, ${v[data]} },
  eval = ${v[eval]}, checkpoint = ${v[checkpoint]},
  optimizer = cs.optim.adamw { lr = ${v[lr]} }, batch_samples = ${v[batch]}, steps = ${v[steps]}, seed = ${v[seed]},
}
LUA
}
