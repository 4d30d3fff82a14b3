-- exit 1: bad/missing_llm.lua:5: cs.mllm: llm is required: cs.hf "DIR"; or from = "DIR" for all that a directory holds
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
return cs.mllm { encoders = { vision = vision } }
