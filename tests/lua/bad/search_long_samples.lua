-- exit 1: bad/search_long_samples.lua:6: cs.search: samples: the longest has 65 rows of llm, and a slot 64 (seq_tokens): jobs leave such samples out; leave them out here too, or raise seq_tokens
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.search { model = model, cluster = cs.cluster "h100x8", seq_tokens = 64, batch_slots = 8, samples = { llm = { 30, 65 } } }
