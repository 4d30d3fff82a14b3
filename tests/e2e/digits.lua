-- Real pictures: handwritten digits, "which digit is this?". Made and run by test_digits.sh.
local cs = require "cornstarch"

local model = cs.mllm {
  name = "digits",
  encoders = { vision = { from = cs.hf "digits/vision", projector = cs.projector.mlp { layers = 2 }, token = "<image>" } },
  llm = cs.hf "digits/llm",
}:train("*")

local function samples(set)
  return cs.data.llava { json = "digits/" .. set .. ".json", images = "digits/images" }
end

return cs.job {
  plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512, slots = 3 },
  data = samples "train",
  eval = { data = samples "test", every_steps = 250, metric = "exact_match", max_samples = 500 },
  optimizer = cs.optim.adamw { lr = 1e-3, warmup_steps = 50, weight_decay = 0.05 },
  lr = cs.lr.cosine {},
  batch_samples = 16,
  steps = 1500,
  seed = 11,
}
