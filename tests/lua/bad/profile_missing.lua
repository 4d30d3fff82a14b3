-- exit 1: bad/profile_missing.lua:7: cs.plan: profile: opening no/such/profile.json: No such file or directory; cornstarch-console profile SCRIPT --output FILE writes one
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "build/shapes/llm",
}:train("*")
return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, profile = "no/such/profile.json" }
