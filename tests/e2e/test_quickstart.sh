#!/bin/bash
# What scripts/quickstart does after the build: sample data, two small models, the job of shapes.lua, its report.
# At least 95 % of held-out questions are answered exactly; with the pictures exchanged between samples at most
# half (so it looks at them). The result is exported and the second lesson trains a projector on it.
#   CORNSTARCH_LONG=1: three seeds
. "$(dirname "$0")/../support/e2e.sh"
CORNSTARCH_BIN=$bin "$root/scripts/shapes-data" "$work/build/shapes" >/dev/null
examples=$root/lua/examples
exact() { job "$1" exact_match; }
at_least() { python3 -c 'import sys; sys.exit(not float(sys.argv[1]) >= float(sys.argv[2]))' "$1" "$2"; }
newest() { "$C" jobs --json | field jobs.0.id; }

"$C" run --plain "$examples/shapes.lua" --export build/shapes/out >report || fail "exit $?: $(tail -n 5 report)"
id=$(newest)
got=$(exact "$id")
at_least "$got" 0.95 || fail "held-out exact match $got of the quickstart's job"
steps=$(job "$id" steps)
# its report: steps, loss, exact match, times, bubble of every stage, the export, the command to try next
expect_text "$steps of $steps" report
grep -q "exact match: 0\.9[5-9]\|exact match: 1\.0\|exact match *0\.9[5-9]\|exact match *1\.0" report ||
  fail "no exact match in the report: $(tail -n 12 report)"
grep -q 'step time *predicted .*, measured ' report || fail "no step time in the report"
for stage in vision.0 llm.0 llm.1; do grep -q "bubble *$stage " report || fail "no bubble of $stage"; done
expect_text "build/shapes/out" report
expect_text "shapes-projector.lua" report
for dir in vision llm; do "$C" model check "build/shapes/out/$dir" >/dev/null || fail "model check of $dir"; done

# --- the second lesson, on the exported directories
"$C" run --plain "$examples/shapes-projector.lua" >report2 || fail "exit $?: $(tail -n 5 report2)"
second=$(newest)
[ "$second" != "$id" ] || fail "no second job"
{ jobs_py tensors build/shapes/out/vision vision.encoder && jobs_py tensors build/shapes/out/llm llm; } | sort >source
{ jobs_py weights "$jobs/$second" 'vision.encoder/*' && jobs_py weights "$jobs/$second" 'llm/*'; } | sort >now
[ "$(wc -l <now)" -ge 40 ] || fail "hashes of $(wc -l <now) frozen parameters"
[ -z "$(comm -13 source now)" ] || fail "encoder or LLM changed: $(comm -13 source now)"
projector=$(exact "$second")
at_least "$projector" 0.5 || fail "held-out exact match $projector with a fresh projector between trained parts"

# --- pictures exchanged between samples; fewer steps show it as well
sed -e 's|images = dir .. "/images"|&, shuffle_images = true|' -e 's/^  steps = .*,/  steps = 600,/' \
  "$examples/shapes.lua" >shuffled.lua
[ "$(diff "$examples/shapes.lua" shuffled.lua | grep -c '^>')" -eq 2 ] || fail "shapes.lua is written otherwise now"
blind=$(exact "$(done_job shuffled.lua)")
at_least 0.5 "$blind" || fail "held-out exact match $blind without the right pictures"

if [ -n "${CORNSTARCH_LONG:-}" ]; then
  for seed in 1 2 3; do
    sed "s/seed = [0-9]*/seed = $seed/" "$examples/shapes.lua" >seed.lua
    grep -q "seed = $seed" seed.lua || fail "shapes.lua is written otherwise now"
    more=$(exact "$(done_job seed.lua)")
    at_least "$more" 0.95 || fail "held-out exact match $more with seed $seed"
    got="$got $more"
  done
fi
echo "ok: exact match $got, projector alone $projector, pictures exchanged $blind"
