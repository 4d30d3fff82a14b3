#!/bin/bash
# Scripts in good/ and bad/ through `cornstarch-console plan`: their first line says the exit code and,
# for bad ones, the whole message ("*" at its end accepts any rest). Files without such a line are
# modules that scripts require.
set -u
here=$(cd "$(dirname "$0")" && pwd)
console=${CORNSTARCH_BIN:?set it to the folder of the programs}/cornstarch-console
examples=$here/../../lua/examples
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir build
"$console" data make shapes build/shapes --train 8 --test 2 >/dev/null || exit 1
"$console" model init "$examples/shapes-vision.json" build/shapes/vision >/dev/null || exit 1
"$console" model init "$examples/shapes-llm.json" build/shapes/llm --text build/shapes/text.txt --vocab 384 >/dev/null || exit 1
ln -s "$here/good" good
ln -s "$here/bad" bad
failed=0 n=0
for script in good/*.lua bad/*.lua; do
  head=$(head -n 1 "$script")
  [[ $head =~ ^--\ exit\ ([0-9]+):?\ ?(.*)$ ]] || continue
  want_rc=${BASH_REMATCH[1]} want=${BASH_REMATCH[2]}
  n=$((n + 1))
  timeout 60 "$console" plan "$script" >out 2>err
  rc=$?
  got=$(sed '1s/^cornstarch-console: //' err)
  case $want in
    *'*') [[ $got == "${want%\*}"* ]] ;;
    *) [ "$got" = "$want" ] ;;
  esac
  if [ $? -ne 0 ] || [ "$rc" -ne "$want_rc" ]; then
    failed=$((failed + 1))
    printf 'FAIL %s\n  want %s: %s\n  got  %s: %s\n' "$script" "$want_rc" "$want" "$rc" "$got"
  fi
  if grep -hE '(^|[^0-9.,-])1 (([a-z-]+ )?(rank|slot|step|layer|stage|replica|sample|row|token|item|file|device|node|block|head|plan|layout|chunk)s|branches|batches|copies)([^a-z]|$)' out err; then
    echo "FAIL $script: one of something is said as several"
    failed=$((failed + 1))
  fi
done
# the error as a document
"$console" plan --json bad/unknown_key.lua 2>/dev/null | grep -q '"schema": "cornstarch.error/1"' || { echo "FAIL: no error document"; failed=1; }
# a plan ends with what it takes and what to know of it
"$console" plan good/job.lua >out
for line in 'encoder vision reads "image" or "images" of a sample*' '2 steps in about *, * tokens/s; a checkpoint has *, the fullest rank needs *' 'warning: checkpoint.every_steps is 0*'; do
  awk -v pattern="${line//\*/.*}" '$0 ~ "^" pattern { found = 1 } END { exit !found }' out ||
    { echo "FAIL: a plan does not say: $line"; failed=1; }
done
# a step on a GPU is over long before one thread has its 64 samples ready; CPU ranks share their cores with that thread
python3 - build/shapes/images/* <<'PY'
import os, struct, sys, zlib
side = 768
def chunk(name, data): return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
for path in sys.argv[1:]:
    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                  chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
PY
"$console" plan good/data_threads.lua >out
grep -q '^warning: ranks will wait for data: 1 thread on the .* here prepares about .* samples/s (.* each, by the first ones), and the predicted step takes .*samples/s;' out ||
  { echo "FAIL: a plan does not warn of data that comes too slowly: $(cat out)"; failed=1; }
"$console" plan good/job.lua >out
! grep -q 'wait for data' out || { echo "FAIL: a plan warns of data that CPU ranks wait for"; failed=1; }
# ... and says when the data fills other numbers of slots than it is made for: its time is that of the data
sed 's/batch_samples = [0-9]*/batch_samples = 64/' good/job.lua >good/job_of_many.lua
"$console" plan good/job_of_many.lua >out
grep -q '^warning: 64 samples of about [0-9]* tokens fill at least [0-9]* slots of .* a step, and the plan is made for .*: give slots = [0-9]*$' out ||
  { echo "FAIL: a plan does not say that steps fill more slots"; failed=1; }
"$console" plan --json good/job_of_many.lua >out
python3 -c 'import json; p = json.load(open("out"))["preflight"]; assert p["data_step_ns"] > 1.25 * p["step_ns"] and p["total_ns"] == p["steps"] * p["data_step_ns"], p' ||
  { echo "FAIL: the time of steps that fill more slots is that of planned ones"; failed=1; }
rm good/job_of_many.lua
"$console" plan good/settings_hardly_meant.lua >out
for line in 'checkpoint.every_steps is above steps' 'eval.every_steps is above steps' 'optimizer.eps is 0' 'optimizer.warmup_steps is not below' 'alerts.skipped_updates is off'; do
  grep -q "^warning: $line" out || { echo "FAIL: a plan does not warn that $line"; failed=1; }
