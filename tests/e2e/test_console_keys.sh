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
    batch_slots = 2, runs = true, simulate = 8, top = 4, compare = false },
  data = cs.data.llava { json = "data/train.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = cs.param("steps", 100), seed = 1,
}
L
python3 "$root/tests/e2e/console_keys.py" "$C" || fail "the console on a terminal"
"$C" wait 1 || fail "the job of a search"
[ "$(job 1 steps)" = 3 ] || fail "--set is forgotten"
