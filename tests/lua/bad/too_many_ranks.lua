-- exit 4: bad/too_many_ranks.lua:6: cs.plan: the plan needs 3 ranks but the cluster has 2 devices (1 node x 2 cpu); lower pp, or use a larger cluster
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, cluster = cs.cluster { devices_per_node = 2 }, seq_tokens = 512 }
return plan
