-- exit 0
-- A plan whose encoders are in places of different kinds, or with more than two chunks a stage, is planned again as the search found it.
local cs = require "cornstarch"
local function encoder()
  return cs.encoder { hidden_size = 64, num_hidden_layers = 4, num_attention_heads = 4, intermediate_size = 128, image_size = 56, patch_size = 14 }
end
local model = cs.mllm {
  llm = cs.config { model_type = "llama", hidden_size = 128, intermediate_size = 256, num_hidden_layers = 14, num_attention_heads = 4,
    num_key_value_heads = 4, vocab_size = 1000 },
  encoders = { vision = { from = encoder(), projector = cs.projector.mlp {}, token = "<image>" },
    depth = { from = encoder(), projector = cs.projector.mlp {}, token = "<depth>" } },
}:train "*"
local function found(more)
  local args = { model = model, cluster = cs.cluster { device = "h100-80g", devices_per_node = 4 }, seq_tokens = 256,
    encoder_rows = { vision = 64, depth = 64 }, batch_slots = 8, simulate = 200, top = 64, runs = true, compare = false, explain = false }
  for key, value in pairs(more) do args[key] = value end
  return cs.search(args)
end
local function check(search, is_meant)
  local n, number_of = 0, {}
  for i, row in ipairs(search:plans()) do
    assert(row.runs, row.why_not_run)
    if is_meant(row) then
      n = n + 1
      local plan = search:plan(i)
      local ns = math.floor(plan:step_ms() * 1e6 + 0.5)
      assert(math.abs(ns - row.job.step_ns) <= 1, ("plan %d: %d and %d"):format(i, ns, row.job.step_ns))
      assert(not number_of[plan:hash()], ("plans %d and %d are one job"):format(number_of[plan:hash()] or 0, i))
      number_of[plan:hash()] = i
      assert(plan:ranks() == row.ranks, ("plan %d: %d and %d ranks"):format(i, plan:ranks(), row.ranks))
    end
  end
  assert(n > 0, "none was found")
end
check(found { modality = "mixed" }, function(row) return row.modality == "mixed" end)
check(found { schedule = "interleaved" }, function(row) return row.parallel.llm.vpp > 2 end)
check(found { modality = "encoder-colocated", parallel = { llm = { tp = 2, cp = 2 } } }, function() return true end)
check(found {}, function(row) return row.modality == "encoder-colocated" end)
return found { modality = "mixed" }:plan(1)
