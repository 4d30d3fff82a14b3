-- exit 0
local cs = require "cornstarch"
local model = cs.mllm {
  name = "found",
  llm = cs.hf "build/shapes/llm",
  encoders = { vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" } },
}:train "*"
local search = cs.search { model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 4 }, seq_tokens = 576,
  batch_slots = 4, runs = true, simulate = 8, compare = false }
local rows = search:plans()
for _, row in ipairs(rows) do -- figures that plans of any size can be compared by
  assert(math.abs(row.slot_ms * 4 - row.step_ms) < 1e-9 * row.step_ms)
  assert(math.abs(row.tokens_per_s - 576 * 4 / row.step_ms * 1e3) < 1e-6 * row.tokens_per_s)
end
local settings = {
  plan = search, data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 2,
}
local job = cs.job(settings)
assert(settings.plan == search, "what is given stays as it is")
assert(job:spec().name == "found", "a job is called as its model where the script says nothing else")
settings.name = "own"
assert(cs.job(settings):spec().name == "own")
assert(job:spec().plan_hash == search:plan():hash(), "the fastest that jobs run")

-- what replicas divide in a found layout is divided in its job
local divided = cs.search { model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 4 }, seq_tokens = 576,
  batch_slots = 4, dp = 2, zero = 3, schedule = "1f1b", runs = true, simulate = 8, compare = false }
settings.plan = divided
local parallel = cs.job(settings):spec().plan.parallel
assert(parallel.llm.zero == 3 and parallel.vision.zero == 3, "zero of the job is that of the layout")
return job
