-- exit 4: bad/ep_of_replicas.lua:8: cs.plan: plan.parallel.llm.ep = 4 does not divide dp * cp = 2 * 3, the ranks that have a stage of llm; numbers that do: 1, 2, 3, 6
local cs = require "cornstarch"
local llm = cs.config { model_type = "mixtral", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu",
  num_local_experts = 8, num_experts_per_tok = 2 }
local model = cs.mllm { llm = llm }:train "llm"
local parallel = { llm = { cp = 3, ep = 4 } }
return cs.plan { model = model, cluster = cs.cluster { device = "cpu", nodes = 1, devices_per_node = 8 }, parallel = parallel, dp = 2, slots = 4, seq_tokens = 64 }
