-- exit 1: bad/missing_llm.lua:5: cs.mllm: 'llm' is missing (the language model, cs.hf "DIR")
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
return cs.mllm { encoders = { vision = vision } }
