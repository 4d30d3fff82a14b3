#!/bin/bash
# export --verify: what was written computes what the job computes, to the bit where nothing is rounded: a job of
# parts, one with adapters, one in bfloat16, one whose model is a whole composite, and a tower of one composite
# before the language model of another, which no class of transformers holds: its parts load again and go on. A
# directory that is not what was exported is told.
. "$(dirname "$0")/../support/e2e.sh"
make_data 16

verified() { # FILE WHAT LIMIT: of the document of export --json
  python3 - "$1" "$2" "$3" <<'PY' || fail "$2 in $(cat "$1")"
import json, math, sys
doc = json.load(open(sys.argv[1]))
row = next(r for r in doc["verified"] if r["what"] == sys.argv[2])
assert row["ok"] and row["logits"] > 1000, row
assert math.isfinite(row["deviation"]) and row["deviation"] <= float(sys.argv[3]), row
PY
}

write_job parts.lua steps=3 llm=2
parts=$(done_job parts.lua)
"$C" export "$parts" out/parts --verify --json >verify.json || fail "exit $?: $(cat verify.json)"
verified verify.json components 0
verified verify.json "whole model" 0
"$C" export "$parts" out/half --dtype bfloat16 --verify --json >half.json
verified half.json "whole model" 1
[ -e out/half/llava/model.safetensors ] || fail "no llava directory"

write_job lora.lua steps=3 'train=:train("*.projector"):lora { module = "llm", rank = 2, targets = "q_proj|v_proj" }'
if "$C" plan lora.lua >/dev/null 2>&1; then
  lora=$(done_job lora.lua)
  "$C" export "$lora" out/lora --verify --json >lora.json
  verified lora.json components 1e-3
else
  fail "the job with adapters: $("$C" plan lora.lua 2>&1 | tail -n 2)"
fi

