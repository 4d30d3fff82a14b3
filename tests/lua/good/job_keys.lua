-- exit 0
-- What cs.job is given is in the document.
local cs = require "cornstarch"
local llm = cs.hf "build/shapes/llm"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local plan = cs.plan {
  model = cs.mllm { encoders = { vision = vision }, llm = llm }:train "*", cluster = cs.cluster { device = "cpu" }, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, slots = 2,
}
local function job(keys)
  keys.plan, keys.optimizer = plan, cs.optim.adamw { lr = 1e-3 }
  keys.data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
  return cs.job(keys)
end
local given = {
  name = "given", batch_samples = 4, steps = 2, seed = 7, balance = "lpt", slot_order = "searched", precision = "fp32", data_threads = 5,
}
local said = job(given):spec()
for key, value in pairs(given) do
  if type(value) ~= "table" and type(value) ~= "userdata" then
    assert(said[key] == value, key .. " is " .. tostring(said[key]))
  end
end
local bare = job { batch_samples = 4, steps = 2 }
said = bare:spec()
assert(said.name == "job_keys" and said.seed == 0 and said.data_threads == nil and said.balance == nil)
return bare
