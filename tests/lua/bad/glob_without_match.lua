-- exit 1: bad/glob_without_match.lua:5: model:train: model.rules[0].glob "llm.leyers.*" matches no layer; did you mean "llm.layers.0"?
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("llm.leyers.*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
return plan
