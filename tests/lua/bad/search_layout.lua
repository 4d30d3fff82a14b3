-- exit 4: bad/search_layout.lua:6: cs.search: no layout of llm is possible with tp = 3, cp = 2 on 8 ranks: the search looks at tp and cp of any number on few ranks, else of 1, 2, 4, ..., of what divides the ranks of a node and of what is asked for, of which tp divides heads and widths, and at up to 6 stages, one a layer; ask for others
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 64, intermediate_size = 128, num_hidden_layers = 4, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 256, rms_norm_eps = 1e-5, hidden_act = "silu" }
local model = cs.mllm { llm = llm }:train "llm"
return cs.search { model = model, cluster = cs.cluster "h100x8", seq_tokens = 64, batch_slots = 8, parallel = { llm = { tp = 3, cp = 2 } } }
