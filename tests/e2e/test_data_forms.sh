#!/bin/bash
# One data set in several forms - LLaVA's JSON, lines with data URIs, a table, a folder of tar archives - has the same
# samples, tokens and pictures; and the model's own chat template gives the same texts as ours, where Python has
# jinja2.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=${CORNSTARCH_BIN:?set it to the folder of the programs}
C=$bin/cornstarch-console
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
work=$(mktemp -d) || exit 1
export CORNSTARCH_RUNTIME_DIR=$work/run CORNSTARCH_STATE_DIR=$work/state
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() { echo "FAIL $*"; exit 1; }
examples=$here/../../lua/examples
"$C" data make shapes data --train 12 --test 2 >/dev/null || fail "making data"
"$C" model init "$examples/shapes-vision.json" data/vision >/dev/null || fail "making a model"
"$C" model init "$examples/shapes-llm.json" data/llm --text data/text.txt --vocab 384 >/dev/null || fail "making a model"
python3 - <<'PY' || exit 1
import base64, io, json, os, tarfile
samples = json.load(open("data/train.json"))
def media(s):
    names = s["image"] if isinstance(s["image"], list) else [s["image"]]
    return [open(os.path.join("data/images", n), "rb").read() for n in names]
with open("data/lines.jsonl", "w") as f:
    for s in samples:
        uris = ["data:image/png;base64," + base64.b64encode(b).decode() for b in media(s)]
        turns = [{"role": "user" if t["from"] == "human" else "assistant", "content": t["value"]} for t in s["conversations"]]
        f.write(json.dumps({"id": s.get("id"), "images": uris, "messages": turns}) + "\n")
import csv
with open("data/table.csv", "w", newline="") as f:
    w = csv.writer(f)
    w.writerow(["id", "image", "conversations"])
    for s in samples:
        image = s["image"] if isinstance(s["image"], str) else json.dumps(s["image"])
        w.writerow([s.get("id"), image, json.dumps(s["conversations"])])
os.mkdir("data/tars")
for part in (0, 1):
    with tarfile.open("data/tars/%d.tar" % part, "w") as t:
        for i, s in enumerate(samples):
            if (i >= 7) != part:
                continue
            files = [("json", json.dumps({"conversations": s["conversations"]}).encode())]
            files += [("%d.png" % k, b) for k, b in enumerate(media(s))]
            for end, b in files:
                info = tarfile.TarInfo("%03d.%s" % (i, end))
                info.size = len(b)
                t.addfile(info, io.BytesIO(b))
PY
job() {
  cat <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "data/llm",
}:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, slots = 2 }
return cs.job {
  plan = plan, data = cs.data.llava { json = "$1", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 3, seed = 1,
}
LUA
}
for form in data/train.json data/lines.jsonl data/table.csv data/tars "data/tars/*.tar"; do
  job "$form" >job.lua
  "$C" data check job.lua --json >check.json || fail "data check of $form"
  python3 - "$form" <<'PY' || fail "$form has other samples"
import json, sys
s = json.load(open("check.json"))["sets"][0]
got = [s[k] for k in ("samples", "good", "tokens", "trained_tokens")] + [e["items"] for e in s["encoders"]]
if sys.argv[1] == "data/train.json":
    json.dump(got, open("want.json", "w"))
