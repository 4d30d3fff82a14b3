#!/bin/bash
# Real pictures: of the handwritten digits that scikit-learn ships at least 90 % of those held out are named
# correctly after a short training from random weights.
. "$(dirname "$0")/../support/e2e.sh"
export CORNSTARCH_BIN=$bin
( . "$root/tests/e2e/tools/oracle_venv.sh"
  oracle_venv digits scikit-learn
  "$venv/bin/python" "$root/tests/e2e/digits.py" digits singles ) || exit $?
"$C" model init "$root/lua/examples/shapes-vision.json" digits/vision --seed 1 >/dev/null
"$C" model init "$root/lua/examples/shapes-llm.json" digits/llm --seed 2 --text digits/text.txt --vocab 320 >/dev/null
"$C" run --plain "$root/tests/e2e/digits.lua" >report || fail "exit $?: $(tail -n 5 report)"
id=$("$C" jobs --json | field jobs.0.id)
got=$(job "$id" exact_match)
python3 -c 'import sys; sys.exit(not float(sys.argv[1]) >= 0.90)' "$got" || fail "held-out exact match $got"
[ "$("$C" metrics "$id" --json | grep -c '"eval"')" -ge 2 ] || fail "fewer than two evaluations"
echo "ok: exact match $got of held-out digits"
