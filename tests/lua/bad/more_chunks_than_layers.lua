-- exit 4: bad/more_chunks_than_layers.lua:5: cs.plan: schedule interleaved cuts each of the 2 stages of llm in 64 chunks: 128 layers are needed, it has 4; choose plan.parallel.llm.vpp <= 2, or 1f1b
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, slots = 4, schedule = "interleaved", parallel = { vision = {}, llm = { pp = 2, vpp = 64 } } }
