#!/bin/sh
# Our tokenizer equals the PyPI package `tokenizers`: ids and offsets on 10,000 strings.
# 77 (skipped) only where the package cannot be installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tools/oracle_venv.sh"
oracle_venv tokenizer tokenizers
"$venv/bin/python" "$here/oracle_tokenizer.py" "$CORNSTARCH_BIN/tool_tokenize" "$scratch" "${1:-10000}"
