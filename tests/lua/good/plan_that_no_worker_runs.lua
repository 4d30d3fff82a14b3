-- exit 0
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "build/shapes/llm",
}:train("*")
return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512, modality = "encoder-replicated",
  cluster = cs.cluster { device = "h100-80g", devices_per_node = 2 } }
