-- exit 4: bad/profile_of_other_shapes.lua:7: cs.plan: plan.profile: the profile was measured for modules of other shapes (key 000000000000*
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "build/shapes/llm",
}:train("*")
return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, profile = "bad/profile_of_other_shapes.json" }
