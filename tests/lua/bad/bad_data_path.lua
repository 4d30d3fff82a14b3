-- exit 1: bad/bad_data_path.lua:7: cs.data.llava: json 'build/shapes/trian.json' not found; is the path relative to where you started?
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
local data = cs.data.llava { json = "build/shapes/trian.json", images = "build/shapes/images" }
return plan
