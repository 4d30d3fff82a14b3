-- exit 1: bad/unknown_preset.lua:2: cs.cluster: cluster preset "h100x9" is not known; accepted: a40x4, a100x8, h100x8, h200x8
return require "cornstarch".cluster "h100x9"
