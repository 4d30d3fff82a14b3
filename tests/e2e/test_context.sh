#!/bin/bash
# Context parallelism: rows of the language model over two and three ranks compute what one rank does, with packed and
# text-only samples, stages, replicas, adapters and frozen modules; evaluation, checkpoints, other layouts, export.
. "$(dirname "$0")/../support/e2e.sh"
. "$(dirname "$0")/../support/near.sh"
make_data 48
make_mixed
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$root/lua/examples/shapes-llm.json" >tied.json
"$C" model init tied.json data/tied --seed 2 --text data/text.txt --vocab 384 >/dev/null
test='eval={ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 10 }'
common=('llm_dir="data/tied"' 'json="data/mixed.json"' batch=6 seq=256 slots=4)

# --- everything trains: cp 2, cp 3 over two stages, cp 2 in two replicas
write_job one.lua "${common[@]}" "$test" 'modality="encoder-colocated"'
base=$(done_job one.lua)
ranks_are "$base" 1
check() { # WHAT RANKS KEY=VALUE...
  local what=$1 ranks=$2 id
  shift 2
  write_job cp.lua "${common[@]}" "$@"
  id=$(done_job cp.lua)
  ranks_are "$id" "$ranks"
  near "$base" "$id" "$what" 2
  python3 - "$jobs/$id/journal" <<'PY' || fail "$what: what ranks had of the rows is not told"
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if row["type"] == "runner.step" and row.get("kind") == "train":
        parts = row["context"]
        ranks, rows, pairs, flops, wait = zip(*parts)
        assert list(ranks) == sorted(set(ranks)) and min(min(rows), min(pairs), min(wait)) >= 0, parts
        assert sum(rows) % row["tokens"] == 0 and sum(rows) > 0 and sum(flops) > 0, (row["tokens"], parts)
PY
  python3 - "$jobs/$id/journal" <<'EOF' || fail "$what: the slot with most work is not told"
import json, sys
told = [row["sequence"] for row in map(json.loads, open(sys.argv[1]))
        if row["type"] == "runner.step" and "sequence" in row]
assert told
for s in told:
    assert s["rows"] > 0 and len(s["what"]) == len(s["work"]) and s["what"][0] in "TA" and max(s["work"]) == 1000, s
    assert set(s["loads"]) == {"best", "uniform", "zigzag", "striped", "lpt", "exact", "random"}, s
    for loads in s["loads"].values():
        assert abs(sum(loads) - 10000 * len(loads)) <= len(loads) and min(loads) >= 0, s
    assert max(s["loads"]["best"]) <= min(max(s["loads"][r]) for r in ("uniform", "zigzag", "striped", "lpt")), s
EOF
  "$C" metrics "$id" --json --limit 1 >said && python3 - said <<'EOF' || fail "no sequence in the metrics"
import json, sys
doc = json.load(open(sys.argv[1]))
assert doc["rows"][0][doc["columns"].index("sequence")]["rows"] > 0
EOF
  "$C" metrics "$id" --json --limit 1 | field rows.0.15.0.4 >wait || fail "no context in the metrics"
  [ "$(cat wait)" -ge 0 ] || fail "no wait in the metrics"
  "$C" dump --replay "$jobs/$id/trace" --view tokens --size 80x24 >"$work/said"
  expect_text "largest work / mean"
  expect_text "zigzag"
  echo "$id" >last
}
check "cp 2" 3 "$test" 'llm=1, cp = 2'
check "encoder on the context's ranks" 2 "$test" 'llm=1, cp = 2' 'modality="encoder-colocated"'
check "encoder's items and rows on the same two ranks" 2 "$test" 'vision=1, cp = 2' 'llm=1, cp = 2' 'modality="encoder-colocated"'
check "two ranks share items, three rows" 5 "$test" 'vision=1, cp = 2' 'llm=1, cp = 3'
check "some slots on one rank" 3 "$test" 'llm=1, cp = 2' 'plan=context_rows = 80,'
for exchange in keys heads; do
  check "nearly all slots on one rank, $exchange" 3 "$test" 'llm=1, cp = 2' "plan=context_rows = 255, context_exchange = \"$exchange\","
  python3 - "$jobs/$(cat last)/journal" <<'PY' || fail "$exchange: ranks wait for each other over slots that one of them has"
import json, sys
steps = [row["context"] for row in map(json.loads, open(sys.argv[1])) if row["type"] == "runner.step" and row.get("kind") == "train"]
assert steps and not any(part[4] for step in steps for part in step), steps
assert all(sum(part[1] > 0 for part in step) == 2 for step in steps), steps
PY
done
check "heads move" 3 "$test" 'llm=1, cp = 2' 'plan=context_exchange = "heads",'
python3 - "$jobs/$(cat last)/journal" <<'PY' || fail "heads move, but attention is not told as even"
import json, sys
steps = [row["context"] for row in map(json.loads, open(sys.argv[1])) if row["type"] == "runner.step" and row.get("kind") == "train"]
assert steps and all(max(part[2] for part in step) - min(part[2] for part in step) <= 8 * 4 for step in steps), steps
PY
check "heads move over 4 ranks, two have the same keys" 5 "$test" 'llm=1, cp = 4' 'plan=context_exchange = "heads", context = "zigzag",'
check "heads move between 2 of 4 ranks, or all, or none" 5 "$test" 'llm=1, cp = 4' 'plan=context_exchange = "heads", context_rows = 40,'
expect_rc 0 "$C" export "$(cat last)" out
expect_rc 0 "$C" model check out/llm
check "cp 3 over two stages" 7 "$test" 'llm=2, cp = 3' 'plan=context = "zigzag", schedule = "zb-h1",'
check "two replicas of cp 2" 3 "$test" 'llm=1, cp = 2' 'plan=dp = 2,'

