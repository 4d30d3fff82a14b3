-- Second stage on the result of shapes.lua: encoder and LLM are frozen, a fresh projector trains alone.
-- The plan knows: no backward in the encoder, no weight gradients in the LLM, no gradient messages to
-- a stage that needs none.
--   cornstarch-console export latest build/shapes/out      (quickstart has done it)
--   cornstarch-console run lua/examples/shapes-projector.lua
local cs = require "cornstarch"

local model = cs.mllm {
  name = "shapes-projector",
  encoders = { vision = { from = cs.hf "build/shapes/out/vision", projector = cs.projector.mlp { layers = 2 }, token = "<image>" } },
  llm = cs.hf "build/shapes/out/llm",
}:freeze("*"):train("vision.projector")

local function samples(set)
  return cs.data.llava {
    json = "build/shapes/" .. set .. ".json",
    images = "build/shapes/images",
    template = { name = "chatml", default_system = "" },
  }
end

return cs.job {
  plan = cs.plan {
    model = model,
    parallel = { vision = { pp = 1 }, llm = { pp = 2 } },
    seq_tokens = 576,
    slots = 6,
  },
  data = samples "train",
  eval = { data = samples "test", every_steps = 200, metric = "exact_match", max_samples = 512 },
  optimizer = cs.optim.adamw { lr = 2e-3, warmup_steps = 50 },
  lr = cs.lr.cosine {},
  batch_samples = 24,
  steps = 800,
  seed = 4,
}
