-- exit 4: bad/slots_with_ranks_of_their_own_on_gpus.lua:5: cs.plan: plan.context_rows = 64: slots have ranks of their own on CPU ranks only yet, not on a h100-80g; leave it away
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1, cp = 2 } }, seq_tokens = 512, context_rows = 64,
  cluster = cs.cluster { device = "h100-80g", devices_per_node = 4 } }
