-- exit 4: bad/tp_in_a_job.lua:7: cs.plan: plan.parallel.llm.tp = 64: llm.layers.0 has 32 heads of attention, which 64 ranks cannot share; numbers that can: 1, 2, 3, 4, 5, 6, 7, 8, 16, 32
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 8192, intermediate_size = 28672, num_hidden_layers = 80,
  num_attention_heads = 32, num_key_value_heads = 8, vocab_size = 128256, max_position_embeddings = 131072, rms_norm_eps = 1e-5,
  hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.plan { model = model, parallel = { llm = { pp = 1, tp = 64 } }, seq_tokens = 4096 }
