#!/bin/bash
# An encoder that a script describes (cs.encoder): with the options of SigLIP, CLIP, ViT, DINOv2 and Pixtral it is
# these, to the goldens of transformers; as one of its own it learns, goes on to the bit after its worker was killed,
# is exported and read again as any other, for pictures of one size and of any.
. "$(dirname "$0")/../support/e2e.sh"
golden=${CORNSTARCH_GOLDEN:-$root/../shared/golden}
seen=0
for name in siglip clip vit dinov2 pixtral; do
  [ -d "$golden/models/$name" ] || continue
  python3 "$root/tests/e2e/own_encoder.py" "$golden/models" goldens $name
  "$C" selftest family "goldens/$name" >said 2>&1 || fail "$name: $(cat said)"
  expect_text "cornstarch_vision on cpu:0 is as transformers has it" said
  seen=$((seen + 1))
done

make_data 32
described() { # FILE STEPS ENCODER PROJECTOR LLM [MORE]: Lua
  cat >"$1" <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = $3, projector = cs.projector.mlp { $4 }, $6 } },
  llm = cs.hf "$5",
}:train("*")
return cs.job {
  plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, slots = 2 },
  data = cs.data.llava { json = "data/train.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 4, steps = $2, seed = 1, checkpoint = { every_steps = 20 },
}
LUA
}
own='cs.encoder { hidden_size = 48, intermediate_size = 128, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
  image_size = 32, patch_size = 4, positions = "bicubic", rope_theta = 100, norm_type = "rms_norm", qk_norm = "head", hidden_act = "silu",
  gated_mlp = true, qkv_bias = false, class_row = true, pre_norm = true, layer_scale = true, initializer_range = 0.1 }'
described own.lua 400 "$own" "" data/llm ""
whole=$(done_job own.lua)
jobs_py rows "$jobs/$whole" >rows.whole
python3 - <<'PY' || fail "it does not learn: $(tail -n 3 rows.whole)"
losses = [float(line.split()[1]) for line in open("rows.whole")]
assert len(losses) == 400 and sum(losses[-20:]) < 0.5 * sum(losses[:20]), losses[-20:]
PY
killed=$(submit own.lua)
wait_step "$killed" 25
kill -9 "$(children "$(runner_pid "$killed")" cornstarch-worker | head -n 1)"
wait_state "$killed" FAILED
expect_rc 0 "$C" resume "$killed"
wait_state "$killed" DONE
jobs_py rows "$jobs/$killed" | cmp - rows.whole || fail "another run after the resume"

"$C" export "$whole" out --verify >said 2>&1 || fail "exit $?: $(cat said)"
expect_text "logits of the components, largest deviation 0, to the bit" said
expect_text "no directory of the whole model" said
"$C" model check out/vision >said || fail "$(cat said)"
expect_text "cornstarch_vision 2 layers x 48" said
described again.lua 3 'cs.hf "out/vision"' 'from = "out/projector"' out/llm ""
again=$(done_job again.lua)
python3 - "$(jobs_py rows "$jobs/$again" 0 0 | cut -d ' ' -f 2)" <<'PY' || fail "what was exported does not go on"
import sys
losses = [float(line.split()[1]) for line in open("rows.whole")]
assert float(sys.argv[1]) < 0.6 * losses[0], (sys.argv[1], losses[0])
PY

# --- pictures of any size: no positions but the rotation; a table that is resized
any='hidden_size = 48, intermediate_size = 96, num_hidden_layers = 2, num_attention_heads = 4, image_size = 0, patch_size = 4,
  processor = { image_processor_type = "PixtralImageProcessor", size = { longest_edge = 40 }, patch_size = 4 }'
described rope.lua 4 "cs.encoder { $any, positions = \"none\", rope_theta = 100 }" "" data/llm ""
described area.lua 4 "cs.encoder { $any, positions = \"area\", num_positions = 64 }" "" data/llm "feature_layer = -2"
for file in rope area; do
  id=$(done_job $file.lua)
  "$C" export "$id" "out.$file" --verify >said 2>&1 || fail "$file: $(cat said)"
done
echo "ok: $seen families as descriptions; one of its own learns and goes on"
