-- exit 1: bad/returns_nothing.lua returns no job: end it with 'return cs.job { ... }' or a plan
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local llm = cs.hf "build/shapes/llm"
