-- exit 1: bad/plan_bf16_state_on_cpu_ranks.lua:6: cs.plan: optimizer.state is "bf16", but CPU ranks compute in fp32: leave state out, or plan for GPUs
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu" }
local cluster, optimizer = cs.cluster { device = "cpu" }, cs.optim.adamw { lr = 1e-3, state = "bf16" }
return cs.plan { model = cs.mllm { llm = llm }:train "llm", cluster = cluster, parallel = { llm = { pp = 1 } }, seq_tokens = 64, optimizer = optimizer }
