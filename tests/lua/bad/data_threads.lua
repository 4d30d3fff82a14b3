-- exit 1: bad/data_threads.lua:8: cs.job: 'data_threads' must lie between 0 and 64, got 65
local cs = require "cornstarch"
local llm = cs.hf "build/shapes/llm"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = llm }
local plan = cs.plan { model = model, cluster = cs.cluster { device = "cpu" }, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, slots = 2 }
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
return cs.job { plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 2, data_threads = 65 }
