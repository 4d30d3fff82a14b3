-- exit 0
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
local masks = {
  {}, { mask = "causal" }, { mask = "packed" }, { mask = "cornstarch" }, { mask = "image_bidir" }, { mask = "modality_bidir" },
  { mask = "item" }, { mask = "window", window = 64 }, { mask = "prefix", prefix = 16 },
}
local plan
for _, mask in ipairs(masks) do
  local model = cs.mllm { encoders = { vision = vision }, llm = llm, mask = mask.mask, window = mask.window, prefix = mask.prefix }
  plan = cs.plan { model = model:train("*"), parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
end
return plan