# what trains whole beside adapters is in the adapter's directory too, as PEFT keeps it, and nothing else
write_job norms.lua steps=3 lr=2e-2 'train=:train("*.projector"):lora { module = "llm", rank = 2, targets = "q_proj|v_proj" }:train("llm/*norm.weight")'
norms=$(done_job norms.lua)
"$C" export "$norms" out/norms --verify --json >norms.json
verified norms.json components 1e-3
python3 - <<'PY' || fail "the adapter does not hold what trained whole"
import json, struct
def tensors(path):
    raw = open(path, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
before, after = tensors("data/llm/model.safetensors"), tensors("out/norms/llm/model.safetensors")
adapter = {k.removeprefix("base_model.model."): v for k, v in tensors("out/norms/llm.adapter/adapter_model.safetensors").items()}
whole = {k for k in after if after[k] != before[k]} - {k for k in after if "q_proj" in k or "v_proj" in k}
assert len(whole) == 5 and all("norm" in k for k in whole), whole
assert {k for k in adapter if "lora_" not in k} == whole and all(adapter[k] == after[k] for k in whole)
listed = json.load(open("out/norms/llm.adapter/adapter_config.json"))["modules_to_save"]
assert sorted(listed) == sorted(k.removesuffix(".weight") for k in whole), listed
PY
peft=${CORNSTARCH_ORACLE_PYTHON:-python3}
if "$peft" -c 'import torch, transformers, peft' 2>/dev/null; then
  "$peft" - <<'PY' || fail "PEFT computes something else"
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
load = lambda path: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
ids = torch.arange(2, 60)[None]
with torch.no_grad():
    base, merged = load("data/llm")(input_ids=ids).logits, load("out/norms/llm")(input_ids=ids).logits
    beside = PeftModel.from_pretrained(load("data/llm"), "out/norms/llm.adapter").eval()(input_ids=ids).logits
assert (merged - base).abs().max() > 1e-2 and (merged - beside).abs().max() <= 1e-4, (merged - beside).abs().max()
PY
fi

# and read back beside the same model: what trained whole trains on, and is what it was
write_job beside.lua steps=1 lr=1e-9 'train=:lora { module = "llm", from = "out/norms/llm.adapter" }'
beside=$(done_job beside.lua)
"$C" export "$beside" out/beside --verify --json >beside.json
verified beside.json components 1e-3
python3 - <<'PY' || fail "what an adapter holds whole is not what was read back"
import json, struct
def tensors(path):
    raw = open(path, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f", raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
before, after = (tensors(f"out/{name}/llm.adapter/adapter_model.safetensors") for name in ("norms", "beside"))
assert before.keys() == after.keys(), before.keys() ^ after.keys()
assert sum("lora_" not in k for k in before) == 5
assert max(abs(a - b) for k in before for a, b in zip(before[k], after[k])) < 1e-6
PY

# the whole composite in one word, and back again
sed -e '/^local model/,/^}/c local model = cs.mllm { from = "out/parts/llava" }:train("*")' parts.lua >whole.lua
whole=$(done_job whole.lua)
"$C" export "$whole" out/whole --verify --json >whole.json
verified whole.json "whole model" 0

# a tower of Qwen3-VL, with rows that go to the first layers, before a Llama: no class has that, the parts go on
cat >tower.json <<'JSON'
{"model_type": "qwen3_vl_vision", "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "in_channels": 3,
 "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 16, "out_hidden_size": 64,
 "deepstack_visual_indexes": [0], "hidden_act": "gelu_pytorch_tanh", "initializer_range": 0.1}
JSON
"$C" model init tower.json data/tower --seed 3 >/dev/null
cat >data/tower/preprocessor_config.json <<'JSON'
{"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 4, "merge_size": 2, "temporal_patch_size": 2,
 "size": {"shortest_edge": 1024, "longest_edge": 1024}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
JSON
with_tower() { # FILE TOWER PROJECTOR LLM: the job of parts.lua with those
  sed -e "s#from = cs.hf([^)]*), projector = cs.projector.mlp {}#from = cs.hf{ dir = \"$2\", part = \"vision\" }, projector = cs.projector.hf $3#" \
    -e "s#llm = cs.hf([^)]*)#llm = cs.hf \"$4\"#" parts.lua >"$1"
}
with_tower mixed.lua data/tower '{ dir = "data/tower", init = "random" }' data/llm
"$C" plan mixed.lua >said 2>&1 || fail "$(tail -n 3 said)"
mixed=$(done_job mixed.lua)
"$C" export "$mixed" out/mixed --verify >mixed.text || fail "exit $?: $(cat mixed.text)"
expect_text "no directory of the whole model" mixed.text
expect_text "logits of the components, largest deviation 0, to the bit" mixed.text
with_tower again.lua out/mixed/vision '"out/mixed/projector"' out/mixed/llm
sed -i 's#cs.hf{ dir = "out/mixed/vision", part = "vision" }#cs.hf "out/mixed/vision"#' again.lua
"$C" plan again.lua >said 2>&1 || fail "$(tail -n 3 said)"
again=$(done_job again.lua)
"$C" export "$again" out/again --verify >again.text || fail "exit $?: $(cat again.text)"
expect_text "to the bit" again.text

# what is no longer what was exported
spec=$jobs/$parts/spec.json
ckpt=$(ls -d "$jobs/$parts"/ckpt/ckpt-* | tail -n 1)
python3 - "$spec" "$ckpt" out/parts >request.json <<'PY'
import json, os, sys
spec, ckpt, out = sys.argv[1:]
path = f"{out}/llm/model.safetensors"
raw = bytearray(open(path, "rb").read())
raw[-3] ^= 0x40 # one value, the largest tensors come last or first: any will do
open(path, "wb").write(raw)
print(json.dumps({"job": json.load(open(spec)), "checkpoint": ckpt, "dir": os.path.realpath(out), "whole": "llava", "seed": 1}))
PY
"$bin/cornstarch-worker" --verify <request.json >tampered.json || fail "exit $? of a directory with one other value"
python3 - <<'PY' || fail "one other value is not seen: $(cat tampered.json)"
import json
rows = {r["what"]: r for r in json.load(open("tampered.json"))["verified"]}
assert rows["components"]["deviation"] == "nan" or rows["components"]["deviation"] > 0
assert rows["whole model"]["deviation"] == 0
PY
echo "ok: exports compute what their jobs compute"
