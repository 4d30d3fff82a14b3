-- exit 1: bad/wrong_choice.lua:6: cs.plan: 'schedule' must be one of 1f1b|gpipe|interleaved|zb-h1|zb-h2|zb-h2-late|three-phase|anchors, got '1f1c'
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, schedule = "1f1c", seq_tokens = 512 }
return plan
