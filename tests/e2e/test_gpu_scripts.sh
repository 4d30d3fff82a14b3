#!/bin/bash
# scripts/gpu-test counts what its parts print and how they end, with programs that stand in for the real ones: no GPU
# is needed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work/out"; exit 1; }
program() { printf '#!/bin/sh\n%s\n' "$2" >"$1"; chmod +x "$1"; }
# expect RC LINE ARGS...: exit code and last line
expect() {
  local rc=0 want=$1 line=$2
  shift 2
  PATH=$work/path:$PATH "$root/scripts/gpu-test" "$@" >"$work/out" 2>&1 || rc=$?
  [ $rc -eq "$want" ] || fail "exit $rc, not $want: $*"
  [ "$(tail -n 1 "$work/out")" = "$line" ] || fail "the last line is not '$line': $*"
}
says() { grep -qE -- "$1" "$work/out" || fail "nothing says $1"; }
mkdir -p "$work/path" "$work/b/bin" "$work/b/lib"
b=$work/b
program "$work/path/nvidia-smi" 'echo "GPU 0: a stand-in (UUID: GPU-1)"'
expect 1 "gpu-test: $b/lib/libcornstarch-cuda.so is missing: build with nvcc installed (scripts/build), ninja -C $b cornstarch-cuda" "$b"
touch "$b/lib/libcornstarch-cuda.so"
expect 1 "gpu-test: there is no $b/bin/gpu_test_*: ninja -C $b gpu_test_ops gpu_test_attention gpu_test_parity" "$b"
program "$b/bin/gpu_test_ops" 'echo "plugin ${1##*/}"; echo "12 passed, 0 failed"'
program "$b/bin/gpu_test_parity" 'echo "args $#"; echo "3 passed, 0 failed"'
program "$b/bin/unit_test_worker_golden" 'echo "$CORNSTARCH_TEST_DEVICE $CORNSTARCH_TEST_PRECISION"; echo "golden ${CORNSTARCH_GRAPHS:-as they are}"; echo "[  PASSED  ] 9 test(s)."'
program "$b/bin/unit_test_worker_graphs" 'echo "graphs ${CORNSTARCH_GRAPHS:-as they are}"; echo "[  PASSED  ] 2 test(s)."'
program "$b/bin/unit_test_worker_masks" 'echo "[  PASSED  ] 1 test(s)."'
expect 0 "57 passed, 0 failed" "$b"
says '^graphs as they are$'
says '^plugin libcornstarch-cuda.so$'
says '^args 0$'
says '^cuda:0 fp32$'
says '^cuda:0 bf16$'
says '^golden as they are$'
says '^golden always$'
expect 0 "12 passed, 0 failed" --only ops "$b"
expect 0 "48 passed, 0 failed" --only ops,golden "$b"

# whatever goes wrong is counted once and seen in the exit code
program "$b/bin/unit_test_worker_golden" 'echo "[  PASSED  ] 7 test(s)." ; echo "[  FAILED  ] 2 test(s), listed below:" >&2; exit 2'
expect 1 "49 passed, 8 failed" "$b"
says '^whole models, bf16 +7 passed, 2 failed'
program "$b/bin/gpu_test_ops" 'echo "5 passed, 0 failed"; kill -SEGV $$'
expect 1 "5 passed, 1 failed" --only ops "$b"
says '^ops .*exit 139'
program "$b/bin/gpu_test_ops" 'sleep 100'
GPU_TEST_LIMIT_S=1 expect 1 "0 passed, 1 failed" --only ops "$b"
says 'did not end within 1 s'
program "$b/bin/gpu_test_ops" 'echo "no GPU: driver too old"; exit 77'
expect 77 "0 passed, 0 failed" --only ops "$b"
says '^ops .*skipped'

expect 1 "gpu-test: --frob is no option; --help tells them" --frob
expect 1 "gpu-test: --soak needs the minutes" --soak
expect 0 "are missing there in its lib/. The last line is \"N passed, N failed\". Exit: 0 all passed, 1 not, 77 no GPU." --help
program "$work/path/nvidia-smi" 'echo "NVIDIA-SMI has failed" >&2; exit 9'
expect 77 "gpu-test: skipped: no NVIDIA GPU is to be seen here (nvidia-smi -L lists none)" "$b"
echo ok
