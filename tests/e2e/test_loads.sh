#!/bin/bash
# What is exported loads in transformers and PEFT, without tensors that are missing or too many, and computes the
# same: every golden model that lies beside the project, trained for five steps (scripts/test --long).
# 77 (skipped): no goldens, or no python with torch, transformers and peft (CORNSTARCH_ORACLE_PYTHON, else python3).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
golden=${CORNSTARCH_GOLDEN:-$here/../../../shared/golden}
python=${CORNSTARCH_ORACLE_PYTHON:-python3}
[ -n "${CORNSTARCH_LONG:-}" ] || { echo "skipped: takes long, scripts/test --long"; exit 77; }
[ -d "$golden/models" ] || { echo "skipped: no goldens in $golden"; exit 77; }
"$python" -c 'import torch, transformers, peft' 2>/dev/null || { echo "skipped: $python has no transformers"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
rc=0
"$python" "$here/loads.py" "$CORNSTARCH_BIN/cornstarch-worker" "$scratch" "$golden"/models/* || rc=1
"$python" "$here/loads.py" "$CORNSTARCH_BIN/cornstarch-worker" "$scratch" --adapter "$golden/lora/llama" "$golden/models/llama" || rc=1
exit $rc
