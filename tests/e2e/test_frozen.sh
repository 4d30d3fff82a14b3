#!/bin/bash
# What is frozen keeps its bits, costs no backward and gets no gradient message; what the program says is what is
# sent. A job in which everything is frozen is refused before anything starts.
. "$(dirname "$0")/../support/e2e.sh"
make_data 48
plan() { "$C" plan "$1" --json | field "plans.0.$2"; }

# messages of a step with n slots: per slot one of every edge and one more where a gradient comes back
counted=0
counts_match() { # ID
  "$C" show "$1" --json >show.json
  jobs_py counts "$jobs/$1" >counts
  [ "$(wc -l <counts)" -eq 20 ] || fail "job $1 has $(wc -l <counts) steps"
  python3 - show.json counts <<'PY' || fail "job $1: messages differ from its program's"
import json, sys
plan = json.load(open(sys.argv[1]))["plan"]
assert not plan["is_tied_across"]
rank = {s["id"]: s["rank"] for s in plan["stages"]}
edges = [e for e in plan["edges"] if rank[e["from"]] != rank[e["to"]]]
per_slot = len(edges) + sum(e["has_grad"] for e in edges)
bad = 0
for line in open(sys.argv[2]):
    step, slots, messages, bytes_sent = map(int, line.split())
    if messages != per_slot * slots:
        print(f"step {step}: {messages} messages, program {per_slot} x {slots} slots")
        bad = 1
sys.exit(bad)
PY
  counted=$((counted + 1))
}

# frozen_keeps ID GLOB: these parameters end as their directory has them
frozen_keeps() {
  { jobs_py tensors data/vision vision.encoder && jobs_py tensors data/llm llm; } | sort >source
  jobs_py weights "$jobs/$1" "$2" >now
  [ -s now ] || fail "job $1 tells no hash of $2"
  [ -z "$(comm -13 source now)" ] || fail "job $1 changed what is frozen: $(comm -13 source now | head -n 3)"
}
trained_differs() { # ID GLOB
  jobs_py weights "$jobs/$1" "$2" >now
  [ -s now ] || fail "job $1 tells no hash of $2"
  [ -z "$(comm -12 source now)" ] || fail "job $1 did not train $(comm -12 source now | head -n 3)"
}

common=(vision=2 llm=2 slots=3 seq=256 batch=6)
write_job all.lua "${common[@]}"
write_job projector.lua "${common[@]}" 'train=:freeze("*"):train("vision.projector")'
write_job encoder.lua "${common[@]}" 'train=:train("*"):freeze("llm")'
write_job llm.lua "${common[@]}" 'train=:train("llm")'

# --- the plans differ
[ "$(plan all.lua hash)" != "$(plan projector.lua hash)" ] || fail "freezing does not change the plan"
[ "$(plan all.lua stages.0.name)" = vision.0 ] && [ "$(plan all.lua stages.0.has_backward)" = True ] ||
  fail "the trained encoder has no backward"
[ "$(plan projector.lua stages.0.has_backward)" = False ] || fail "the frozen encoder has a backward"
[ "$(plan projector.lua stages.1.has_backward)" = True ] || fail "the trained projector has no backward"
for i in 0 1; do
  [ "$(plan projector.lua edges.$i.from)" = $i ] || fail "edges are not in the order of the stages"
done
[ "$(plan projector.lua edges.0.has_grad)" = False ] || fail "a gradient goes back into the frozen encoder"
[ "$(plan projector.lua edges.1.has_grad)" = True ] || fail "the projector gets no gradient"
for i in 2 3; do # the LLM passes gradients on and keeps none
  [ "$(plan projector.lua stages.$i.bwd_weight_ns)" = 0 ] || fail "stage $i: weight gradients in the frozen LLM"
  [ "$(plan projector.lua stages.$i.bwd_input_ns)" -gt 0 ] || fail "stage $i: no input gradient through the LLM"
  [ "$(plan projector.lua stages.$i.state_bytes)" -lt "$(plan all.lua stages.$i.state_bytes)" ] ||
    fail "stage $i: a frozen LLM keeps optimizer state"
done
[ "$(plan llm.lua stages.1.has_backward)" = False ] && [ "$(plan llm.lua stages.2.has_backward)" = True ] ||
  fail "the LLM alone trains: its encoder must have no backward"
for i in 0 1 2 3; do
  [ "$(plan projector.lua stages.$i.rank)" = $i ] || fail "stage $i is not on rank $i"
done

# --- the runs
id=$(done_job all.lua)
counts_match "$id"
before=$(jobs_py counts "$jobs/$id" | awk '{ m += $3 } END { print m }')
{ jobs_py tensors data/vision vision.encoder && jobs_py tensors data/llm llm; } | sort >source
trained_differs "$id" '*weight'

id=$(done_job projector.lua)
counts_match "$id"
after=$(jobs_py counts "$jobs/$id" | awk '{ m += $3 } END { print m }')
[ "$after" -lt "$before" ] || fail "$after messages with a frozen encoder, $before without"
frozen_keeps "$id" 'vision.encoder/*'
frozen_keeps "$id" 'llm/*'
trained_differs "$id" 'vision.projector/*'
# a fresh projector: another number of steps ends elsewhere
write_job short.lua "${common[@]}" 'train=:freeze("*"):train("vision.projector")' steps=5
short=$(done_job short.lua)
jobs_py weights "$jobs/$short" 'vision.projector/*' >source
trained_differs "$id" 'vision.projector/*weight'

id=$(done_job encoder.lua)
counts_match "$id"
frozen_keeps "$id" 'llm/*'
trained_differs "$id" 'vision.encoder/*weight'
id=$(done_job llm.lua)
counts_match "$id"
frozen_keeps "$id" 'vision.encoder/*'
trained_differs "$id" 'llm/*proj.weight'

# --- what is exported is what was trained: frozen tensors byte by byte
"$C" export "$id" out >/dev/null
jobs_py tensors out/vision vision.encoder >now
jobs_py tensors data/vision vision.encoder >source
cmp -s source now || fail "the exported encoder differs from the frozen one: $(diff source now | head -n 3)"
jobs_py tensors out/llm llm >now
jobs_py weights "$jobs/$id" 'llm/*' >source
cmp -s source now || fail "the exported LLM differs from the trained one: $(diff source now | head -n 3)"

# --- everything frozen
write_job none.lua 'train=:freeze("*")'
for command in plan submit run; do
  expect_rc 1 "$C" $command none.lua
  expect_text "none.lua"
  expect_text "nothing trains: "
  expect_text "all 8 layers frozen"
done
[ -z "$("$C" jobs --json | grep '"name": "none"')" ] || fail "a job in which nothing trains was taken"
echo "ok: message counts of $counted jobs"
