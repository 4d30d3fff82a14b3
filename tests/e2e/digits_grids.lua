-- Two real pictures a sample, each a grid of as many patches as its size asks for, as Qwen3-VL takes them, rows from
-- between the encoder's blocks included: "which digit is in picture 2?". Made and run by test_digits_grids.sh.
local cs = require "cornstarch"

local model = cs.mllm { name = "grids", from = "pairs/model", init = "random" }:train("*")

local function samples(set)
  return cs.data.llava { json = "pairs/" .. set .. ".json", images = "pairs/images" }
end

return cs.job {
  plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512, slots = 3 },
  data = samples "train",
  eval = { data = samples "test", every_steps = 400, metric = "exact_match" },
  optimizer = cs.optim.adamw { lr = 1e-3, warmup_steps = 50, weight_decay = 0.05 },
  lr = cs.lr.cosine {},
  batch_samples = 32,
  steps = 1200,
  seed = 11,
}
