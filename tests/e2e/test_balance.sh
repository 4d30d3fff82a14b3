#!/bin/bash
# The balance of samples over slots, through the real processes: a step holds the same samples under every policy,
# its slots come out evener, layouts and restarts change no bit.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
steps=8

# what is hard to balance: pictures come in runs of the file, and some texts are three times as long
python3 - <<'PY'
import json
rows = json.load(open("data/train.json"))
for i, row in enumerate(rows):
    first = row["conversations"][0]
    if i % 5 >= 3:
        row.pop("image")
        first["value"] = first["value"].replace("<image>\n", "")
    if i % 7 == 0:
        row["conversations"] *= 3
        for turn in row["conversations"][2::2]: # a picture only once
            row["conversations"][row["conversations"].index(turn)] = dict(turn, value=turn["value"].replace("<image>\n", ""))
json.dump(rows, open("data/uneven.json", "w"))
PY

# policy_job FILE POLICY ORDER KEY=VALUE...
policy_job() {
  local file=$1 policy=$2 order=$3
  shift 3
  write_job "$file" 'json="data/uneven.json"' batch=16 seq=768 slots=6 steps=$steps seed=3 "$@"
  sed -i "s/^  optimizer/  balance = \"$policy\", slot_order = \"$order\",\n  optimizer/" "$file"
  grep -q "balance = \"$policy\"" "$file" || fail "no balance in $file"
}
samples_of() { # ID: step, samples and trained tokens
  python3 - "$jobs/$1/journal" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if row["type"] == "runner.step" and row["kind"] == "train":
        print(row["step"], row["samples"], row["trained_tokens"])
PY
}
first_loss() { jobs_py rows "$jobs/$1" 0 0 | awk '{ print $2 }'; }
close_to() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= 1e-5 * abs(b))' "$1" "$2"; }
same_bits() { # ID ID WHAT
  jobs_py rows "$jobs/$1" >one
  jobs_py rows "$jobs/$2" >two
  [ "$(wc -l <one)" -eq $steps ] || fail "$3: job $1 has $(wc -l <one) steps"
  cmp -s one two || fail "$3: losses differ: $(diff one two | head -n 4)"
  jobs_py weights "$jobs/$1" >one
  jobs_py weights "$jobs/$2" >two
  [ -s one ] && cmp -s one two || fail "$3: weights differ: $(diff one two | head -n 4)"
}
largest() { # ID BRANCH: share of the largest slot in per cent: balanced, in stream order
  grep -h 'balance ' "$jobs/$1/logs/feeder.log" | tail -n 1 | sed -n "s/.* $2 \([0-9.]*\) % (stream order \([0-9.]*\) %).*/\1 \2/p"
}

# --- every policy on 1 + 2 ranks
declare -A id
for policy in stream list2d lpt entrain random; do
  policy_job $policy.lua $policy kept vision=1 llm=2
  id[$policy]=$(done_job $policy.lua)
  samples_of "${id[$policy]}" >$policy.samples
  [ "$(wc -l <$policy.samples)" -eq $steps ] || fail "$policy: $(wc -l <$policy.samples) steps"
  cmp -s stream.samples $policy.samples || fail "$policy: other samples than in stream order: $(diff stream.samples $policy.samples | head -n 4)"
  close_to "$(first_loss "${id[$policy]}")" "$(first_loss "${id[stream]}")" || fail "$policy: the loss of step 0 is another"
  jobs_py rows "$jobs/${id[$policy]}" >$policy.rows
  [ $policy = stream ] || ! cmp -s stream.rows $policy.rows || fail "$policy: the very bits of stream order; is it applied?"
done

# --- evener: the largest slot under list2d, against stream order and against random
for branch in vision llm; do
  read -r now before <<<"$(largest "${id[list2d]}" $branch)"
  read -r dealt _ <<<"$(largest "${id[random]}" $branch)"
  read -r streamed same <<<"$(largest "${id[stream]}" $branch)"
  [ -n "$now" ] && [ -n "$dealt" ] && [ "$streamed" = "$same" ] || fail "no balance in the feeder's log"
  python3 -c 'import sys; now, before, dealt = map(float, sys.argv[1:]); sys.exit(not (now < before and now < dealt))' \
    "$now" "$before" "$dealt" || fail "$branch: the largest slot has $now %, $before % in stream order, $dealt % at random"
done

# --- layouts: the same bits under the same policy
for policy in list2d entrain random; do
  policy_job one.lua $policy kept 'modality="encoder-colocated"'
  same_bits "$(done_job one.lua)" "${id[$policy]}" "$policy, one rank against three"
done

# --- a searched order: the same samples, the same again, and the saving is told
policy_job searched.lua list2d searched vision=1 llm=2 'checkpoint={ every_steps = 4, keep = 3 }'
base=$(done_job searched.lua)
samples_of "$base" >searched.samples
cmp -s stream.samples searched.samples || fail "searched: other samples than in stream order"
grep -h 'balance ' "$jobs/$base/logs/feeder.log" >said
expect_text "the searched order saves"

# --- resume: killed after a checkpoint, every bit as undisturbed
for policy in list2d random; do
  steps=60
  policy_job cut.lua $policy searched vision=1 llm=2 steps=60 'checkpoint={ every_steps = 4, keep = 30 }'
  base=$(done_job cut.lua)
  cut=$(submit cut.lua)
  until_true "job $cut wrote a checkpoint" test -e "$jobs/$cut/ckpt/ckpt-3/checkpoint.json"
  runner=$(runner_pid "$cut")
  pids="$runner $(children "$runner" cornstarch-worker) $(children "$runner" cornstarch-feeder)"
  kill -9 $pids
  until_true "the processes of job $cut are gone" are_gone $pids
  wait_state "$cut" LOST
  [ "$(jobs_py rows "$jobs/$cut" | wc -l)" -lt $steps ] || fail "job $cut had ended before the kill"
  expect_rc 0 "$C" resume "$cut"
  has_gone_on() { [ "$(job "$cut" state)" != LOST ]; }
  until_true "job $cut goes on" has_gone_on
  "$C" wait "$cut" >/dev/null || fail "job $cut after resume: exit $?: $(job "$cut" reason)"
  same_bits "$base" "$cut" "$policy, resumed"
done

# --- a policy that there is not
policy_job wrong.lua list3d kept
expect_rc 1 "$C" submit wrong.lua
expect_text "list3d"
expect_text "list2d"
echo ok
