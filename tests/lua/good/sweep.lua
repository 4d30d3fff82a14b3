-- exit 0
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = {
    vision = {
      from = cs.config { model_type = "siglip_vision_model", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4,
        num_attention_heads = 4, image_size = 28, patch_size = 14, num_channels = 3, hidden_act = "gelu_pytorch_tanh" },
      projector = cs.projector.mlp { layers = 2 },
    },
  },
  llm = cs.config { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 6, num_attention_heads = 4,
    num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu" },
}:train("vision.projector", "llm")
local sweep = cs.sweep {
  over = { llm_pp = { 1, 2, 4 }, vision_pp = { 1, 2 }, schedule = { "1f1b", "gpipe" } },
  where = function(p) return p.llm_pp + p.vision_pp <= 5 end,
  build = function(p)
    return cs.plan { model = model, parallel = { vision = { pp = p.vision_pp }, llm = { pp = p.llm_pp } }, schedule = p.schedule,
      seq_tokens = 64, slots = 8 }
  end,
  rank_by = { "step_ms", "peak_memory_gib" },
}
local rows = sweep:plans()
assert(#rows == 10, "4 + 1 pairs of stage counts, two schedules")
assert(tostring(sweep):match "^10 plans, the first %S+ %S+ a step: %S+ on %d ranks$", tostring(sweep))
for i = 2, #rows do
  assert(rows[i - 1].step_ms <= rows[i].step_ms)
end
-- what is refused is counted by its reason; parameters are in the order of their names in every run
local some = cs.sweep { over = { tp = { 1, 3 }, cp = { 1, 2 } }, build = function(p)
  return cs.plan { model = model, parallel = { vision = {}, llm = { tp = p.tp, cp = p.cp } }, seq_tokens = 64, slots = 2 }
end }
local said = some:json().sweep
assert(said.tried == 4 and said.refused == 2 and #said.refusals == 1 and said.refusals[1].n == 2)
assert(said.refusals[1].why:find "which 3 ranks cannot share", said.refusals[1].why)
-- plans with more slots take longer and do more: a slot is what is compared
local slots = cs.sweep { over = { slots = { 2, 16 } }, build = function(p)
  return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 64, slots = p.slots }
end }:plans()
assert(slots[1].slots == 16 and slots[1].step_ms > slots[2].step_ms and slots[1].slot_ms < slots[2].slot_ms)
assert(math.abs(slots[1].slot_ms * 16 - slots[1].step_ms) < 1e-9)
assert(rows[1].parameters.llm_pp + rows[1].parameters.vision_pp <= 5 and rows[1].peak_memory_gib > 0)

local found = cs.search { model = model, cluster = cs.cluster "h100x8", seq_tokens = 64, batch_slots = 8, simulate = 8,
  parallel = { llm = { tp = 2 } } }
local best, blind = found:plans()[1], found:blind()
assert(best.parallel.llm.tp == 2 and best.ranks <= 8 and best.step_ms <= blind.step_ms)
local asked = cs.search { model = model, cluster = cs.cluster "h100x8", seq_tokens = 64, batch_slots = 8, dp = 2,
  parallel = { llm = { tp = 1, cp = 1, pp = 2 }, vision = { tp = 1, cp = 1, pp = 1 } }, modality = "encoder-parallel", schedule = "1f1b",
  recompute = "none" }:plans()
assert(asked[1].ranks == 6 and asked[1].slots == 4 and asked[1].schedule == "1f1b")
return sweep
