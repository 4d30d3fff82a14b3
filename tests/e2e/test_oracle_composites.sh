#!/bin/bash
# Whole jobs of tiny composites of every family beside transformers: ids of every sample, losses of every step, what
# is exported. ORACLE_PYTHON: a Python with torch, torchvision, transformers, av, soundfile and soxr; 77 (skipped)
# without these. Arguments: families, all if none is given.
. "$(dirname "$0")/../support/e2e.sh"
media=$root/../shared/golden
python=${ORACLE_PYTHON:-python3}
[ -d "$media/processors" ] || { echo "skipped: no $media/processors"; exit 77; }
"$python" -c 'import av, soundfile, soxr, torch, torchvision, transformers' 2>/dev/null || {
  echo "skipped: $python has no transformers, or not what it needs for pictures, videos and sounds"
  exit 77
}
"$python" "$root/tests/e2e/oracle_composites.py" "$C" "$(cd "$media" && pwd)" "$work/composites" "$@" 2>"$work/stderr" ||
  fail "$(tail -n 5 "$work/stderr")"
