-- exit 1: bad/mask_unknown.lua:4: cs.mllm: 'mask' must be one of causal|packed|cornstarch|image_bidir|modality_bidir|item|window|prefix|image_bidir_window|image_window, got 'full'
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
return cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm", mask = "full" }
