-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local plan = cs.plan {
  model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train "*",
  cluster = cs.cluster { devices_per_node = 2, device = "h100-80g" },
  parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512,
}
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
return cs.job { plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 64, steps = 2, data_threads = 1 }
