-- exit 1: bad/function_in_a_template.lua:7: cs.data.llava: 'template': functions and other values cannot travel in a job: use a table
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images", template = { user = print } }
return plan
