#!/bin/bash
# Whole jobs of composites made here from their configurations (tests/golden/composites): pictures of every size, a
# video as a file and as a list of frames, sounds of every format and rate. Counts of rows are those of transformers
# (oracle_composites.py); each job trains over two stages, what is exported computes what the job computed, and an
# adapter of its language model names layers of that alone.
. "$(dirname "$0")/../support/e2e.sh"
mkdir images media
cp "$root"/tests/golden/media/* media
cp "$root"/tests/golden/processors/images/* images
tr '|' '\n' >text.txt <<'TEXT'
what is in this picture|a red square and a blue circle|how does it sound|it is a low tone that rises|the camera moves
TEXT

python3 - <<'PY'
import json, random, struct, zlib

def png(path, width, height, seed):
    noise = random.Random(seed)
    rows = b"".join(b"\0" + bytes(noise.randrange(256) for _ in range(3 * width)) for _ in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

for name, (w, h) in {"wide": (70, 45), "tall": (31, 97), "square": (56, 56), "long": (203, 50)}.items():
    png(f"images/{name}.png", w, h, w)

text = lambda t: {"type": "text", "text": t}
def turns(*contents):
    return {"messages": [{"role": ("user", "assistant")[i % 2], "content": c if isinstance(c, list) else [text(c)]}
                         for i, c in enumerate(contents)]}
image = lambda name: {"type": "image", "image": f"images/{name}.png"}
video = lambda what: {"type": "video", "video": what}
audio = lambda name: {"type": "audio", "audio": f"media/{name}"}
words = [turns("how are you?", "as ever")]
pictures = words + [
    turns([image("wide"), text("what is in this picture?")], "a red square"),
    turns([image("tall"), image("square"), text("compare")], "the second one is round"),
    turns([image("long"), text("what is it")], "gray", [image("wide"), text("and this")], "not gray")]
films = [turns([video("media/h264.mp4"), text("what moves?")], "the camera"),
         turns([video(["images/square.png"] * 4), text("which?")], "both")]
sounds = words + [turns([audio("mono.flac"), text("how does it sound?")], "low"),
                  turns([audio("six.wav"), audio("stereo.ogg"), text("which is louder?")], "the first"),
                  turns([audio("stereo.mp3"), text("and?")], "it rises", [audio("float.wav"), text("this?")], "noise")]
for name, samples in {"pictures": pictures, "films": pictures + films, "sounds": sounds}.items():
    with open(f"{name}.jsonl", "w") as f:
        f.writelines(json.dumps(s) + "\n" for s in samples)
PY

# script FILE FAMILY BRANCH DATA TRAIN [KEYS] [STAGES of the encoder]
script() {
  cat >"$1" <<LUA
local cs = require "cornstarch"
local model = cs.mllm { from = "models/$2"${6:-} }$5
return cs.job {
  plan = cs.plan { model = model, parallel = { $3 = { pp = ${7:-1} }, llm = { pp = 2 } }, seq_tokens = 1024, slots = 2 },
  data = cs.data.llava { json = "$4.jsonl", images = "." },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 4, steps = 4, seed = 1,
}
LUA
}

# whole FAMILY BRANCH DATA ROWS [KEYS]: ROWS of every sample, as transformers counts them
whole() {
  local family=$1 i=0 want
  "$C" model init "$root/tests/golden/composites/$family/config.json" "models/$family" --seed 3 --text text.txt --vocab 360 2>said ||
    fail "$family: $(cat said)"
  "$C" model check "models/$family" >said 2>&1 || fail "$family: $(cat said)"
  script "$family.lua" "$family" "$2" "$3" ':train("*")' "${5:-}"
  if ! "$C" data check "$family.lua" --json >check.json; then
    grep -q "built without ffmpeg" check.json || fail "$family: $(cat check.json)"
    echo "without ffmpeg's libraries $family is left out"
    return
  fi
  [ "$(field sets.0.bad <check.json)" = 0 ] || fail "$family: bad samples in $(cat check.json)"
  for want in $4; do
    got=$("$C" inspect "$family.lua" --sample $i --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["ids"]))')
    [ "$got" = "$want" ] || fail "$family: sample $i has $got rows, transformers makes $want: $("$C" inspect "$family.lua" --sample $i)"
    i=$((i + 1))
  done
  "$C" run --plain "$family.lua" >report 2>&1 || fail "$family: $(cat report)"
  "$C" metrics latest --json | python3 -c '
import json, math, sys
told = json.load(sys.stdin)
loss = [row[told["columns"].index("loss")] for row in told["rows"]]
sys.exit(not (all(map(math.isfinite, loss)) and loss[-1] < loss[0]))' || fail "$family: $("$C" metrics latest)"
  "$C" metrics latest --json >one.json
  script "$family.cut.lua" "$family" "$2" "$3" ':train("*")' "${5:-}" 3
  "$C" run --plain "$family.cut.lua" >report 2>&1 || fail "$family, its encoder over three stages: $(cat report)"
  "$C" metrics latest --json | python3 -c '
import json, sys
def losses(told): return [row[told["columns"].index("loss")] for row in told["rows"]]
one, cut = losses(json.load(open("one.json"))), losses(json.load(sys.stdin))
sys.exit(not (len(one) == len(cut) and all(abs(a - b) < 1e-5 for a, b in zip(one, cut))))' ||
    fail "$family: with its encoder over three stages the losses are others: $("$C" metrics latest)"
  "$C" export latest "out/$family" --verify >said 2>&1 || fail "$family: $(cat said)"
  script "$family.lora.lua" "$family" "$2" "$3" ':train("*.projector"):lora { module = "llm", rank = 2, targets = "q_proj|v_proj" }' "${5:-}"
  "$C" run --plain "$family.lora.lua" --export "out/$family.lora" >report 2>&1 || fail "$family: $(cat report)"
  python3 - "out/$family.lora/llm.adapter" "out/$family.lora/$family" <<'PY' || fail "$family: names of its adapter"
import json, re, struct, sys

def names(path):
    with open(path, "rb") as f:
        return [k for k in json.loads(f.read(struct.unpack("<Q", f.read(8))[0])) if k != "__metadata__"]

adapter, model = sys.argv[1:]
config = json.load(open(f"{adapter}/adapter_config.json"))
layers = {n[len("base_model.model."):].rsplit(".", 2)[0] for n in names(f"{adapter}/adapter_model.safetensors")}
assert layers and all(re.fullmatch(config["target_modules"], n) for n in layers), (config, layers)
assert all("language_model" in n or "text_model" in n for n in layers), layers
assert not any(re.fullmatch(config["target_modules"], n) for n in
               ("model.vision_tower.encoder.layers.0.self_attn.q_proj", "model.audio_tower.layers.0.self_attn.q_proj"))
PY
}

whole llava_next vision pictures "33 113 207 172"
whole qwen3_vl vision films "36 55 63 80 69 66" ', video = {}'
whole smolvlm vision films "36 90 137 134 140 210" ', video = {}'
whole qwen2_audio audio sounds "69 83 106 120"
whole voxtral audio sounds "31 56 90 98"
# two sources, one drawn three times as often: their losses are told apart
sed -e 's#data = .*#data = cs.data.llava { json = "pictures.jsonl", images = ".", weight = 3, name = "still", mix = { { json = "films.jsonl", images = ".", weight = 1, name = "moving" } } },#' \
  qwen3_vl.lua >mixed.lua
"$C" run --plain mixed.lua >report 2>&1 || fail "a mixture: $(cat report)"
"$C" metrics latest --json | python3 -c '
import json, sys
told = json.load(sys.stdin)
sources = [row[told["columns"].index("sources")] for row in told["rows"]]
text = json.dumps(sources)
sys.exit(not ("still" in text and "moving" in text))' || fail "$("$C" metrics latest --json)"
echo "ok: jobs of five composites"
