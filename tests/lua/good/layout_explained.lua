-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train("*")
return cs.plan { model = model, seq_tokens = 512, slots = 4, cluster = cs.cluster { devices_per_node = 4, device = "cpu" },
  parallel = { vision = { recompute = "full", place = cs.param("place", "modality") }, llm = { cp = cs.param("cp", 2), recompute = "full" } }, modality = cs.param("modality", "encoder-parallel") }
