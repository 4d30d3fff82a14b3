-- exit 4: bad/more_stages_than_layers.lua:6: cs.plan: plan.parallel.llm.pp = 9 asks for more stages than layers: branch llm has 4 layers; choose pp <= 4
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 9 } }, seq_tokens = 512 }
return plan
