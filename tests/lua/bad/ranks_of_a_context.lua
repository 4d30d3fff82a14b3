-- exit 4: bad/ranks_of_a_context.lua:5: cs.plan: the plan needs 10 ranks but the cluster has 8 devices (1 node x 8 cpu); lower tp or cp, or use a larger cluster
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, cluster = cs.cluster { device = "cpu" }, parallel = { vision = { tp = 2 }, llm = { cp = 8 } } }
