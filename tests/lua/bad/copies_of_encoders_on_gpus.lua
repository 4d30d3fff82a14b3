-- exit 4: the job cannot run: vision.0 is one of 2 copies of an encoder: jobs run them on CPU ranks only yet, not on a h100-80g; choose modality encoder-parallel, or encoder-colocated with 1f1b
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "build/shapes/llm",
}:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512, modality = "encoder-colocated", schedule = "three-phase",
  cluster = cs.cluster { device = "h100-80g", devices_per_node = 2 } }
return cs.job {
  plan = plan, data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 2, seed = 1,
}
