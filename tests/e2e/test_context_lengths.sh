#!/bin/bash
# Sequences of lengths that no block divides, split over two to four ranks: ten steps have the losses and gradient norms
# of one rank within 1e-5, and the weights at the end are apart by 1e-5 of their norm at most. A slot with one document of
# the whole length, a picture inside, and one with two packed documents. A few of each without CORNSTARCH_LONG; with it
# every rule of distribution (or those given), every number of ranks and every length, masks in turn so that each meets
# every rule.
. "$(dirname "$0")/../support/e2e.sh"
make_data 8

# length L: documents of L, L / 2 and L - L / 2 - 7 tokens; every symbol is a token, a picture 64
write_data() { # FILE LENGTH...: the number of symbols of every sample
  python3 - "$@" <<'PY'
import json, random, sys
rows, draw = json.load(open("data/train.json")), random.Random(7)
out = []
for i, n in enumerate(map(int, sys.argv[2:])):
    symbols = "".join(draw.choice("~^`{}|@#$%&*") for _ in range(n))
    row = {"id": str(i), "image": rows[i]["image"], "conversations": [
        {"from": "human", "value": symbols[: n // 3] + "<image>" + symbols[n // 3 :]},
        {"from": "gpt", "value": "".join(draw.choice("~^{}|@#&") for _ in range(24))}]}
    out.append(row)
json.dump(out, open(sys.argv[1], "w"))
PY
}
write_script() { # FILE DATA LENGTH MASK PARALLEL
  cat >"$1" <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "data/llm", mask = $4,
}:train("*")
return cs.job {
  plan = cs.plan { model = model, $5, seq_tokens = $3, slots = 2 },
  data = cs.data.llava { json = "$2", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 1e-3, eps = 1e-4 }, batch_samples = 3, steps = 10,
}
LUA
}
count() { # SCRIPT KEY
  "$C" data check "$1" --json | field "sets.0.$2"
}

declare -A base
alone='parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, modality = "encoder-colocated"'
write_data data/probe.json 30
write_script probe.lua data/probe.json 1024 '"causal"' "$alone"
around=$(($(count probe.lua longest) - 30)) # tokens beside the symbols
make_length() { # LENGTH
  local n=$1
  write_data "data/$n.json" $((n - around)) $((n / 2 - around)) $((n - n / 2 - 7 - around))
  write_script one.lua "data/$n.json" "$n" '"causal"' "$alone"
  [ "$(count one.lua longest)" = "$n" ] && [ "$(count one.lua tokens)" = $((2 * n - 7)) ] || fail "length $n: $(count one.lua longest) and $(count one.lua tokens)"
}
finish() { # DIR: the script one.lua or cp.lua to its end, its model to DIR
  local id
  id=$(done_job "$1.lua")
  rm -rf "$1.model"
  expect_rc 0 "$C" export "$id" "$1.model"
  echo "$id"
}
check() { # LENGTH RANKS RULE MASK
  local what="$1 tokens over $2 ranks by $3 under ${4%%,*}" key="$1-${4//[^a-z0-9]/}" id
  [ -e "data/$1.json" ] || make_length "$1"
  if [ -z "${base[$key]:-}" ]; then
    write_script one.lua "data/$1.json" "$1" "$4" "$alone"
    base[$key]=$(finish one)
    mv one.model "$key.model"
  fi
  write_script cp.lua "data/$1.json" "$1" "$4" "parallel = { vision = { pp = 1 }, llm = { pp = 1, cp = $2 } }, context = \"$3\""
  id=$(finish cp)
  python3 - "$jobs/${base[$key]}/journal" "$jobs/$id/journal" "$key.model" cp.model "$2" "$1" <<'PY' || fail "$what"
import array, glob, json, math, os, struct, sys

def steps(path):
    rows = [json.loads(line) for line in open(path) if line.endswith("\n")]
    return {r["step"]: r for r in rows if r["type"] == "runner.step" and r.get("kind", "train") == "train"}

def tensors(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.safetensors"), recursive=True)):
        raw = open(path, "rb").read()
        n = struct.unpack("<Q", raw[:8])[0]
        for name, t in json.loads(raw[8 : 8 + n]).items():
            if name != "__metadata__":
                assert t["dtype"] == "F32", (name, t)
                begin, end = t["data_offsets"]
                found[os.path.relpath(path, folder) + ":" + name] = array.array("f", raw[8 + n + begin : 8 + n + end])
    return found

def apart(a, b):
    return math.sqrt(sum((x - y) * (x - y) for x, y in zip(a, b))), math.sqrt(sum(y * y for y in b))

one, many = steps(sys.argv[1]), steps(sys.argv[2])
assert sorted(one) == sorted(many) == list(range(10)), (sorted(one), sorted(many))
for step in one:
    for key in ("loss", "grad_norm"):
        a, b = one[step][key], many[step][key]
        assert math.isfinite(a) and a > 0 and abs(a - b) <= 1e-5 * a, (step, key, a, b)
    context = many[step]["context"]
    assert len(context) == int(sys.argv[5]) and sum(row[1] for row in context) == 2 * int(sys.argv[6]) - 7, context
told = [many[step]["sequence"] for step in many if "sequence" in many[step]]
assert told and all(s["rows"] == int(sys.argv[6]) and s["docs"] == 1 for s in told), told
assert all(s["what"][0] in "TA" and "t" in s["what"] and ("a" in s["what"] or s["block"] > 64) for s in told), told # text, a picture of 64, text
assert abs(one[9]["loss"] - one[0]["loss"]) > 1e-3, "nothing was learned"
a, b = tensors(sys.argv[3]), tensors(sys.argv[4])
assert sorted(a) == sorted(b) and len(a) > 20, (len(a), len(b))
for name in a:
    off, size = apart(b[name], a[name])
    assert off <= 1e-5 * size + 1e-7, (name, off, size)
PY
  compared=$((compared + 1))
}

compared=0
if [ -z "${CORNSTARCH_LONG:-}" ]; then
  check 1000 4 lpt '"image_bidir"'
  check 1536 4 zigzag '"causal"'
  check 335 3 striped '"cornstarch"'
  check 2003 2 best '"packed"'
else
  masks=('"causal"' '"image_bidir"' '"cornstarch"' '"modality_bidir"' '"packed"' '"window", window = 100' '"image_bidir_window", window = 100'
    '"prefix", prefix = 50')
  rules=(uniform zigzag striped lpt exact best random)
  turn=0
  for rule in "${rules[@]}"; do
    [[ $# -eq 0 || " $* " == *" $rule "* ]] || { turn=$((turn + 13)); continue; }
    for cp in 2 3 4; do
      for n in 335 1000 2003 4096; do
        check $n $cp $rule "${masks[turn % ${#masks[@]}]}"
        turn=$((turn + 1))
      done
    done
    turn=$((turn + 1))
  done
  check 1536 4 zigzag '"causal"'
fi
echo "ok: $compared layouts equal one rank"
