-- exit 4: bad/search_does_not_fit.lua:7: cs.search: does not fit: llm alone needs *
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 8192, intermediate_size = 28672, num_hidden_layers = 80,
  num_attention_heads = 64, num_key_value_heads = 8, vocab_size = 128256, max_position_embeddings = 131072, rms_norm_eps = 1e-5,
  hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.search { model = model, cluster = cs.cluster "h100x8", seq_tokens = 4096, batch_slots = 8 }
