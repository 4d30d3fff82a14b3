#!/bin/bash
# Tensor parallelism: ranks that share the matrices of the language model and of the encoder compute what one rank does,
# with stages, split rows, replicas, adapters and frozen modules; evaluation, checkpoints, other layouts, export.
. "$(dirname "$0")/../support/e2e.sh"
. "$(dirname "$0")/../support/near.sh"
make_data 48
make_mixed
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$root/lua/examples/shapes-llm.json" >tied.json
"$C" model init tied.json data/tied --seed 2 --text data/text.txt --vocab 384 >/dev/null
test='eval={ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 10 }'
common=('llm_dir="data/tied"' 'json="data/mixed.json"' batch=6 seq=256 slots=4)

# --- everything trains: tp 2; tp 4 beside a tower of tp 2; two stages; two replicas; all on the same ranks
write_job one.lua "${common[@]}" "$test" 'modality="encoder-colocated"'
base=$(done_job one.lua)
ranks_are "$base" 1
check() { # WHAT RANKS KEY=VALUE...
  local what=$1 ranks=$2 id
  shift 2
  write_job tp.lua "${common[@]}" "$@"
  id=$(done_job tp.lua)
  ranks_are "$id" "$ranks"
  near "$base" "$id" "$what" 2
  echo "$id" >last
}
check "tp 2" 3 "$test" 'llm=1, tp = 2'
expect_rc 0 "$C" export "$(cat last)" out
expect_rc 0 "$C" model check out/llm
python3 - "$jobs/$base" "$jobs/$(cat last)" <<'PY' || fail "the parameters at the end are not told as one rank tells them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and len(one) > 20, (len(one), len(two))
PY
check "tp 4 and a tower of tp 2" 6 "$test" 'vision=1, tp = 2' 'llm=1, tp = 4'
check "tp 2 over two stages" 5 "$test" 'llm=2, tp = 2' 'plan=schedule = "zb-h1",'
check "tp 2 for each of two parts of the rows" 5 "$test" 'llm=1, tp = 2, cp = 2'
python3 - "$jobs/$(cat last)/journal" <<'PY' || fail "rows of ranks that share matrices are not told once"
import json, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["type"] == "runner.step" and r.get("kind", "train") == "train"]
assert steps and all(len(r["context"]) == 2 for r in steps), [r["context"] for r in steps][:2]
PY
check "tp 2 with rows split between products" 4 "$test" 'vision=1, tp = 2, sp = true' 'llm=1, tp = 2, sp = true'
check "two replicas of tp 2" 3 "$test" 'llm=1, tp = 2' 'plan=dp = 2,'
check "tower and language model on the same two ranks" 2 "$test" 'vision=1, tp = 2' 'llm=1, tp = 2' \
  'modality="encoder-colocated"'

# --- between frozen modules, and adapters
for train in ':train("vision.projector")' ':train("vision.projector"):lora { module = "llm", rank = 4, alpha = 8 }'; do
  write_job one.lua "${common[@]}" "train=$train" 'modality="encoder-colocated"'
  write_job tp.lua "${common[@]}" "train=$train" 'llm=1, tp = 2'
  one=$(done_job one.lua)
  two=$(done_job tp.lua)
  near "$one" "$two" "$train"
  python3 - "$jobs/$one" "$jobs/$two" <<'PY' || fail "$train: frozen matrices that ranks share are not told as one rank has them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
frozen = [name for name in one if name.startswith("llm/") and "lora" not in name]
assert len(frozen) >= 20 and all(one[name] == two[name] for name in frozen), [n for n in frozen if one[n] != two.get(n)]
PY
done

# --- a job goes on with other numbers of ranks: as the one that nothing disturbed
long=("${common[@]}" steps=100000 lr=1e-4)
write_job one.lua "${long[@]}" 'modality="encoder-colocated"'
write_job tp2.lua "${long[@]}" 'llm=1, tp = 2'
write_job tp4.lua "${long[@]}" 'llm=1, tp = 4, sp = true'
write_job tp2dp2.lua "${long[@]}" 'llm=1, tp = 2' 'plan=dp = 2,'
goes_on "from two ranks to one, to four, to two replicas of two, to two" tp2 one tp4 tp2dp2 tp2

# --- what cannot run is refused before anything starts, by name
refused 4 'which 3 ranks cannot share; numbers that can: 1, 2, 4' 'llm=1, tp = 3'
refused 4 'with modality encoder-colocated they are on the same ranks' 'vision=1, tp = 2' 'llm=1, tp = 4' \
  'modality="encoder-colocated"'
echo "ok: $compared layouts"
