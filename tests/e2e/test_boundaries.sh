#!/bin/bash
# Boundaries between layouts that differ: encoders with more and fewer replicas than the language model, and copies of
# them on its ranks, compute what one rank does, with pictures missing; evaluation, checkpoints, from any to any, export.
. "$(dirname "$0")/../support/e2e.sh"
. "$(dirname "$0")/../support/near.sh"

make_data 48
make_mixed
test='eval={ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 10 }'
common=('json="data/mixed.json"' batch=6 seq=256 slots=6)
colocated='modality="encoder-colocated"'

write_job one.lua "${common[@]}" "$test" "$colocated"
base=$(done_job one.lua)
check() { # WHAT RANKS KEY=VALUE...
  local what=$1 ranks=$2 id
  shift 2
  write_job many.lua "${common[@]}" "$test" "$@"
  id=$(done_job many.lua)
  ranks_are "$id" "$ranks"
  near "$base" "$id" "$what" 2
  echo "$id" >last
}
# plan.n_ranks: those of a part of the ranks that is repeated
check "an encoder's three replicas for two" 5 'vision=1, dp = 3' 'plan=dp = 2,'
expect_rc 0 "$C" export "$(cat last)" out
expect_rc 0 "$C" model check out/llm
python3 - "$jobs/$base" "$jobs/$(cat last)" <<'PY' || fail "the parameters at the end are not told as one rank tells them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and len(one) > 20, (len(one), len(two))
PY
check "one for two, which split rows" 5 'vision=1, dp = 1' 'llm=1, cp = 2' 'plan=dp = 2,'
check "four for two, once each" 3 'vision=1, dp = 4' 'plan=dp = 2,'
check "copies that share the slots" 2 "$colocated" 'llm=2' 'plan=schedule = "three-phase",'
check "copies a bounded number of slots ahead, twice" 2 "$colocated" 'llm=2' 'plan=schedule = "anchors", dp = 2,'
check "a replica on every rank of two that share matrices" 2 "$colocated" 'vision=1, dp = 2' 'llm=1, tp = 2'
check "rows in stripes from one rank to two, whose gradients come back whole" 3 'llm=1, tp = 2' 'plan=stripes = "always",'
"$C" plan many.lua | grep -q 'from vision.0 to llm.0: striped, .*; gradients come back: point to point, ' || fail "the plan does not say how rows go"
check "rows in stripes both ways" 4 'vision=1, tp = 2' 'llm=1, tp = 2' 'plan=stripes = "always",'
check "rows that stay split from stage to stage" 5 'llm=2, tp = 2, sp = true'
check "copies for every slot" 2 'modality="encoder-replicated"' 'llm=2'

# --- a job goes on in every other layout: as the one that nothing disturbed
long=("${common[@]}" steps=100000 lr=1e-4)
write_job one.lua "${long[@]}" "$colocated"
write_job 3for2.lua "${long[@]}" 'vision=1, dp = 3' 'plan=dp = 2,'
write_job 1for2.lua "${long[@]}" 'vision=1, dp = 1' 'plan=dp = 2,'
write_job 2for3.lua "${long[@]}" 'vision=1, dp = 2' 'plan=dp = 3,'
write_job anchors.lua "${long[@]}" "$colocated" 'llm=2' 'plan=schedule = "anchors",'
goes_on "through six layouts" 3for2 anchors 1for2 one 2for3 3for2

# --- what cannot run is refused before anything starts, by name
refused 4 'with modality encoder-colocated they are on the same ranks' 'vision=1, dp = 2' "$colocated"
refused 4 'the plan needs 10 ranks' 'vision=1, dp = 8' 'plan=dp = 2,'
echo "ok: $compared layouts"
