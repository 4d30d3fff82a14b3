-- exit 1: bad/mask_without_window.lua:4: cs.mllm: model.modules[2].mask is "window", which needs window of at least 1 token
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
return cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm", mask = "window" }
