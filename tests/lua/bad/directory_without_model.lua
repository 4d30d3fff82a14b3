-- exit 1: bad/directory_without_model.lua:3: cs.hf: *
local cs = require "cornstarch"
return cs.hf "build/shapes/images"
