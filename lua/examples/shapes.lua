-- The main job of scripts/quickstart: a small vision encoder, a projector and a small LLM learn to answer
-- questions about coloured shapes. Three CPU ranks: the encoder on one, the LLM cut in two.
--   cornstarch-console run lua/examples/shapes.lua
--   --set dir=DIR: data that shapes-data has put elsewhere; --set steps=N: a shorter look
local cs = require "cornstarch"
local dir = cs.param("dir", "build/shapes")

local model = cs.mllm {
  name = "shapes",
  encoders = { vision = { from = cs.hf(dir .. "/vision"), projector = cs.projector.mlp { layers = 2 }, token = "<image>" } },
  llm = cs.hf(dir .. "/llm"),                            -- arch, weights, tokenizer, processor come from the directory
}:train("*")                                           -- nothing is frozen: everything learns

local function samples(set)
  return cs.data.llava {
    json = dir .. "/" .. set .. ".json",
    images = dir .. "/images",
    template = { name = "chatml", default_system = "" },
  }
end

return cs.job {
  plan = cs.plan {
    model = model,
    cluster = cs.cluster { device = "cpu" },           -- also where there are GPUs; "here" would take those
    parallel = { vision = { pp = 1 }, llm = { pp = 2 } },
    seq_tokens = 576,
    slots = 6,
  },
  data = samples "train",
  eval = { data = samples "test", every_steps = 500, metric = "exact_match", max_samples = 512 },
  optimizer = cs.optim.adamw { lr = 1e-3, warmup_steps = 100 },
  lr = cs.lr.cosine {},
  batch_samples = 24,
  steps = cs.param("steps", 1800),
  seed = 3,
}
