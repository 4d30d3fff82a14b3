-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan {
  model = model, cluster = cs.cluster { devices_per_node = 4, device = "h100-80g" },
  parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512,
}
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
local function job(state)
  return cs.job { plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3, state = state }, batch_samples = 4, steps = 2 }
end
assert(job("bf16"):spec().optimizer.state == "bf16")
assert(job():spec().optimizer.state == nil)
-- the plan was made for fp32: with other state it is another one
assert(job("fp32"):spec().plan_hash == plan:hash())
assert(job("bf16"):spec().plan_hash ~= plan:hash())
return job("bf16")
