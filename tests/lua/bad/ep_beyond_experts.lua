-- exit 4: bad/ep_beyond_experts.lua:7: cs.plan: plan.parallel.llm.ep = 4: its layers have 3 experts each, which are fewer than ranks; choose ep <= 3
local cs = require "cornstarch"
local llm = cs.config { model_type = "mixtral", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu",
  num_local_experts = 3, num_experts_per_tok = 2 }
local model = cs.mllm { llm = llm }:train "llm"
return cs.plan { model = model, parallel = { llm = { ep = 4 } }, dp = 4, slots = 4, seq_tokens = 64 }
