-- exit 4: bad/ep_of_a_dense_model.lua:6: cs.plan: plan.parallel.llm.ep = 2: llm has no layers with experts; leave ep away
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.plan { model = model, parallel = { llm = { ep = 2 } }, dp = 2, slots = 4, seq_tokens = 64 }
