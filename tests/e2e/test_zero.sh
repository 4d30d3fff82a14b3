#!/bin/bash
# Gradients and weights that replicas divide: the losses of one rank, what is told and exported at the end, adapters on a
# frozen model that is divided, evaluations, split backwards, copies, and jobs that go on with another level: 3, 1, 2, one
# rank, 3.
. "$(dirname "$0")/../support/e2e.sh"
. "$(dirname "$0")/../support/near.sh"
make_data 48
test='eval={ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 10 }'
common=(batch=8 seq=256 slots=4 lr=1e-3)

level() { echo "1, zero = $1"; } # of a branch, in the place of its pp

write_job one.lua "${common[@]}" "$test" 'modality="encoder-colocated"'
base=$(done_job one.lua)
for zero in 2 3; do
  write_job zero.lua "${common[@]}" "$test" 'modality="encoder-colocated"' 'plan=dp = 2,' \
    "vision=$(level $zero)" "llm=$(level $zero)"
  id=$(done_job zero.lua)
  near "$base" "$id" "zero $zero" 2
  [ "$("$C" show "$id" --json | field plan.stages.0.zero)" = $zero ] || fail "the plan does not say zero $zero"
done
expect_rc 0 "$C" export "$id" out
expect_rc 0 "$C" model check out/llm
python3 - "$jobs/$base" "$jobs/$id" <<'PY' || fail "the parameters at the end are not told as one rank tells them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and len(one) > 20, (len(one), len(two))
PY

# --- a frozen model that is divided, with adapters that train
for train in ':train("vision.projector")' ':train("vision.projector"):lora { module = "llm", rank = 4, alpha = 8 }'; do
  write_job one.lua "${common[@]}" "train=$train" 'modality="encoder-colocated"'
  write_job zero.lua "${common[@]}" "train=$train" 'plan=dp = 2,' "vision=$(level 3)" "llm=$(level 3)"
  one=$(done_job one.lua)
  two=$(done_job zero.lua)
  near "$one" "$two" "$train" 0
  python3 - "$jobs/$one" "$jobs/$two" <<'PY' || fail "$train: frozen weights that are divided are not told as one rank has them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
frozen = [name for name in one if name.startswith("llm/") and "lora" not in name]
assert len(frozen) > 20 and all(one[name] == two[name] for name in frozen), [n for n in frozen if one[n] != two.get(n)]
PY
done

# --- beside backwards in halves, and copies of encoders
divided() { # WHAT LEVEL RANKS KEY=VALUE...
  write_job zero.lua "${common[@]}" "$test" "vision=$(level "$2")" "${@:4}"
  id=$(done_job zero.lua)
  ranks_are "$id" "$3"
  near "$base" "$id" "$1, zero $2" 2
}
divided "zb-h1" 3 2 "llm=$(level 3)" 'plan=schedule = "zb-h1", dp = 2,'
divided "zb-h1 over two stages" 2 2 'modality="encoder-first"' 'llm=2, zero = 3' 'plan=schedule = "zb-h1", dp = 2,'
divided "copies" 2 2 'modality="encoder-colocated"' 'llm=2, zero = 2' 'plan=schedule = "three-phase", dp = 2,'
divided "copies for every slot, zb-h1" 3 2 'modality="encoder-replicated"' 'llm=2, zero = 3' 'plan=schedule = "zb-h1", dp = 2,'

# --- a job goes on with another level: as the one that nothing disturbed
long=("${common[@]}" steps=100000 lr=1e-4)
write_job one.lua "${long[@]}" 'modality="encoder-colocated"'
for zero in 1 2 3; do
  write_job zero$zero.lua "${long[@]}" 'plan=dp = 2,' "vision=$(level $zero)" "llm=$(level $zero)"
done
goes_on "levels 3, 1, 2, one rank, 3" zero3 zero1 zero2 one zero3

# --- what cannot be divided is refused before anything starts
refused 4 'set dp or cp above 1' "llm=$(level 2)"
echo "ok: $compared layouts"
