-- exit 1: bad/unknown_key.lua:8: cs.job: unknown key 'sedd'; did you mean 'seed'? (keys: name, plan, data, eval, optimizer, lr, batch_samples, balance, slot_order, data_threads, precision, steps, seed, checkpoint, tensorboard, alerts)
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
return cs.job {
  plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3 },
  batch_samples = 4, steps = 2, sedd = 1,
}
