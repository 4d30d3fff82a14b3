-- exit 0
local cs = require "cornstarch"
local llm = "build/shapes/llm"

-- special tokens only where asked for; offsets cover the text
local t = cs.lab.tokens { tokenizer = llm, text = "red<|im_end|>" }
for _, id in ipairs(t.ids) do assert(id < 358, "a special token from plain text") end
assert(t.begins[1] == 0 and t.ends[#t.ends] == 13)
t = cs.lab.tokens { tokenizer = llm, text = "red<|im_end|>", special = true }
assert(t.ids[#t.ids] == 358 and t.begins[#t.begins] == 3)

-- what trains: the answer with its turn end; a picture is only a picture in a user turn
local r = cs.lab.render {
  template = { name = "chatml", default_system = "" }, tokenizer = llm, rows = 3,
  messages = { { role = "user", content = "<image>\nWhere?" }, { role = "assistant", content = "an <image>" } },
}
assert(r.text == "<|im_start|>user\n<image>\nWhere?<|im_end|>\n<|im_start|>assistant\nan <image><|im_end|>\n")
assert(r.trained == "an <image><|im_end|>")
local pictures, trained = 0, 0
for i, id in ipairs(r.ids) do
  if id == 359 then pictures = pictures + 1; assert(r.labels[i] == -1) end
  if r.labels[i] >= 0 then trained = trained + 1; assert(r.labels[i] == r.ids[i + 1]) end
end
-- the name of a template alone
assert(cs.lab.render { template = "plain", messages = { { role = "user", content = "no" }, { role = "assistant", content = "yes" } } }.text == "no\nyes\n")
assert(pictures == 3 and trained > 3 and #r.ids == #r.labels)

local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf(llm) }:train("*")
return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 2 } }, seq_tokens = 512 }
