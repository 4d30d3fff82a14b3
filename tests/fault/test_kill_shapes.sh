#!/bin/bash
# Jobs of other shapes than a plain pipeline - replicas, two encoders, interleaved, a context, one rank - are killed at any
# moment: a worker, the feeder, the runner or all at once. Resumed as often as it takes, they end with the losses,
# gradient norms and weights of a job that nobody touched, all digits. CORNSTARCH_LONG: 40 kills, else one a shape.
. "$(dirname "$0")/../support/e2e.sh"
make_data 48
steps=150
kills=1
[ -z "${CORNSTARCH_LONG:-}" ] || kills=10
RANDOM=${SEED:-5}

two_encoders() { # FILE
  python3 - <<'PY'
import json
rows = json.load(open("data/train.json"))
for i, row in enumerate(rows):  # both, one of them, none
    first = row["conversations"][0]
    if i % 4 in (0, 1):
        row["audio"] = rows[(i * 7 + 1) % len(rows)]["id"].rsplit("-", 1)[0] + ".png"
        first["value"] = "<audio>\n" + first["value"]
for i, row in enumerate(rows):
    if i % 4 in (1, 2):
        row.pop("image")
        row["conversations"][0]["value"] = row["conversations"][0]["value"].replace("<image>\n", "")
json.dump(rows, open("data/two.json", "w"))
PY
  cat >"$1" <<LUA
local cs = require "cornstarch"
local function encoder(token) return { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = token } end
local model = cs.mllm { encoders = { vision = encoder "<image>", second = encoder "<audio>" }, llm = cs.hf "data/llm" }:train("*")
return cs.job {
  plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, second = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 768, slots = 2 },
  data = cs.data.llava { json = "data/two.json", images = "data/images" }, checkpoint = { every_steps = 10, keep = 4 },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 8, steps = $steps, seed = 4,
}
LUA
}
common=(batch=8 "steps=$steps" 'checkpoint={ every_steps = 10, keep = 4 }')
write_job replicas.lua "${common[@]}" vision=1 llm=1 'plan=dp = 2,'
write_job interleaved.lua "${common[@]}" vision=1 llm=2 slots=4 'plan=schedule = "interleaved",'
write_job context.lua "${common[@]}" vision=1 'llm=1, cp = 2'
write_job one.lua "${common[@]}" 'modality="encoder-colocated"'
two_encoders two.lua

is_over() { case $(job "$1" state) in DONE | FAILED | LOST | CANCELLED) return 0 ;; esac; return 1; }

# a moment between two rows of the journal, then whoever is drawn
kill_someone() { # ID
  local runner all victims
  runner=$(runner_pid "$1")
  all=($(children "$runner" cornstarch-worker) $(children "$runner" cornstarch-feeder) "$runner")
  [ ${#all[@]} -ge 3 ] || return 0 # it has just ended
  victims=${all[RANDOM % ${#all[@]}]}
  [ $((RANDOM % 4)) -ne 0 ] || victims=${all[*]}
  kill -9 $victims 2>/dev/null || true
  killed=$((killed + 1))
}

survives() { # SHAPE: its job, its reference, kills
  local base id round at
  base=$(done_job "$1.lua")
  for ((round = 0; round < kills; round++)); do
    id=$(submit "$1.lua")
    at=$((3 + RANDOM % (steps / 2)))
    until_true "job $id of $1 makes step $at" has_rows_or_over "$id" "$at"
    sleep "0.0$((RANDOM % 10))"
    kill_someone "$id"
    until_true "job $id of $1 is over" is_over "$id"
    until [ "$(job "$id" state)" = DONE ]; do
      expect_rc 0 "$C" resume "$id"
      "$C" wait "$id" >/dev/null || fail "job $id of $1 does not end after resume: $(job "$id" reason)"
    done
    jobs_py rows "$jobs/$base" >one
    jobs_py rows "$jobs/$id" >two
    [ "$(wc -l <one)" -eq $steps ] && cmp -s one two || fail "$1: losses differ after a kill at step $at: $(diff one two | head -n 6)"
    jobs_py weights "$jobs/$base" >one
    jobs_py weights "$jobs/$id" >two
    [ -s one ] && cmp -s one two || fail "$1: weights differ after a kill at step $at: $(diff one two | head -n 6)"
  done
}
has_rows_or_over() { has_rows "$1" "$2" || is_over "$1"; }

killed=0
for shape in replicas two interleaved context one; do survives $shape; done
[ $killed -ge 3 ] || fail "only $killed kills hit"
echo "ok: $killed kills"
