-- exit 1: bad/bad_directory.lua:3: cs.hf: directory 'build/shapes/visoin' not found; is the path relative to where you started?
local cs = require "cornstarch"
return cs.hf "build/shapes/visoin"
