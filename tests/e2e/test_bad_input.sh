#!/bin/bash
# Rows of badinput.tsv: every bad input gets its exit code and a message that names it. Exit "*" is any
# but 0. Each row starts from a fresh copy of a small data set with two model directories and job.lua.
#   test_bad_input.sh [NAME]     only that row, with its output
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=${CORNSTARCH_BIN:?set it to the folder of the programs}
C=$bin/cornstarch-console
only=${1:-}
work=$(mktemp -d) || exit 1
export CORNSTARCH_RUNTIME_DIR=$work/run CORNSTARCH_STATE_DIR=$work/state
cleanup() {
  "$C" daemon stop >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT
mkdir -p "$work/base" && cd "$work/base" || exit 1
examples=$here/../../lua/examples
MODELS=$(realpath "$here/../golden/models")
"$C" data make shapes data --train 8 --test 2 >/dev/null || exit 1
"$C" model init "$examples/shapes-vision.json" data/vision >/dev/null || exit 1
"$C" model init "$examples/shapes-llm.json" data/llm --text data/text.txt --vocab 384 >/dev/null || exit 1
cat >job.lua <<'LUA'
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "data/llm",
}:train("*")
local plan = cs.plan { model = model, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 512, slots = 2 }
return cs.job {
  plan = plan, data = cs.data.llava { json = "data/train.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 1e-3 }, batch_samples = 4, steps = 3, seed = 1,
}
LUA
failed=0 rows=0
while IFS= read -r line; do
  case $line in '#'* | '') continue ;; esac
  IFS= read -r name <<<"${line%%$'\t'*}"
  rest=${line#*$'\t'} want_rc=${rest%%$'\t'*}
  rest=${rest#*$'\t'} prepare=${rest%%$'\t'*}
  rest=${rest#*$'\t'} command=${rest%%$'\t'*} want=${rest#*$'\t'}
  [ -z "$only" ] || [ "$only" = "$name" ] || continue
  rows=$((rows + 1))
  rm -rf "$work/row" && cp -r "$work/base" "$work/row" && cd "$work/row" || exit 1
  export CORNSTARCH_RUNTIME_DIR=$work/run CORNSTARCH_STATE_DIR=$work/state
  eval "$prepare" || { echo "FAIL $name: its preparation failed"; failed=$((failed + 1)); continue; }
  set -o pipefail
  got=$(eval "$command" 2>&1 </dev/null)
  rc=$?
  set +o pipefail
  ok=1
  if [ "$want_rc" = '*' ]; then [ $rc -ne 0 ] || ok=0; else [ "$rc" = "$want_rc" ] || ok=0; fi
  [[ $got == *"$want"* ]] || ok=0
  case $got in *Sanitizer*) ok=0 ;; esac
  [ -z "$only" ] || printf '%s\n(exit %s)\n' "$got" "$rc"
  [ $ok -eq 1 ] && continue
  failed=$((failed + 1))
  printf 'FAIL %s\n  want %s: %s\n  got  %s: %.600s\n' "$name" "$want_rc" "$want" "$rc" "$got"
done <"$here/badinput.tsv"
printf '%s cases, %s failed\n' "$rows" "$failed"
[ "$failed" -eq 0 ] && [ "$rows" -gt 0 ]