sys.exit(got != json.load(open("want.json")) or got[1] != 48)
PY
done
# a folder of pictures with a table of their names and texts
mkdir data/folder && cp data/images/train-0000[01].png data/folder && printf 'file_name,text\ntrain-00000.png,"red, green"\ntrain-00001.png,blue\n' >data/folder/metadata.csv
job data/folder | sed 's|, images = "data/images"||; s|token = "<image>"|&, key = "file_name"|' >job.lua
"$C" data check job.lua >out 2>&1 || fail "$(cat out)"
grep -q 'vision   2 items, 128 rows, from the keys "file_name"' out || fail "$(cat out)"
# the same samples twice more in a mixture; plan says of pictures that cannot be read, in the part that it looks at
job data/train.json | sed 's|images = "data/images"|&, weight = 3, mix = { { json = "data/tars", weight = 1, name = "tars" }, { json = "data/table.csv", images = "data/images", weight = 1 } }|' >job.lua
"$C" data check job.lua --json >check.json || fail "data check of a mixture"
python3 -c 'import json; s = json.load(open("check.json"))["sets"][0]; assert s["samples"] == s["good"] == 144, s' || fail "the mixture has other samples"
"$C" plan job.lua >out 2>&1 || fail "a mixture is not planned: $(cat out)"
job data/train.json | sed 's|images = "data/images"|images = "data"|' >job.lua
"$C" plan job.lua >out 2>&1 || fail "$(cat out)"
grep -q "warning: .*train.json: 4 of the 48 samples cannot be used; the first: missing file" out || fail "no word of missing pictures: $(cat out)"
# answers that nothing ends are told of, those that have an end are not
job data/train.json | sed 's|images = "data/images"|&, template = { name = "chatml", assistant = { ["end"] = " " } }|' >job.lua
"$C" plan job.lua >out 2>&1 || fail "$(cat out)"
grep -q "warning: .*no answer of the 48 samples ends with a special token" out || fail "no word of answers without an end: $(cat out)"
job data/train.json >job.lua
"$C" plan job.lua >out 2>&1 || fail "$(cat out)"
! grep -q "ends with a special token" out || fail "answers have an end: $(cat out)"
# what was decoded is kept for the next time, and a file that was changed is decoded again
job data/train.json | sed 's|images = "data/images"|&, cache = { dir = "cache", size = "10 MB" }|' >job.lua
for want in "36 12" "48 0" "47 1"; do
  "$C" data check job.lua --json >check.json || fail "data check with a cache"
  python3 - $want <<'PY' || fail "the cache has not found and added $want: $(cat check.json)"
import json, sys
c = json.load(open("check.json"))["sets"][0]["cache"]
sys.exit([c["found"], c["added"]] != [int(a) for a in sys.argv[1:]] or not 0 < c["bytes"] <= c["max_bytes"] == 10000000)
PY
  [ "$want" = "36 12" ] || python3 - <<'PY'
import json, os
s = json.load(open("data/train.json"))[0]["image"]
os.utime(os.path.join("data/images", s if isinstance(s, str) else s[0]))
PY
done
sed -i 's|"cache"|"job.lua/x"|' job.lua
"$C" plan job.lua >out 2>&1 && fail "a cache below a file is planned with"
grep -q "data.cache_dir .*is no directory" out || fail "$(cat out)"
python3 -c 'import jinja2' 2>/dev/null || { echo "without jinja2 of Python the rest is skipped"; exit 0; }
job data/train.json >job.lua
cat >data/llm/chat_template.jinja <<'EOF'
{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}
{%- for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<image>{% endif %}{% endfor %}{% endif %}
{{- '<|im_end|>\n' }}{% endfor %}
EOF
"$C" data check job.lua --template >out 2>&1 || fail "$(cat out)"
grep -q "48 samples have the text that" out || fail "$(cat out)"
# one that knows contents that are texts alone
cp data/llm/chat_template.jinja parts.jinja
echo "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" >data/llm/chat_template.jinja
"$C" data check job.lua --template >out 2>&1 || fail "$(cat out)"
grep -q "48 samples have the text that" out || fail "$(cat out)"
cp parts.jinja data/llm/chat_template.jinja
# a template of the job that differs is shown with both texts
sed -i 's|images = "data/images"|&, template = { name = "chatml", default_system = "x" }|' job.lua
"$C" data check job.lua --template >out 2>&1 && fail "another template equals the model's"
grep -q 'sample 0 is rendered otherwise than by the model.s own chat template: here "<|im_start|>system' out || fail "$(cat out)"
