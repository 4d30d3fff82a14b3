-- exit 2: data: the tokenizer has no token "<pic>": add it to added_tokens of tokenizer.json, or take one that it has: token = "<image>"
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<pic>" } },
  llm = cs.hf "build/shapes/llm",
}:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
return cs.job {
  plan = plan, data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 2, seed = 1,
}
