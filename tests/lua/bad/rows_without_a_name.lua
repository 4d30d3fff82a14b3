-- exit 1: bad/rows_without_a_name.lua:5: cs.plan: 'encoder_rows' has names: encoder_rows = { vision = 512 }
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, parallel = { vision = {}, llm = {} }, encoder_rows = { 512 } }
