-- exit 4: bad/dp_said_twice.lua:5: cs.plan: plan.dp is 4 and plan.parallel.llm.dp 2: both are the replicas of llm; give one of them
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, parallel = { vision = {}, llm = { dp = 2 } }, dp = 4 }
