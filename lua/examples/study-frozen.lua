-- What knowing about frozen modules is worth: encoder and LLM small, medium, large on 24 GPUs (6 nodes of 4
-- A40), the projector training alone, then everything. Times are predictions of the simulator at roofline
-- costs; blind is the plan of a planner that takes every layer as if it trained.
--   cornstarch-console lua lua/examples/study-frozen.lua
local cs = require "cornstarch"

local sizes = {
  { name = "S", vision = { 1024, 24 }, llm = { 2048, 16, 8192, 32, 8 } },
  { name = "M", vision = { 3200, 45 }, llm = { 4096, 32, 14336, 32, 8 } },
  { name = "L", vision = { 6144, 48 }, llm = { 5120, 64, 25600, 40, 8 } },
}

local function vision(shape)
  return cs.config {
    model_type = "siglip_vision_model", hidden_size = shape[1], intermediate_size = 4 * shape[1],
    num_hidden_layers = shape[2], num_attention_heads = shape[1] // 64, image_size = 448, patch_size = 14,
    num_channels = 3, hidden_act = "gelu_pytorch_tanh",
  }
end

local function llm(shape)
  return cs.config {
    model_type = "llama", hidden_size = shape[1], num_hidden_layers = shape[2], intermediate_size = shape[3],
    num_attention_heads = shape[4], num_key_value_heads = shape[5], vocab_size = 128256,
    max_position_embeddings = 131072, rms_norm_eps = 1e-5, hidden_act = "silu",
  }
end

local function search(model, modality)
  local ok, found = pcall(cs.search, {
    model = model, cluster = cs.cluster { preset = "a40x4", nodes = 6 }, seq_tokens = 4096, batch_slots = 48,
    encoder_rows = { vision = 2048 }, modality = modality, simulate = 12, top = 1,
  })
  return ok and found or nil
end

local function ms(row)
  return row and string.format("%10.0f", row.step_ms) or "         -"
end

print("trains     vision LLM   aware ms   blind ms   gain  colocated  replicated  best plan")
for _, trains in ipairs { "vision.projector", "*.projector llm", "*" } do
  for _, v in ipairs(sizes) do
    for _, l in ipairs(sizes) do
      local model = cs.mllm {
        name = v.name .. l.name, llm = llm(l.llm),
        encoders = { vision = { from = vision(v.vision), projector = cs.projector.mlp { layers = 2 } } },
      }
      for glob in trains:gmatch "%S+" do model = model:train(glob) end
      local found = search(model, "encoder-parallel")
      local colocated, replicated = search(model, "encoder-colocated"), search(model, "encoder-replicated")
      local best, blind = found and found:plans()[1], found and found:blind()
      local plan = "does not fit"
      if best then
        local a, b = best.parallel.vision, best.parallel.llm
        plan = string.format("%s dp %d, vision tp %d cp %d pp %d, llm tp %d cp %d pp %d %s", best.schedule, best.dp,
          a.tp, a.cp, a.pp, b.tp, b.cp, b.pp, b.recompute)
      end
      print(string.format("%-10s %6s %3s %s %s %6s %s  %s  %s",
        trains == "vision.projector" and "projector" or trains == "*" and "all" or "proj + llm", v.name, l.name,
        ms(best), ms(blind), best and blind and string.format("%.2fx", blind.step_ms / best.step_ms) or "-",
        ms(colocated and colocated:plans()[1]), ms(replicated and replicated:plans()[1]), plan))
    end
  end
end