done
"$console" plan good/layout_of_nothing.lua >out
for line in 'plan.context changes nothing: rows of llm are not split' 'plan.context_exchange changes nothing' 'plan.stripes changes nothing: no ranks share'; do
  grep -q "^warning: $line" out || { echo "FAIL: a plan does not warn that $line"; failed=1; }
done
# why a plan is as it is: of its own layout, whatever that is, and against what the devices can do
for place in modality replicated; do
  "$console" plan good/layout_explained.lua --explain --compare --json --set place=$place >out
  python3 -c '
import json, re
d = json.load(open("out"))
step = d["plans"][0]["predicted_step_ns"] / 1e6
said = [re.search("that alone is .* of ([0-9.]+) ms", s) for s in d["explain"]["cut"]]
said = [float(m.group(1)) for m in said if m]
assert len(said) == 1 and abs(said[0] - step) < 0.05 * step, (said, step)
assert d["others"] and all(row["runs"] for row in d["others"]) and len(d["planners"]) == 6, d
' || { echo "FAIL: a plan is explained as another one, with vision in place $place"; failed=1; }
done
for option in modality=encoder-first place=first place=colocated; do
  "$console" plan good/layout_explained.lua --explain --set $option >out
  grep -q '^  The rows of a slot are split over 2 ranks' out && grep -q 'not known: no search looks at encoders placed so' out ||
    { echo "FAIL: a plan that no search knows is not explained, with $option: $(cat out)"; failed=1; }
done
"$console" plan good/sweep.lua >out && grep -q 'llm_pp=[0-9]* schedule="[a-z0-9]*" vision_pp=[0-9]*$' out ||
  { echo "FAIL: parameters of a sweep are in no order: $(cat out)"; failed=1; }
# what a layout has no use of, and a step of fewer samples than replicas
cat >words.lua <<'L'
local cs = require "cornstarch"
local vision = { from = cs.hf "build/shapes/vision", projector = cs.projector.mlp {}, token = "<image>" }
local model = cs.mllm { encoders = { vision = vision }, llm = cs.hf "build/shapes/llm" }:train "vision.projector"
return cs.job {
  plan = cs.plan { model = model, cluster = cs.cluster { device = "cpu" }, seq_tokens = 512, slots = 4,
    parallel = { vision = { dp = cs.param("vision", 2) }, llm = { dp = cs.param("llm", 2), zero = cs.param("zero", 2) } } },
  data = cs.data.llava { json = "build/shapes/train.json", images = "build/shapes/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = cs.param("batch", 1), steps = 1,
}
L
says() { # TEXT OPTION...
  "$console" plan words.lua "${@:2}" >out 2>err && grep -qF -- "$1" out || { echo "FAIL: no '$1' with ${*:2}: $(cat out err)"; failed=1; }
}
says 'zero = 2 changes nothing here: nothing of llm trains.'
says 'warning: batch_samples is below the replicas of llm (dp): in every step some have no sample'
says '  Weights of llm are divided among the 2 ranks that have the same.' --set zero=3 --set batch=4
says '  2 replicas of vision share the items of every slot.' --set llm=1 --set zero=1
says '  3 replicas of vision share the items of the slots that 2 of llm run side by side.' --set vision=3
# the balance of a plan that splits rows begins with its ranks and marks its rule
"$console" dump --script good/layout_explained.lua --view plan --keys b >out
grep -q '^ 2 ranks  slot 1' out && grep -q '[*]lpt ' out || { echo "FAIL: the balance of a plan: $(cat out)"; failed=1; }
# activations that have room anyway stay where they are
cat >offload.lua <<'L'
local cs = require "cornstarch"
local llm = cs.config { model_type = "llama", hidden_size = 256, intermediate_size = 512, num_hidden_layers = 8, num_attention_heads = 4,
  num_key_value_heads = 2, vocab_size = 512, max_position_embeddings = 1024, rms_norm_eps = 1e-5, hidden_act = "silu" }
return cs.plan { model = cs.mllm { llm = llm }:train "*", cluster = cs.cluster "h100x8", seq_tokens = 1024, slots = 8,
  parallel = { llm = { pp = cs.param("pp", 2), offload = "host" } } }
L
"$console" plan offload.lua >out && grep -q 'offload = "host" changes nothing here' out && "$console" plan offload.lua --set pp=6 >out &&
  grep -q 'wait in the host.s memory, but for those of up to [2-7] slots' out || { echo "FAIL: what offload does: $(cat out)"; failed=1; }
printf '%s scripts, %s failed\n' "$n" "$failed"
[ "$failed" -eq 0 ] && [ "$n" -gt 20 ]
