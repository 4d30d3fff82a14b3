-- exit 1: bad/rows_of_no_encoder.lua:5: cs.plan: plan.encoder_rows.visoin: plan.parallel has no encoder of that name; did you mean vision
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, parallel = { vision = {}, llm = {} }, encoder_rows = { visoin = 512 } }
