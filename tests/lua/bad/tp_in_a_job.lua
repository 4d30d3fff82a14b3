-- exit 4: bad/tp_in_a_job.lua:7: cs.plan: plan.parallel.llm.tp = 3: llm.layers.0 has 64 heads of attention, which 3 ranks cannot share evenly; numbers that can: 1, 2, 4, 8, 16, 32, 64
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 8192, intermediate_size = 28672, num_hidden_layers = 80,
  num_attention_heads = 64, num_key_value_heads = 8, vocab_size = 128256, max_position_embeddings = 131072, rms_norm_eps = 1e-5,
  hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.plan { model = model, parallel = { llm = { pp = 1, tp = 3 } }, seq_tokens = 4096 }
