-- exit 4: bad/place_with_other_dp.lua:5: cs.plan: plan.parallel.vision.dp is 3, that of llm 2: with place replicated they are on the same ranks; set one dp for both, or as many as there are ranks of a stage, or choose place own
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, slots = 4, parallel = { vision = { dp = 3, place = "replicated" }, llm = { dp = 2 } } }
