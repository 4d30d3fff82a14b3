#!/bin/bash
# What every planner chooses, run as a job: predicted beside measured, one line a planner:
#   tests/bench/planners.sh [--gpus N] [--wide] [--train GLOBS] [--steps N] [--seq N] [--slots N] [--cpu] [BUILD]
#   --gpus N  ranks of the cluster, GPUs or, with --cpu, CPU ranks (2)
#   --wide    widths of SigLIP-so400m and Llama-3.2-1B, four layers each (else the sample's model)
#   --train GLOBS  what trains (*)
#   --steps N  of each job (60); measured are the steps from the thirtieth on
#   --seq N   rows of a slot (576), --slots N a step's slots (8)
# First a profile of the model on this machine is measured. "predicted" is what the job says before its first step,
# "calibrated" after 22 (CPU ranks alone), "measured" the median. Exit: 0, 77 no GPU.
set -u
gpus=2 train='*' steps=60 seq=576 slots=8
numbers='gpus train steps seq slots'
. "$(dirname "$0")/../gpu/node.sh"
make_model "$size" 256
init=weights
[ "$size" = small ] || init=random
devices='cs.cluster "here"'
[ $is_cpu = no ] || devices="cs.cluster { device = \"cpu\", devices_per_node = $gpus }"

write_row() { # FILE PLANNER PROFILE
  cat >"$1" <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf { dir = "data/vision", init = "$init" }, projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf { dir = "data/llm", init = "$init" },
}:train("$train")
local found = cs.search { model = model, cluster = $devices, seq_tokens = $seq, batch_slots = $slots, planner = "$2", runs = true,
  compare = false, explain = false, top = 1, $3 }
return cs.job {
  plan = found:plan(1),
  data = cs.data.llava { json = "data/train.json", images = "data/images", template = { name = "chatml", default_system = "" } },
  optimizer = cs.optim.adamw { lr = 1e-3, warmup_steps = 50 }, lr = cs.lr.constant {}, batch_samples = $((slots * 4)), steps = $steps, seed = 1,
}
LUA
}
write_row profiled.lua cornstarch ''
"$C" profile profiled.lua --output profile.json >profile.txt 2>&1 || fail "profile: $(tail -n 3 profile.txt)"
printf '%-11s %9s %10s %9s %7s  %s\n' planner predicted calibrated measured off layout
for planner in cornstarch modules megatron disttrain entrain blind; do
  write_row "$planner.lua" $planner 'profile = "profile.json",'
  if ! id=$(submit "$planner.lua" 2>said); then
    printf '%-11s %s\n' $planner "$(grep -v '^warning' said | head -n 1)"
    continue
  fi
  "$C" wait "$id" >/dev/null || fail "$planner: $(job "$id" state) $(job "$id" reason)"
  "$C" logs "$id" --rank runner >runner.txt
  python3 - "$jobs/$id" $planner runner.txt <<'PY'
import json, re, statistics, sys
job, planner, log = sys.argv[1:]
plan = json.load(open(job + "/plan.json"))
rows = [json.loads(line) for line in open(job + "/journal")]
times = [r["step_ns"] / 1e6 for r in rows if r["type"] == "runner.step" and r.get("kind", "train") == "train"][30:]
measured = statistics.median(times)
calibrated = re.search(r"calibrated: predicted step (\S+) ms \(was", open(log).read())
predicted = plan["predicted_step_ns"] / 1e6
best = float(calibrated[1]) if calibrated else predicted
stages = ", ".join(f"{s['name']} {s['n_layers']}" for s in plan["stages"])
print(f"{planner:11} {predicted:9.3f} {best if calibrated else 0:10.3f} {measured:9.3f} "
      f"{100 * (best / measured - 1):6.1f}%  {plan['schedule']}, {plan['n_ranks']} ranks: {stages}")
PY
done
