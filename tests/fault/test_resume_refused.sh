#!/bin/bash
# What a job does not go on from: a directory that cannot be written, checkpoints of another training, data that was
# edited while it was paused, checkpoints that are all damaged. Refused with the reason, and the job stays where it
# is; --from-start begins anew and puts aside what was there.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64

touch file
write_job nowhere.lua batch=2 steps=3 "checkpoint={ dir = \"$work/file/ckpt\" }"
expect_rc 3 "$C" submit nowhere.lua
expect_text "checkpoint.dir $work/file/ckpt"
[ "$("$C" jobs --json | field jobs.0.id)" = "" ] || fail "a job that cannot save was taken"

# --- one directory, two trainings
write_job one.lua batch=2 steps=4 "checkpoint={ every_steps = 2, dir = \"$work/shared\" }"
done_job one.lua >/dev/null
write_job two.lua seed=2 batch=2 steps=4 "checkpoint={ every_steps = 2, dir = \"$work/shared\" }"
expect_rc 3 "$C" run --plain two.lua
expect_text "seed is 1 there and 2 in this job. Give this job a checkpoint.dir of its own"
[ "$("$C" jobs --json | field jobs.0.name)" = one ] || fail "a job that goes on from another's checkpoint was taken"

# --- while it is paused
write_job long.lua batch=2 steps=100000 'checkpoint={ every_steps = 2 }'
id=$(submit long.lua)
wait_step "$id" 6
"$C" pause "$id" >/dev/null
wait_state "$id" PAUSED
cp data/train.json old.json
samples=$(python3 -c 'import json; print(len(json.load(open("data/train.json"))))')
python3 -c 'import json; d = json.load(open("data/train.json")); json.dump(d[:10], open("data/train.json", "w"))'
expect_rc 3 "$C" resume "$id"
expect_text "it was $samples samples"
expect_text "and is 10 samples"
[ "$(job "$id" state)" = PAUSED ] || fail "it is $(job "$id" state)"
cp old.json data/train.json
for dir in "$jobs/$id"/ckpt/ckpt-*; do
  printf x | dd of="$dir/params/rank-0.safetensors" bs=1 seek=900 conv=notrunc status=none
done
expect_rc 3 "$C" resume "$id"
expect_text "is damaged"
expect_text "--from-start"
[ "$(job "$id" state)" = PAUSED ] || fail "it is $(job "$id" state)"
expect_rc 0 "$C" resume "$id" --from-start
wait_step "$id" 2
[ -e "$jobs/$id/ckpt/before-1" ] || fail "what was there is not aside: $(ls "$jobs/$id/ckpt")"
"$C" stop "$id" >/dev/null
echo ok
