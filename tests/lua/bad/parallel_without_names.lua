-- exit 1: bad/parallel_without_names.lua:5: cs.plan: 'parallel' has names: parallel = { vision = { pp = 1 }, llm = { pp = 2 } }
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, parallel = { { pp = 1 }, { pp = 2 } } }
