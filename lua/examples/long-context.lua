-- Long sequences: every stage of the LLM is on two ranks that split the rows of a slot by their work (cp), so
-- that a sequence is as long as two ranks can hold; the encoder keeps a rank of its own. Losses are those of
-- one rank under any mask; the Tokens screen (4) shows the sequence, what each rank has of it, computes and waits,
-- and what every other rule would make of it. cs.search { runs = true } finds how many ranks are worth it, and with samples
-- of different lengths up to how many rows a slot is better left to one of them (context_rows).
--   scripts/shapes-data build/shapes                       (quickstart has done it)
--   cornstarch-console run lua/examples/long-context.lua
local cs = require "cornstarch"

local model = cs.mllm {
  name = "long-context",
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp { layers = 2 }, token = "<image>" } },
  llm = cs.hf "build/shapes/llm",
}:train("*")

return cs.job {
  plan = cs.plan {
    model = model,
    parallel = { vision = { pp = 1 }, llm = { pp = 1, cp = 2 } },
    context = "lpt", -- blocks of rows by their work, the heaviest first; others: man cornstarch-plan, Token balance
    seq_tokens = 1024,
    slots = 3,
  },
  data = cs.data.llava {
    json = "build/shapes/train.json",
    images = "build/shapes/images",
    template = { name = "chatml", default_system = "" },
  },
  optimizer = cs.optim.adamw { lr = 2e-3, warmup_steps = 50 },
  lr = cs.lr.cosine {},
  batch_samples = 16,
  steps = 200,
  seed = 5,
}