# --- where pictures lie is told of whole slots, also by ranks that have only some of an encoder's items
for vision in 'vision=1' 'vision=1, cp = 2'; do
  write_job cp.lua "${common[@]}" 'json="data/train.json"' 'modality="encoder-colocated"' "$vision" 'llm=1, cp = 2' steps=2
  python3 - "$jobs/$(done_job cp.lua)/journal" >>what <<'EOF' || fail "$vision: the slot with most work is not told"
import json, sys
print(next(row["sequence"]["what"] for row in map(json.loads, open(sys.argv[1])) if "sequence" in row))
EOF
done
[ "$(sort -u what | wc -l)" -eq 1 ] && grep -qi a what || fail "pictures of one slot in two places: $(cat what)"

# --- between frozen modules, and adapters
for train in ':train("vision.projector")' ':train("vision.projector"):lora { module = "llm", rank = 4, alpha = 8 }'; do
  write_job one.lua "${common[@]}" "train=$train" 'modality="encoder-colocated"'
  write_job cp.lua "${common[@]}" "train=$train" 'llm=1, cp = 2'
  near "$(done_job one.lua)" "$(done_job cp.lua)" "$train"
done

# --- what a search finds for long sequences is run: few slots, so ranks share one
cat >found.lua <<'LUA'
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "data/tied",
}:train("*")
local found = cs.search {
  model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 4 }, seq_tokens = 16384, batch_slots = 1,
  encoder_rows = { vision = 64 }, parallel = { vision = { pp = 1, cp = 1 } }, compare = false, runs = true,
}
local best = found:plans()[1]
assert(best.runs and best.parallel.llm.cp == 3, "cp " .. best.parallel.llm.cp)
return cs.job {
  plan = found:plan(), data = cs.data.llava { json = "data/mixed.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 6, steps = 4,
}
LUA
expect_rc 0 "$C" plan found.lua
expect_text "split over 3 ranks of every stage of llm (lpt)"
ranks_are "$(done_job found.lua)" 4

# --- many lengths: short slots stay on one rank where a search finds that steps take less, and the one that is picked
# is run so; slots that are all as long as can be are left alone
write_found() { # SAMPLES
  cat >found.lua <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "data/tied",
}:train("*")
return cs.job {
  plan = cs.search {
    model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 3 }, seq_tokens = 256, batch_slots = 4, dp = 1,
    encoder_rows = { vision = 128 }, parallel = { vision = { pp = 1, cp = 1 }, llm = { pp = 1, cp = 2 } }, compare = false,
    runs = true, samples = { $1 }, batch_samples = 4, modality = "encoder-parallel",
  },
  data = cs.data.llava { json = "data/mixed.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 6, steps = 4,
}
LUA
  sed 's/^return cs.job {$/return/; /^  data = /,$d; s/^  plan = //; s/^  },$/  }/' found.lua >rows.lua
}
write_found '{ vision = 64, llm = 256 }'
expect_rc 0 "$C" plan found.lua
if grep -q "A slot is split only" "$work/said"; then fail "context_rows where all slots are alike"; fi
write_found '{ vision = 64, llm = 256 }, { vision = 0, llm = 48 }, { vision = 0, llm = 44 }, { vision = 0, llm = 40 }'
expect_rc 0 "$C" plan found.lua
expect_text "A slot is split only where a rank would have more than 48 of its rows"
expect_rc 0 "$C" plan rows.lua
expect_text "context_rows 48"
id=$(submit found.lua --pick 1)
"$C" wait "$id" >/dev/null || fail "the picked plan: exit $?, $(job "$id" reason)"
ranks_are "$id" 3
[ "$(field context_rows <"$jobs/$id/plan.json")" = 48 ] || fail "the picked plan splits short slots"

# --- a job goes on with other numbers of ranks: as the one that nothing disturbed
long=("${common[@]}" steps=100000 lr=1e-4)
write_job one.lua "${long[@]}" 'modality="encoder-colocated"'
write_job cp4.lua "${long[@]}" 'llm=1, cp = 4'
write_job cp3.lua "${long[@]}" 'llm=1, cp = 3' 'plan=context = "striped",'
goes_on "from four ranks to one, to four, to three" cp4 one cp4 cp3
write_job heads.lua "${long[@]}" 'llm=1, cp = 2' 'plan=context_exchange = "heads",'
write_job keys.lua "${long[@]}" 'llm=1, cp = 2' 'plan=context_exchange = "keys",'
goes_on "from heads to keys and back" heads keys heads

# --- what cannot run is refused before anything starts, by name
refused 4 'plan.parallel.vision.cp = 3: with modality encoder-colocated' 'vision=1, cp = 3' 'llm=1, cp = 2' 'modality="encoder-colocated"'
refused 4 'plan.context_rows = 64: rows of llm are not split' 'plan=context_rows = 64,'
refused 4 'no slot has more rows' 'llm=1, cp = 2' 'plan=context_rows = 4096,'
refused 4 'cannot share the 4 heads, 2 of keys, of llm.layers.0' 'llm=1, cp = 3' 'plan=context_exchange = "heads",'
refused 1 'lpt' 'llm=1, cp = 2' 'plan=context = "lpd",'

# --- the example is planned as it stands
mkdir -p build
ln -s ../data build/shapes
expect_rc 0 "$C" plan "$root/lua/examples/long-context.lua"
expect_text "split over 2 ranks of every stage of llm (lpt)"
echo "ok: $compared layouts"
