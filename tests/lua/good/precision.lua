-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local function job(device, precision)
  local plan = cs.plan {
    model = model, cluster = cs.cluster { devices_per_node = 4, device = device },
    parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512,
  }
  local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
  return cs.job {
    plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 2, precision = precision,
  }
end
assert(job("h100-80g", "bf16"):spec().precision == "bf16")
assert(job("h100-80g", "fp32"):spec().precision == "fp32")
assert(job("cpu", "fp32"):spec().precision == "fp32")
assert(job("h100-80g"):spec().precision == nil)
return job("cpu")
