-- exit 1: bad/method_with_a_dot.lua:5: call it with a colon: model:method()
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }.train("*")
return model
