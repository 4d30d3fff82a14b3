#!/bin/bash
# The screen on a real terminal: what is typed, pasted, clicked and bound to keys.
. "$(dirname "$0")/../support/e2e.sh"
unset NO_COLOR
make_data
cat >"a search.lua" <<'L'
local cs = require "cornstarch"
local model = cs.mllm {
  llm = cs.hf "data/llm",
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
}:train "*"
return cs.job {
  plan = cs.search { model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 2 }, seq_tokens = 576,
    batch_slots = 2, runs = true, modality = "encoder-parallel", simulate = 8, top = 4, compare = false },
  data = cs.data.llava { json = "data/train.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = cs.param("steps", 100), seed = 1,
}
L
python3 "$root/tests/e2e/console_keys.py" "$C" || fail "the console on a terminal"
"$C" wait 1 || fail "the job of a search"
[ "$(job 1 steps)" = 3 ] || fail "--set is forgotten"

# --- a plan that a search found has the same figures in its list, in `plan` and in the Plan view: replicas of a
# pipeline, parts of a context and shared matrices too
cat >found.lua <<'L'
local cs = require "cornstarch"
local model = cs.mllm {
  llm = cs.hf "data/llm",
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
}:train "*"
local found = cs.search { model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 8 }, seq_tokens = 576,
  batch_slots = 8, runs = true, simulate = 30, top = 12, compare = false,
  parallel = { llm = { tp = cs.param("tp", 1) } } }
if cs.param("alone", false) then return found end
return cs.job { plan = found, data = cs.data.llava { json = "data/train.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 8, steps = 1, seed = 1 }
L
for tp in 1 2; do
  "$C" plan found.lua --json --set alone=true --set tp=$tp >rows.json
  n=$(field plans <rows.json | python3 -c 'import ast, sys; print(len(ast.literal_eval(sys.stdin.read())))')
  for i in $(seq 1 3 "$n"); do
    "$C" plan found.lua --json --set tp=$tp --pick "$i" >one.json 2>/dev/null
    for key in step_ns:step_ns peak_memory_bytes:memory_bytes; do
      [ "$(field plans.$((i - 1)).job.${key%:*} <rows.json)" = "$(field preflight.${key#*:} <one.json)" ] ||
        fail "plan $i with tp $tp: ${key%:*} of the list and of the plan differ"
    done
    ms=$(python3 -c 'import sys; print("%.2f" % (int(sys.argv[1]) / 1e6))' "$(field preflight.step_ns <one.json)")
    "$C" plan found.lua --view --set tp=$tp --pick "$i" >view 2>/dev/null
    grep -q "^ step $ms ms " view || fail "plan $i with tp $tp takes $ms ms, the view says $(grep -m1 '^ step' view)"
  done
  grep -q ' dp [24]' <("$C" plan found.lua --set alone=true --set tp=$tp) || fail "no plan has replicas"
done
