#!/bin/bash
# A long run through the daemon: tests/gpu/soak.sh [--minutes M] [--gpus N] [--wide] [--cpu] [BUILD]
#   --minutes M  how long (default 8; fractions are fine)
#   --gpus N     ranks of the job (default 1: everything on one)
#   --wide       widths of SigLIP-so400m and Llama-3.2-1B, four layers each, instead of the sample job's
#   --cpu        CPU ranks, to try the script where there is no GPU
#   BUILD        build directory with bin and lib (default: build)
# Passes when, once the run is warm, memory of every process and GPU stays where it is (third against fourth quarter:
# 1 % or 4 MiB more; without the shared rings and slots, whose size is fixed), the step time does not drift (second
# against fourth quarter: 3 %), the loss is a number throughout and falls, and nothing is left afterwards. The machine
# must be otherwise idle: beside the step time stand the load average and the clock of the first GPU.
# Prints the figures. Exit: 0 passed, 1 not, 77 no such GPUs.
set -u
numbers="minutes gpus" minutes=8 gpus=1
. "$(dirname "$0")/node.sh"
seconds=$(python3 -c 'import sys; print(int(60 * float(sys.argv[1])))' "$minutes")
[ "$seconds" -ge 20 ] || fail "--minutes $minutes: at least 20 s are needed to see anything"
make_model $size 2048
if [ $size = wide ]; then
  write_node_job soak.lua "$gpus" name='"soak"' init=random seq=2304 slots=4 batch=24 lr=2e-4 steps=100000000
else
  write_node_job soak.lua "$gpus" name='"soak"' batch=24 slots=6 steps=100000000 \
    checkpoint='{ every_steps = 2000, keep = 2 }' \
    eval='{ data = samples "test", every_steps = 2000, metric = "exact_match", max_samples = 128 }'
fi
remember_memory
id=$(submit soak.lua)
LIMIT_S=${E2E_LIMIT_S:-120} wait_training "$id" 30
runner=$(runner_pid "$id")
daemon=$(our_pids cornstarchd)
feeder=$(children "$runner" cornstarch-feeder)
workers=($(children "$runner" cornstarch-worker))
[ ${#workers[@]} -eq "$gpus" ] || fail "${#workers[@]} workers, not $gpus"

# what a process holds by itself; the shared rings and slots are of fixed size, and count as they are first touched
rss() { awk '/^Rss(Anon|File):/ { n += $2 } END { print n }' "/proc/$1/status"; }
sample() { # one line a process and GPU: ms, what, KiB
  local ms k
  ms=$(now_ms)
  for k in daemon runner feeder; do echo "$ms $k $(rss "${!k}")"; done
  for k in "${!workers[@]}"; do echo "$ms worker-$k $(rss "${workers[k]}")"; done
  gpu_memory | awk -v ms="$ms" '{ print ms, "gpu-" NR - 1, $1 * 1024 }'
  # what else keeps the machine busy: a step time that drifts with it says nothing of ours
  awk -v ms="$ms" '{ print ms, "load", int(100 * $1) }' /proc/loadavg
  [ $is_cpu = yes ] || nvidia-smi --query-gpu=clocks.sm --format=csv,noheader,nounits | awk -v ms="$ms" 'NR == 1 { print ms, "clock", $1 }'
}
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
  sample >>samples || fail "a process is gone: $(job "$id" state), $(job "$id" reason)"
  sleep 1
done
state_is "$id" RUN || fail "the job is $(job "$id" state): $(job "$id" reason)"
if [ $size = wide ]; then "$C" stop "$id" --now >/dev/null; else "$C" stop "$id" >/dev/null; fi
wait_state "$id" CANCELLED
until_true "the job's processes are gone" are_gone "$runner" "$feeder" "${workers[@]}"
until_true "the GPUs are free" are_gpus_free

python3 - samples "$jobs/$id/journal" <<'PY' || exit 1
import json, math, statistics, sys
from collections import defaultdict

series = defaultdict(list)
for line in open(sys.argv[1]):
    ms, name, value = line.split()
    series[name].append((int(ms), int(value)))
clock = series.pop("clock", [])
load = series.pop("load", [])
first = min(s[0][0] for s in series.values())
last = max(s[-1][0] for s in series.values())
quarter = lambda ms: min(3, int(4 * (ms - first) / (last - first + 1)))
def show(name, quarters, form="10.1f"):
    print(f"{name:<14}" + "".join(f"{statistics.median(x):>{form}}" for x in quarters) + f"{max(map(max, quarters)):>{form}}")

bad = []
print(f"{'memory, MiB':<14}{'1st':>10}{'2nd':>10}{'3rd':>10}{'4th q.':>10}{'most':>10}")
for name, points in series.items():
    q = [[v / 1024 for t, v in points if quarter(t) == i] for i in range(4)]
    if any(not x for x in q):
        sys.exit(f"too few samples of {name}")
    before, after = statistics.median(q[2]), statistics.median(q[3])
    if not after - before <= max(0.01 * before, 4):
        bad.append(f"{name} grew by {after - before:.1f} MiB in the last half")
    show(name, q)

rows = []
for line in open(sys.argv[2], "rb"):
    if not line.endswith(b"\n"):
        break
    row = json.loads(line)
    if row["type"] == "runner.step" and row.get("kind") == "train":
        rows.append(row)
losses = [r.get("loss") for r in rows]
if not rows or any(not isinstance(x, (int, float)) or not math.isfinite(x) for x in losses):
    sys.exit("a loss is missing or not a number")
inside = [r for r in rows if first <= r["wall_ns"] / 1e6 <= last]
q = [[r for r in inside if quarter(r["wall_ns"] / 1e6) == i] for i in range(4)]
if any(len(x) < 10 for x in q):
    sys.exit("too few steps")
steps = [[r["step_ns"] / 1e6 for r in x] for x in q]
drift = statistics.median(steps[3]) / statistics.median(steps[1]) - 1
show("step, ms", steps, "10.3f")
show("data wait, ms", [[(r.get("data_wait_us") or 0) / 1e3 for r in x] for x in q], "10.3f")
show("load average", [[v / 100 for t, v in load if quarter(t) == i] for i in range(4)], "10.2f")
if clock:
    show("gpu-0, MHz", [[v for t, v in clock if quarter(t) == i] for i in range(4)], "10.0f")
if not abs(drift) <= 0.03:
    bad.append(f"the step time drifts by {100 * drift:+.1f} %")
early, late = statistics.median(losses[:10]), statistics.median(losses[-50:])
if not late < early:
    bad.append(f"the loss goes from {early:.3f} to {late:.3f}")
joules = [r["energy_mj"] / 1e3 for r in inside if isinstance(r.get("energy_mj"), int) and r["energy_mj"] >= 0]
print(f"{len(rows)} steps, {len(inside)} of them in {(last - first) / 1e3:.0f} s, drift {100 * drift:+.2f} %, loss {early:.3f} -> {late:.3f}"
      + (f", {sum(joules) / len(inside):.2f} J/step" if joules else ""))
for text in bad:
    print("FAILED:", text)
sys.exit(bool(bad))
PY
echo "ok: memory and step time stay where they are"
