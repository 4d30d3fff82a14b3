-- exit 1: bad/unknown_method.lua:5: cs.mllm:tran: there is no such function; did you mean cs.mllm:train?
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:tran("*")
return model
