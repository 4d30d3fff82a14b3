#!/bin/sh
# Full depth against PyTorch: writes a model with random weights and PyTorch's figures (full_depth.py)
# to a temporary folder of 11 GiB, compares one step of ours with them, removes the folder.
#   tests/gpu/parity_full.sh [BINDIR] [ARGUMENT of gpu_test_parity full...]
# FULL_DEPTH_TMP: where the folder is made (/dev/shm when it has the room, else TMPDIR or /tmp);
# FULL_DEPTH_ARGS: for full_depth.py. Exit 77: no PyTorch, or no GPU.
set -eu
here=$(dirname "$0")
bin=${1:-build/bin}
[ $# -eq 0 ] || shift
python3 -c 'import torch, transformers, safetensors' 2>/dev/null || {
  echo "no PyTorch with transformers and safetensors: left out" >&2
  exit 77
}
place=${FULL_DEPTH_TMP:-/dev/shm}
room=$(df --output=avail -B1G "$place" 2>/dev/null | tail -1 || true)
[ -n "${FULL_DEPTH_TMP:-}" ] || [ "${room:-0}" -ge 16 ] || place=${TMPDIR:-/tmp}
dir=$(mktemp -d "$place/cornstarch-full.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
# shellcheck disable=SC2086
python3 "$here/full_depth.py" ${FULL_DEPTH_ARGS:-} "$dir" 2>"$dir/log" || {
  tail -20 "$dir/log" >&2
  exit 1
}
"$bin/gpu_test_parity" full "$dir" "$@"
