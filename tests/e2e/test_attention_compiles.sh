#!/bin/sh
# What the compiler says of the attention kernels: no register is spilled to memory in those for
# Hopper (kernels/cuda/*_sm90*.cu) and in those for every card (kernels/cuda/attention_mma*.cu, here
# for compute capability 8.0 and 9.0), and no group of wgmma is serialised (ptxas messages C7508 to
# C7515). Both cost half the speed and no test of results sees them. Needs nvcc, no GPU.
set -u
cd "${CORNSTARCH_SOURCE:-.}"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "skipped: no nvcc" >&2; exit 77; }
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

report() {
    "$nvcc" -std=c++20 -O3 -gencode "arch=compute_$2,code=sm_$2" -I. -Idaemon -Xptxas -v -cubin -o "$out/$3.cubin" "$1" \
        >"$out/$3.log" 2>&1 || echo "does not compile" >>"$out/$3.failed"
}

# SOURCE:ARCHITECTURE
jobs=$(ls kernels/cuda/*_sm90*.cu | sed 's/$/:90a/'
    ls kernels/cuda/attention_mma*.cu | sed 's/\(.*\)/\1:80\n\1:90a/')
for job in $jobs; do
    report "${job%:*}" "${job#*:}" "$(basename "${job%:*}" .cu)-${job#*:}" &
done
wait

bad=0
for job in $jobs; do
    source="${job%:*} for ${job#*:}"
    name=$(basename "${job%:*}" .cu)-${job#*:}
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
