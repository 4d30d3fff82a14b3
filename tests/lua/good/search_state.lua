-- exit 0
-- optimizer.state decides on what fits: 3.1 billion trained parameters on one A40, 18 bytes each or 8
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 2560, intermediate_size = 10240, num_hidden_layers = 28, num_attention_heads = 20,
  num_key_value_heads = 20, vocab_size = 32000, max_position_embeddings = 4096, rms_norm_eps = 1e-5, hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
local function adamw(state)
  return cs.optim.adamw { lr = 1e-4, state = state }
end
local function search(state, devices)
  return cs.search { model = model, cluster = cs.cluster { devices_per_node = devices, device = "a40-48g" }, seq_tokens = 1024, batch_slots = 4,
    optimizer = state and adamw(state), simulate = 10, compare = false }
end
local ok, err = pcall(search, "fp32", 1)
assert(not ok and err:find("does not fit", 1, true), err)
local small = search("bf16", 1)
assert(small:json().optimizer.state == "bf16" and small:json().optimizer.param_bytes == 8)
assert(small:plans()[1].optimizer_state == "bf16")
assert(small:explain().cut[4]:find("state in bf16, 8 bytes", 1, true), small:explain().cut[4])

-- left out: what a job without it trains with
local full, default = search("fp32", 4), search(nil, 4)
assert(default:json().optimizer.state == "fp32" and default:json().optimizer.param_bytes == 18)
assert(default:plans()[1].step_ns == full:plans()[1].step_ns)
local least = search("bf16", 4):plans()[1]
assert(least.optimizer_ns < full:plans()[1].optimizer_ns and least.step_ns < full:plans()[1].step_ns)

-- a plan too; a row of a sweep says what it was counted with
local function plan(state)
  return cs.plan { model = model, cluster = cs.cluster { devices_per_node = 1, device = "a40-48g" }, parallel = { llm = { pp = 1 } },
    seq_tokens = 1024, slots = 4, optimizer = state and adamw(state) }
end
ok, err = pcall(plan)
assert(not ok and err:find("no split of 30 layers", 1, true), err)
local sweep = cs.sweep { over = { state = { "fp32", "bf16" } }, build = function(p) return plan(p.state) end }
assert(#sweep:plans() == 1 and sweep:plans()[1].optimizer_state == "bf16" and sweep:json().sweep.refused == 1)

-- a job whose state is what its plan was told keeps that plan
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
local text = cs.mllm { llm = cs.hf "build/shapes/llm" }:train "llm"
local told = cs.plan { model = text, cluster = cs.cluster { device = "h100-80g" }, parallel = { llm = { pp = 2 } }, seq_tokens = 512, optimizer = adamw "bf16" }
local function job(state)
  return cs.job { plan = told, data = data, optimizer = adamw(state), batch_samples = 4, steps = 2 }:spec()
end
assert(job("bf16").plan_hash == told:hash() and job("fp32").plan_hash ~= told:hash())
return small
