-- exit 1: bad/wrong_value.lua:6: cs.plan: 'model' must be made by cs.mllm, got cs.hf
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = llm, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
return plan
