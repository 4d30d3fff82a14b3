-- exit 1: bad/mask_prefix_alone.lua:4: cs.mllm: model.modules[2].prefix is 16, but mask is "causal"; set mask to "prefix" or leave prefix out
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
return cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm", prefix = 16 }
