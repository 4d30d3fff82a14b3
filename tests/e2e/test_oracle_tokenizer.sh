#!/bin/sh
# Our tokenizer equals the PyPI packages `tokenizers` and `sentencepiece` on vocabularies trained here: ids, decoded
# texts and offsets of 6,000 texts. 77 (skipped) only where the packages cannot be installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tools/oracle_venv.sh"
oracle_venv tokenizer tokenizers sentencepiece protobuf
"$venv/bin/python" "$here/oracle_tokenizer.py" "$CORNSTARCH_BIN/tool_tokenize" "$scratch" "${1:-6000}"
