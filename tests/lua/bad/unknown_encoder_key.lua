-- exit 1: bad/unknown_encoder_key.lua:4: cs.mllm: encoder: unknown key 'form'; did you mean 'from'? (keys: from, projector, token, key, video, feature_layer, deepstack, final_norm)
local cs = require "cornstarch"
local hf = cs.hf "build/shapes/vision"
return cs.mllm { encoders = { vision = { form = hf, projector = cs.projector.mlp {} } }, llm = cs.hf "build/shapes/llm" }
