-- Goldens of the planner's pure functions, through cs.lab: frozen rule, split, orders, simulated times.
local cs = require "cornstarch"

local function list(t)
  local out = {}
  for i, v in ipairs(t) do out[i] = tostring(v) end
  return table.concat(out, " ")
end

local function same(what, got, want)
  if got ~= want then error(what .. ": got " .. tostring(got) .. ", want " .. tostring(want), 2) end
end

local function whole(what, value)
  same(what .. " is an integer", math.type(value), "integer")
end

local function times(v, n)
  local out = {}
  for i = 1, n do out[i] = v end
  return out
end

-- who needs gradients
local T, F = true, false
local needs = cs.lab.needs { frozen = { T, T, F, T, T } }
same("needs input", list(needs.input), "false false false true true")
same("needs weight", list(needs.weight), "false false true false false")
needs = cs.lab.needs { frozen = { T, T, T } }
same("all frozen: input", list(needs.input), "false false false")
same("all frozen: weight", list(needs.weight), "false false false")
same("no layers", #cs.lab.needs { frozen = {} }.input, 0)

-- cutting
local function split(want, sizes, args)
  local got = cs.lab.split(args)
  same("bottleneck", got.bottleneck, want)
  same("sizes", list(got.sizes), sizes)
  return got
end
whole("bottleneck", split(17, "5 2 2", { costs = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, stages = 3 }).bottleneck)
split(5, "1 4 1", { costs = { 5, 1, 1, 1, 1, 5 }, stages = 3 })
split(6, "2 2 3", { costs = { 2, 2, 2, 2, 2, 2, 2 }, stages = 3 })
split(1.5, "1 2", { costs = { 1.5, 0.25, 1 }, stages = 2 })
-- 16 frozen LLM layers behind a trained projector: F = 2, input gradient only
local fwd, bwd, frozen = times(2, 16), times(2, 16), times(true, 16)
table.insert(fwd, 1, 0)
table.insert(bwd, 1, 0)
table.insert(frozen, 1, false)
split(24, "6 5 6", { fwd = fwd, bwd_input = bwd, bwd_weight = bwd, frozen = frozen, stages = 3 })
split(36, "6 5 6", { fwd = fwd, bwd_input = bwd, bwd_weight = bwd, stages = 3 }) -- blind: 3 x F
split(3, "1 1", { fwd = { 3, 1 }, frozen = { true, false }, stages = 2 })       -- frozen first: forward only
split(4, "2 2", { costs = { 1, 1, 2, 2 }, bytes = { 1, 1, 1, 1 }, cap = 2, stages = 2 })

-- orders of six slots
local M = {
  { name = "v",   feeds = "llm", fwd = { 1 },       bwd = { 2 } },
  { name = "a",   feeds = "llm", fwd = { 1, 1 },    bwd = { 2, 2 } },
  { name = "llm",                fwd = { 1, 1, 1 }, bwd = { 2, 2, 2 } },
}
local program = cs.lab.program { modules = M, slots = 6 }
local orders = {
  ["v.0"]   = "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
  ["a.0"]   = "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5",
  ["a.1"]   = "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
  ["llm.0"] = "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
  ["llm.1"] = "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
  ["llm.2"] = "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
}
for stage, order in pairs(orders) do same("order of " .. stage, program[stage], order) end
local n = 0
for _ in pairs(program) do n = n + 1 end
same("stages", n, 6)

-- warm-up decides the live slots
local function peaks(slots)
  local p = cs.lab.simulate { modules = M, slots = slots }.peak
  return list { p["v.0"], p["a.0"], p["a.1"], p["llm.0"], p["llm.1"], p["llm.2"] }
end
same("peaks", peaks(16), "4 5 4 3 2 1")
same("peaks of two slots", peaks(2), "2 2 2 2 2 1")

-- simulated times
local function makespan(want, slots, modules, schedule)
  local r = cs.lab.simulate { modules = modules, slots = slots, schedule = schedule }
  same("makespan", r.makespan, want)
  whole("makespan", r.makespan)
  return r
end
local llm3 = { name = "llm", fwd = { 1, 1, 1 }, bwd = { 2, 2, 2 } }
local chain = { { name = "llm", fwd = { 1, 1, 1, 1 }, bwd = { 2, 2, 2, 2 } } }
makespan(33, 8, chain)
makespan(33, 8, chain, "gpipe")
makespan(36, 8, M)
makespan(36, 8, { { name = "v", feeds = "llm", fwd = { 3 }, bwd = { 0 } }, { name = "a", feeds = "llm", fwd = { 3, 3 }, bwd = { 0, 0 } }, llm3 })
makespan(33, 8, { { name = "v", feeds = "llm", fwd = { 3 }, bwd = { 0 } }, llm3 })
local light = makespan(31, 8, { { name = "v", feeds = "llm", fwd = { 1 }, bwd = { 0 } }, llm3 })
same("bubble of the frozen encoder", light.bubble["v.0"], 1 - 8 / 31)
same("critical path starts with", light.critical_path[1], "F0 v.0")
makespan(448, 16, { { name = "v", feeds = "llm", fwd = { 24 }, bwd = { 0 } }, { name = "llm", fwd = { 10, 10, 12 }, bwd = { 10, 10, 12 } } })
makespan(568, 16, { { name = "v", feeds = "llm", fwd = { 12, 12 }, bwd = { 0, 0 } }, { name = "llm", fwd = { 16, 16 }, bwd = { 16, 16 } } })
makespan(660, 16, { { name = "v", feeds = "llm", fwd = { 24 }, bwd = { 0 } }, { name = "llm", fwd = { 10, 10, 12 }, bwd = { 20, 20, 24 } } })
makespan(840, 16, { { name = "v", feeds = "llm", fwd = { 12, 12 }, bwd = { 0, 0 } }, { name = "llm", fwd = { 16, 16 }, bwd = { 32, 32 } } })
same("no backward is printed", cs.lab.program { modules = { { name = "v", feeds = "llm", fwd = { 1 }, bwd = { 0 } }, llm3 }, slots = 3 }["v.0"], "F0 F1 F2")
same("a hop costs time", cs.lab.simulate { modules = { { name = "llm", fwd = { 1, 1 }, bwd = { 1, 1 } } }, slots = 1, hop = 2 }.makespan, 8)

-- schedules beyond 1F1B
local split = { { name = "llm", fwd = { 1, 1, 1 }, bwd = { 1, 1, 1 }, wgrad = { 1, 1, 1 } } }
local zb = cs.lab.program { modules = split, schedule = "zb-h2", slots = 6 }
same("zb-h2, first stage", zb["llm.0"], "F0 F1 F2 F3 F4 F5 B0 W0 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5")
same("zb-h2, second stage", zb["llm.1"], "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5")
same("zb-h2, third stage", zb["llm.2"], "F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 F4 B3 W3 F5 B4 W4 B5 W5")
makespan(8 * 3 + 2, 8, split, "zb-h1")
makespan(8 * 3 + 2, 8, split, "zb-h2-late")
local four = { { name = "llm", fwd = { 2, 2 }, bwd = { 4, 4 } } }
same("chunks", cs.lab.program { modules = four, schedule = "interleaved", slots = 2, chunks = 2 }["llm.1"], "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0")
makespan(4 * 6 + 3, 4, four, "interleaved")
local enc = { { name = "v", feeds = "llm", fwd = { 2 }, bwd = { 2 } }, four[1] }
makespan(4 + 5 * 6 + 4, 4, enc, "three-phase")
makespan(4 + 5 * 6 + 4, 4, enc, "anchors")
local frozen = { { name = "v", feeds = "llm", fwd = { 6 }, bwd = { 0 } }, four[1] }
same("plain", cs.lab.simulate { modules = frozen, slots = 8 }.makespan, 60)
local lead = cs.lab.simulate { modules = frozen, slots = 8, lead = 2 }
same("with slots of the next step", lead.makespan, 54)
same("bubble of the encoder", lead.module_bubble.v, 1 - 48 / 54)
same("leading slots", cs.lab.program { modules = frozen, slots = 3, lead = 1 }["v.0"], "F1 F2 F0'")

-- what disturbs a step
local function disturbed(args)
  args.modules, args.slots = args.modules or chain, args.slots or 8
  return cs.lab.simulate(args)
end
same("a slow last stage", disturbed { stragglers = { { stage = "llm.3", factor = 2 } } }.makespan, 8 * 6 + 9)
same("a slow rank", disturbed { stragglers = { { rank = 3, factor = 2 } } }.makespan, 8 * 6 + 9)
local r = disturbed { copies = 1024, stragglers = { { rank = 3, copy = 7, factor = 2 } } }
same("one slow rank of 4096", r.makespan, 8 * 6 + 9)
same("two classes", #r.classes, 2)
same("copies alike", r.classes[1].copies, 1023)
same("the other", r.classes[2].first, 7)
same("its bubble", r.classes[2].bubble["llm.3"], 1 - 48 / 57)
same("bubble of the rest", r.bubble["llm.3"], 1 - 24 / 57)
same("no jitter", disturbed { jitter = 0, seed = 5 }.makespan, 33)
local one, two = disturbed { jitter = 0.1, seed = 5 }.makespan, disturbed { jitter = 0.1, seed = 6 }.makespan
same("the same seed", disturbed { jitter = 0.1, seed = 5 }.makespan, one)
same("another seed", one ~= two, true)
local meet = {
  { name = "v", feeds = "llm", fwd = { 1 }, bwd = { 0 } },
  { name = "a", feeds = "llm", fwd = { 4 }, bwd = { 0 } },
  { name = "llm", fwd = { 1 }, bwd = { 0 }, bytes = { 3 } },
}
same("links of their own", disturbed { modules = meet, slots = 1, hop = 10 }.makespan, 15)
r = disturbed { modules = meet, slots = 1, hop = 10, latency = 4, ranks_per_node = 1 }
same("a shared link", r.makespan, 18)
same("exposed", r.stage_exposed["llm.0"], 16)
local m = disturbed { modules = { { name = "llm", fwd = { 1, 1 }, bwd = { 2, 2 }, bytes = { 10, 7 } } }, slots = 2 }.memory["llm.0"]
same("points", #m, 4)
same("most", m[2].bytes, 20)
same("end", m[4].at .. " " .. m[4].bytes, "9 0")
same("span", disturbed {}.span_bubble["llm.3"], 0)
for words, args in pairs {
  ["there is no stage llm.9"] = { stragglers = { { stage = "llm.9", factor = 2 } } },
  ["rank 4 of copy 0: there are 4 ranks in 1 copy"] = { stragglers = { { rank = 4, copy = 0, factor = 2 } } },
  ["give stage, or rank"] = { stragglers = { { factor = 2 } } },
  ["'stragglers' item 1 must be a table, got number"] = { stragglers = { 2 } },
  ["latency is 3: 0 to the hop, 1"] = { hop = 1, latency = 3 },
  ["unknown key 'straggler'; did you mean 'stragglers'"] = { straggler = {} },
} do
  local ok, why = pcall(disturbed, args)
  if ok or not tostring(why):find(words, 1, true) then error(tostring(why) .. " does not say " .. words) end
end

-- a plan, simulated
local siglip = cs.config {
  model_type = "siglip_vision_model", hidden_size = 256, intermediate_size = 1024, num_hidden_layers = 6, num_attention_heads = 4,
  image_size = 112, patch_size = 14, num_channels = 3, hidden_act = "gelu_pytorch_tanh",
}
local llama = cs.config {
  model_type = "llama", hidden_size = 512, num_hidden_layers = 8, intermediate_size = 1024, num_attention_heads = 8, num_key_value_heads = 4,
  vocab_size = 4096, max_position_embeddings = 4096, rms_norm_eps = 1e-5, hidden_act = "silu",
}
local model = cs.mllm { encoders = { vision = { from = siglip, projector = cs.projector.mlp {}, token = "<image>" } }, llm = llama }:train("*")
local function plan(schedule, modality)
  return cs.plan { model = model, cluster = cs.cluster { preset = "h100x8" }, parallel = { vision = { pp = 1 }, llm = { pp = 2 } },
    schedule = schedule, modality = modality, seq_tokens = 512, slots = 8 }
end
local p = plan("1f1b")
local s = p:simulate()
same("step", s.step_ms, p:step_ms())
same("bubble", math.abs(s.bubble - p:bubble()) < 1e-12, true)
same("ranks", #s.ranks, 3)
same("live slots", s.stages["llm.0"].peak, 2)
same("first on the path", s.critical_path[1], "F0 vision.0")
same("memory at the end", s.ranks[2].memory[#s.ranks[2].memory].activations, 0)
same("gpipe keeps all", p:simulate { schedule = "gpipe" }.stages["llm.0"].peak, 8)
local late = p:simulate { stragglers = { { stage = "llm.1", factor = 2 } } }
same("twice as long", late.stages["llm.1"].fwd_ms, 2 * s.stages["llm.1"].fwd_ms)
same("a slow copy", p:simulate { copies = 64, stragglers = { { rank = 2, copy = 9, factor = 2 } } }.classes, 2)
same("a slow rank", p:simulate { stragglers = { { rank = 2, factor = 2 } } }.step_ms > s.step_ms, true)
same("shared links", p:simulate { share_links = true }.step_ms >= s.step_ms, true)
same("jitter", p:simulate { jitter = 0.1, seed = 3 }.step_ms, p:simulate { jitter = 0.1, seed = 3 }.step_ms)
same("copies share", plan("three-phase", "encoder-colocated"):simulate().stages["vision.1"].peak, 4)
same("copies ahead", plan("anchors", "encoder-colocated"):simulate().stages["vision.1"].peak <= 3, true)
same("copies of every slot", plan("1f1b", "encoder-replicated"):ranks(), 2)
for words, args in pairs {
  ["4 slots on a path of 3 ranks: at least 5 slots are needed"] = { schedule = "zb-h2", slots = 4 },
  ["vision.0 is not one of 2 copies of an encoder"] = { schedule = "anchors" },
  ["there is no stage llm.7"] = { stragglers = { { stage = "llm.7", factor = 2 } } },
  ["did you mean 'slots'"] = { slot = 3 },
} do
  local ok, why = pcall(p.simulate, p, args)
  if ok or not tostring(why):find(words, 1, true) then error(tostring(why) .. " does not say " .. words) end
end

print "ok"
