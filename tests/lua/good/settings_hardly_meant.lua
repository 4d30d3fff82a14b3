-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
return cs.job {
  plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3, eps = 0, warmup_steps = 2 },
  batch_samples = 4, steps = 2, seed = 1, checkpoint = { every_steps = 3 },
  eval = { data = data, every_steps = 3 }, alerts = { skipped_updates = false },
}
