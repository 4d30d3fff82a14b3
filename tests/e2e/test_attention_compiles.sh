#!/bin/sh
# What the compiler says of the kernels written for Hopper (kernels/cuda/*_sm90*.cu): no register is
# spilled to memory, and no group of wgmma is serialised (ptxas messages C7508 to C7515). Both cost
# half the speed and no test of results sees them. Needs nvcc, no GPU.
set -u
cd "${CORNSTARCH_SOURCE:-.}"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "skipped: no nvcc" >&2; exit 77; }
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

report() {
    "$nvcc" -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a -I. -Idaemon -Xptxas -v -cubin -o "$out/$2.cubin" "$1" \
        >"$out/$2.log" 2>&1 || echo "does not compile" >>"$out/$2.failed"
}

sources=$(ls kernels/cuda/*_sm90*.cu)
for source in $sources; do
    report "$source" "$(basename "$source" .cu)" &
done
wait

bad=0
for source in $sources; do
    name=$(basename "$source" .cu)
    log=$out/$name.log
    if [ -e "$out/$name.failed" ]; then
        cat "$log" >&2
        bad=1
        continue
    fi
    # a line per function: its name, its bytes of spill stores
    spills=$(sed -n "s/.*Function properties for \(.*\)/\1/p; s/.* \([0-9]*\) bytes spill stores, \([0-9]*\) bytes spill loads/\1 \2/p" "$log" |
        paste - - | awk '$2 + $3 > 0 { print "  " $1 ": " $2 " bytes stored, " $3 " loaded" }')
    [ -z "$spills" ] || { printf '%s spills registers:\n%s\n' "$source" "$spills" >&2; bad=1; }
    if grep -E 'C75(0[89]|1[0-5])' "$log" >&2; then
        echo "$source: wgmma serialised or a register budget ignored" >&2
        bad=1
    fi
    grep -q 'Used [0-9]* registers' "$log" || { echo "$source: the compiler reported no kernel" >&2; bad=1; }
done
exit $bad
