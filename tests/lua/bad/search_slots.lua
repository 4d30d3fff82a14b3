-- exit 4: bad/search_slots.lua:6: cs.search: jobs run none of the 1 plan found; the first: it has 8192 slots a step, a job at most 4096
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.search { model = model, cluster = cs.cluster "h100x8", seq_tokens = 64, batch_slots = 8192, runs = true, top = 1, compare = false, simulate = 4 }
