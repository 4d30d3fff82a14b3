-- Vision, audio and an LLM of 70 billion parameters on 4096 GPUs, planned from shapes alone: nothing is
-- downloaded, nothing runs. The encoders are frozen, projectors and LLM train.
--   cornstarch-console plan lua/examples/omni-4096.lua --top 5
local cs = require "cornstarch"

local function tower(width, layers, image)
  return cs.config {
    model_type = "siglip_vision_model", hidden_size = width, intermediate_size = 4 * width,
    num_hidden_layers = layers, num_attention_heads = width // 64, image_size = image, patch_size = 14,
    num_channels = 3, hidden_act = "gelu_pytorch_tanh",
  }
end

local function encoder(from, token)
  return { from = from, projector = cs.projector.mlp { layers = 2 }, token = token }
end

local model = cs.mllm {
  name = "omni-70b",
  encoders = {
    vision = encoder(tower(3072, 48, 448), "<image>"),
    audio = encoder(tower(1280, 32, 336), "<audio>"),      -- a spectrogram seen as a picture
  },
  llm = cs.config {
    model_type = "llama", hidden_size = 8192, intermediate_size = 28672, num_hidden_layers = 80,
    num_attention_heads = 64, num_key_value_heads = 8, vocab_size = 128256, max_position_embeddings = 131072,
    rms_norm_eps = 1e-5, hidden_act = "silu",
  },
}:train("*.projector", "llm")

return cs.search {
  model = model,
  cluster = cs.cluster { preset = "h100x8", nodes = 512 },
  seq_tokens = 8192,
  batch_slots = 1024,
  encoder_rows = { vision = 4096, audio = 2304 },
}
