-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
assert(model:params() == model:trainable_params() and model:params() > 100000)
assert(model:freeze("llm"):trainable_params() < model:params())
assert(model:params() == model:trainable_params(), "a model changed under its methods")
assert(plan:ranks() == 3 and #plan:stages() == 3 and plan:stages()[1].name == "vision.0")
assert(plan:bubble() > 0 and plan:bubble() < 1 and plan:step_ms() > 0)
assert(#plan:hash() == 64 and plan:explain():find("bottleneck"))
assert(tostring(model):find("^model mllm: 3 modules"), tostring(model))
local two = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, dp = 2, seq_tokens = 512 }
assert(two:ranks() == 6 and tostring(two):find ": 6 ranks", "replicas need ranks too")
return plan
