-- exit 1: bad/bf16_state_on_cpu_ranks.lua:8: cs.job: optimizer.state is "bf16", but CPU ranks compute in fp32: leave state out, or plan for GPUs
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local model = cs.mllm { encoders = { vision = vision }, llm = llm }:train("*")
local plan = cs.plan { model = model, cluster = cs.cluster { device = "cpu" }, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
local data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" }
return cs.job { plan = plan, data = data, optimizer = cs.optim.adamw { lr = 1e-3, state = "bf16" }, batch_samples = 4, steps = 2 }
