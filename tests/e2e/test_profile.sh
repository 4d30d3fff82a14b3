#!/bin/bash
# A job planned from measured costs: profile writes the file that its script names, the plan has what was measured,
# the file's content travels with the job, and a file of other shapes or another device is refused with the way out.
. "$(dirname "$0")/../support/e2e.sh"

make_data 16
measures_now() { [ -n "$(our_pids cornstarch-worker)" ]; }
write_job job.lua steps=3 llm=2 'plan=profile = "profile.json"'
write_job plain.lua steps=3 llm=2

# the file is not there yet: everything but profile says so
expect_rc 1 "$C" plan job.lua
expect_text "cs.plan: profile: opening profile.json: No such file or directory"
expect_rc 0 "$C" profile job.lua --devices cpu:8 --output profile.json
expect_text "profile.json: use it as profile = \"profile.json\" of cs.plan or cs.search"
[ "$(field schema <profile.json)" = cornstarch.profile/1 ] || fail "no profile was written"
[ "$(field precision <profile.json)" = fp32 ] || fail "the profile has no precision"
python3 - <<'PY' || fail "the profile is not complete"
import json
p = json.load(open("profile.json"))
kinds = {(l["module"], l["kind"]) for l in p["layers"]}
assert kinds == {("vision.encoder", "embed"), ("vision.encoder", "block"),
                 ("vision.projector", "projector"), ("llm", "embed"), ("llm", "block"), ("llm", "head")}, kinds
assert set(p["step"]) == {"clear", "norm", "update"}
at = lambda q, x: (q[0] * x + q[1]) * x + q[2]
for l in p["layers"]:
    assert at(l["fwd"], 256) > 0, l
shared = {(l["module"], l["kind"], l["tp"], l.get("sp", False)) for l in p["layers"] if l["tp"] > 1}
assert shared >= {("llm", "head", 2, False)} | {(m, "block", 2, sp) for m in ("llm", "vision.encoder") for sp in (False, True)}, shared
assert {kind for _, kind, _, _ in shared} == {"block", "head"}, shared
links = {(l["op"], l["ranks"]) for l in p["links"]}
assert links == {("send", 2)} | {(op, n) for n in (2, 4) for op in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "shift")}, links
assert all(l["latency_ns"] >= 0 and l["bytes_per_s"] > 1e6 for l in p["links"]), p["links"]
assert at(p["step"]["update"], 100000) > at(p["step"]["clear"], 100000) > 0
PY

# the plan has the measured times, the plain one the roofline's
"$C" plan job.lua --json >measured.plan
"$C" plan plain.lua --json >plain.plan
cmp -s measured.plan plain.plan && fail "the profile changes nothing"
grep -q '"update_ns"' measured.plan || fail "the optimizer's time is not in the plan"
grep -q '"update_ns"' plain.plan && fail "a roofline has measured times"

# slow links make messages dear: the prediction follows what was measured, and so does what a sweep tells of its plans
cat >all.lua <<'LUA'
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } }, llm = cs.hf "data/llm",
}:train "*"
return cs.sweep { over = { pp = { 2 } }, build = function(p)
  return cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = p.pp } }, seq_tokens = 512, slots = 2,
    profile = "profile.json" }
end }
LUA
"$C" plan all.lua --json >measured.sweep
sed 's/"bytes_per_s": [0-9]*/"bytes_per_s": 1000/' profile.json >slow.json
mv profile.json kept.json
mv slow.json profile.json
"$C" plan job.lua --json >slow.plan
"$C" plan all.lua --json >slow.sweep
mv kept.json profile.json
python3 - <<'PY' || fail "links of the profile change nothing"
import json
first = lambda name: json.load(open(name))["plans"][0]
one, two = (first(name)["predicted_step_ns"] for name in ("measured.plan", "slow.plan"))
assert two > 10 * one, (one, two)
for name, step in ("measured.sweep", one), ("slow.sweep", two):
    row = first(name)
    assert row["step_ns"] == step, (row, step)
assert first("slow.sweep")["bubble"] > 0.9 > first("measured.sweep")["bubble"], (first("slow.sweep"), first("measured.sweep"))
PY

# what is explained of a plan is told with its costs
"$C" plan job.lua --explain --json >measured.why
"$C" plan plain.lua --explain --json >plain.why
[ "$(field optimizer.time <plain.why)" = bandwidth ] || fail "a roofline has measured times"
[ "$(field optimizer.time <measured.why)" = measured ] || fail "the profile changes nothing of what is explained"

# what is in the file travels with the job: the runner plans the same without it
id=$("$C" submit job.lua --json | field job.id)
mv profile.json away.json
"$C" wait "$id" >/dev/null || fail "job $id: $(job "$id" reason)"
[ "$(field plan.profile.schema <"$jobs/$id/spec.json")" = cornstarch.profile/1 ] || fail "the specification has no profile"
grep -q '"update_ns"' "$jobs/$id/plan.json" || fail "the job's plan was not made from the profile"
mv away.json profile.json

# other shapes, another device
sed 's/"intermediate_size": [0-9]*/"intermediate_size": 200/' "$root/lua/examples/shapes-llm.json" >wide.json
"$C" model init wide.json data/wide --seed 2 --text data/text.txt --vocab 384 >/dev/null
write_job wide.lua 'llm_dir="data/wide"' 'plan=profile = "profile.json"'
expect_rc 4 "$C" plan wide.lua
expect_text "plan.profile: the profile was measured for modules of other shapes"
expect_text "measure again with 'cornstarch-console profile SCRIPT --output FILE'"
write_job gpus.lua 'plan=profile = "profile.json", cluster = cs.cluster "h100x8"'
expect_rc 4 "$C" plan gpus.lua
expect_text "plan.profile: the profile was measured on a cpu, the plan is for a h100-80g"
# an older file is no obstacle to measuring again
expect_rc 0 "$C" profile wide.lua --devices cpu:8 --output profile.json
expect_rc 0 "$C" plan wide.lua

# figures beside a job's would be wrong: it computes already, or starts meanwhile
write_job long.lua steps=100000
busy=$(submit long.lua)
wait_step "$busy" 2
rm -f beside.json
expect_rc 3 "$C" profile plain.lua --devices cpu:8 --output beside.json
expect_text "job $busy computes on CPU ranks of this machine"
"$C" stop "$busy" --now >/dev/null
wait_state "$busy" CANCELLED
"$C" profile plain.lua --devices cpu:8 --output beside.json >said.beside 2>&1 &
measuring=$!
until_true "a worker measures" measures_now
busy=$(submit long.lua)
wait_step "$busy" 2
rc=0
wait $measuring || rc=$?
[ $rc -eq 3 ] || fail "exit $rc, not 3: $(tail -n 3 said.beside)"
expect_text "job $busy started meanwhile on CPU ranks of this machine" said.beside
[ ! -e beside.json ] || fail "figures of a busy machine were kept"
"$C" stop "$busy" --now >/dev/null
wait_state "$busy" CANCELLED
expect_rc 0 "$C" profile plain.lua --devices cpu:8 --output beside.json
echo "profiles: written, planned from, carried along, refused, not made beside jobs"
