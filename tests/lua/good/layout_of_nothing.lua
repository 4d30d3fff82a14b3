-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, cluster = cs.cluster { device = "cpu" }, parallel = { vision = {}, llm = { pp = 4 / 2 } }, encoder_rows = {}, context = "zigzag", context_exchange = "keys", stripes = "never" }
