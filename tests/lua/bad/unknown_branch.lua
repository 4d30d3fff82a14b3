-- exit 1: bad/unknown_branch.lua:6: cs.plan: plan.parallel.vison is no branch of the model; did you mean "vision"?; branches: vision, llm
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vison = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
return plan
