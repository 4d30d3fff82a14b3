-- exit 4: bad/ranks_of_one_stage.lua:5: cs.plan: the plan needs 2 ranks but the cluster has 1 device (1 node x 1 cpu); put the encoders on the rank of the LLM (modality = "encoder-first"), or use a larger cluster
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, cluster = cs.cluster { devices_per_node = 1 }, parallel = { vision = {}, llm = {} } }
