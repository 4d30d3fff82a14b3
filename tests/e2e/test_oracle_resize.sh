#!/bin/sh
# Our decoders and resize equal Pillow: every PNG mode, 200 JPEG, WebP and GIF files, 100 random sizes under every
# filter, 0 bytes differ.
# 77 (skipped) only where the package cannot be installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tools/oracle_venv.sh"
oracle_venv resize "pillow<13" numpy # 13 chooses the order of the passes by cost; before, across comes first
"$venv/bin/python" "$here/oracle_resize.py" "$CORNSTARCH_BIN/tool_image" "$scratch"
