-- exit 0
-- one rank, stage, slot and layer: sentences about them are of one
local cs = require "cornstarch"
return cs.plan { model = cs.mllm { llm = cs.hf "build/shapes/llm" }:train("*"), parallel = { llm = { pp = 1 } }, seq_tokens = 128, slots = 1 }
