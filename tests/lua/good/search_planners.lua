-- exit 0
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = {
    vision = {
      from = cs.config { model_type = "siglip_vision_model", hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12,
        num_attention_heads = 8, image_size = 224, patch_size = 14, num_channels = 3, hidden_act = "gelu_pytorch_tanh" },
      projector = cs.projector.mlp { layers = 2 },
    },
  },
  llm = cs.config { model_type = "llama", hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 12, num_attention_heads = 16,
    num_key_value_heads = 4, vocab_size = 8192, max_position_embeddings = 4096, rms_norm_eps = 1e-5, hidden_act = "silu" },
}:train("*.projector", "llm")

local function search(more)
  local args = { model = model, cluster = cs.cluster "h100x8", seq_tokens = 2048, batch_slots = 16, simulate = 10 }
  for key, value in pairs(more) do args[key] = value end
  return cs.search(args)
end

-- every planner on the same batches: nobody beats the search, each keeps its rules
local ragged = search { samples = { vision = { 0, 256, 1024 }, llm = { 40, 500, 2048 } }, batches = 4, seed = 7 }
local best = ragged:plans()[1]
assert(math.type(best.mean_ns) == "integer" and best.p95_ns >= best.mean_ns)
local seen = {}
for _, row in ipairs(ragged:planners()) do
  seen[row.planner] = true
  assert(row.plan and row.plan.mean_ns >= best.mean_ns, row.planner)
end
assert(seen.cornstarch and seen.blind and seen.disttrain and seen.entrain and seen.modules and seen.megatron)
local why = ragged:explain()
assert(#why.cut > 3 and #why.binds > 1)

-- a list of whole samples; the same seed gives the same figures
local list = { { vision = 256, llm = 300 }, { llm = 1500 }, { vision = 512, llm = 700 } }
local a, b = search { samples = list }, search { samples = list }
assert(a:plans()[1].mean_ns == b:plans()[1].mean_ns)

-- what is asked for is what comes
for _, plan in ipairs(search { planner = "disttrain" }:plans()) do
  assert(plan.planner == "disttrain" and plan.schedule == "1f1b" and plan.modality == "encoder-parallel" and plan.cut == "equal-layers")
end
for _, plan in ipairs(search { planner = "megatron" }:plans()) do
  local vision, llm = plan.parallel.vision, plan.parallel.llm
  assert(plan.planner == "megatron" and plan.schedule == "1f1b" and plan.cut == "equal-layers" and vision.place == "own")
  assert(vision.tp == llm.tp and vision.cp == llm.cp and vision.dp == llm.dp)
end
for _, plan in ipairs(search { planner = "modules" }:plans()) do
  local vision, llm = plan.parallel.vision, plan.parallel.llm
  assert(plan.planner == "modules" and plan.schedule == "1f1b" and vision.place == "own" and vision.dp == llm.dp)
end
for _, plan in ipairs(search { zero = 3, compare = false, parallel = { vision = { place = "own", pp = 1, tp = 1 }, llm = { dp = 2 } } }:plans()) do
  assert(plan.zero == 3 and plan.dp == 2 and plan.parallel.vision.place == "own" and plan.parallel.vision.pp == 1)
end
assert(search { modality = "encoder-colocated" }:plans()[1].parallel.vision.place == "colocated")
for _, plan in ipairs(search { schedule = "interleaved", parallel = { llm = { pp = 2, vpp = 3 } } }:plans()) do
  assert(plan.schedule == "interleaved" and plan.parallel.llm.vpp == 3)
end
return ragged
