#!/bin/bash
# A node whose driver tells of GPUs (the stand-in library of tests/support/lib): inventory, counters that go up,
# preview and run of cs.cluster "here" agree, CPU jobs run beside the GPUs.
fake=${CORNSTARCH_BIN:-build/bin}/../lib/libfake-nvml.so
[ -e "$fake" ] || { echo "$fake is not there: build it, or set CORNSTARCH_BIN"; exit 1; }
CORNSTARCH_NVML=$(realpath "$fake")
export CORNSTARCH_NVML
unset CUDA_VISIBLE_DEVICES
. "$(dirname "$0")/../support/e2e.sh"
export CORNSTARCH_FAKE_NVML=$work/cards
printf 'count 2\n1 power error 3\n' >cards
# workers find a plugin that is none, and that prints what it has to say
export CORNSTARCH_WORKER=$work/gpu/bin/cornstarch-worker
mkdir -p gpu/bin gpu/lib
cp "$bin/cornstarch-worker" gpu/bin/
cp "${CORNSTARCH_NVML%nvml.so}talks.so" gpu/lib/libcornstarch-cuda.so
make_data 64

# --- what there is
"$C" gpus --json >gpus.json
[ "$(field schema <gpus.json)" = cornstarch.node/1 ] || fail "schema $(field schema <gpus.json)"
[ "$(field devices.0.power_mw <gpus.json)" = 262000 ] || fail "power $(field devices.0.power_mw <gpus.json)"
python3 - <<'PY' || fail "unknown values"
import json
d = json.load(open("gpus.json"))
assert len(d["devices"]) == 2 and d["here"] == "h100-80g:2" and d["gpus_note"] is None
assert d["devices"][1]["power_mw"] is None and d["devices"][1]["energy_mj"] is None
assert 0 <= d["devices"][0]["busy"] <= 1 and d["devices"][0]["job"] == 0
PY
"$C" gpus >gpus.txt
grep -Eq '^cuda:0 +NVIDIA H100 .* 71% +14.2/79.6 GiB +262/700 W +58 C +1755' gpus.txt || fail "$(cat gpus.txt)"
grep -Eq '^cuda:1 .* \?/700 W' gpus.txt || fail "$(cat gpus.txt)"
"$C" nodes >node.txt
grep -Eq '^devices +cuda:0 cuda:1$' node.txt || fail "$(cat node.txt)"
energy() { "$C" gpus --json | field devices.0.energy_mj; }
first=$(energy)
more_energy() { [ "$(energy)" -gt "$first" ]; }
until_true "the counter goes up" more_energy
printf 'count 2\n0 temp 84\n0 throttle 64\n' >cards
is_hot() { "$C" gpus | grep -Eq '^cuda:0 .* 84 C .*hardware thermal'; }
until_true "a hot card is told" is_hot

# --- "here" is the GPUs, for preview and run alike
write_job here.lua vision=1 llm=1
"$C" plan here.lua --json >plan.json
hash=$(field plans.0.hash <plan.json)
rc=0
"$C" run --plain here.lua >run.txt 2>&1 || rc=$?
[ $rc -eq 6 ] || fail "a GPU job without a GPU ends with $rc: $(tail -n 3 run.txt)" # not 4: the plan is the previewed one
id=$("$C" jobs --json | field jobs.0.id)
[ "$(job "$id" plan_hash)" = "$hash" ] || fail "previewed $hash, run $(job "$id" plan_hash)"
job "$id" reason | grep -q 'cuda' || fail "reason: $(job "$id" reason)"
grep -q 'a library has a word to say' "$jobs/$id"/logs/*.log || fail "what a library says of a failure is not in a log"
[ "$("$C" plan here.lua --json --devices cpu:8 | field plans.0.hash)" != "$hash" ] || fail "--devices changes nothing"
write_job large.lua vision=1 llm=2
expect_rc 4 "$C" plan large.lua
expect_text "2 devices"

# --- CPU cores are there all the same
write_job cpu.lua vision=1 llm=2 steps=5 plan='cluster = cs.cluster { nodes = 1, devices_per_node = 4, device = "cpu" }'
"$C" run --plain cpu.lua >cpu.txt 2>&1 || fail "$(tail -n 3 cpu.txt)"
id=$("$C" jobs --json | field jobs.0.id)
[ "$(job "$id" state)" = DONE ] || fail "a CPU job is $(job "$id" state)"
"$C" show "$id" | grep -q energy && fail "energy of a job without GPUs"
"$C" metrics "$id" --json >metrics.json
python3 - <<'PY' || fail "energy of CPU steps"
import json
d = json.load(open("metrics.json"))
at = d["columns"].index("energy_mj")
assert d["rows"] and all(r[at] is None for r in d["rows"])
PY

# --- what measures on GPUs takes those that no job holds; this runner holds what its job leased, and does nothing else
cat >holder <<SH
#!/bin/sh
case " \$* " in *" --check "*) exec "$bin/cornstarch-runner" "\$@" ;; esac
echo \$\$ >>"$work/holders"
exec sleep 120
SH
chmod +x holder
"$C" daemon stop >/dev/null
CORNSTARCH_RUNNER=$work/holder "$C" jobs >/dev/null # starts the daemon
write_job one.lua 'modality="encoder-colocated"'
is_held() { [ "$("$C" gpus --json | field "devices.$1.job")" = "$2" ]; }
one=$(submit one.lua)
until_true "job $one holds cuda:0" is_held 0 "$one"
rc=0
"$C" profile one.lua >said 2>&1 || rc=$? # there is no such GPU
[ $rc -ne 0 ] || fail "a GPU that is not there was measured"
expect_text "jobs hold cuda:0 by job $one; measuring on cuda:1 alone, without links"
# what is asked of the worker: links between the free ones, layers as ranks of the whole node share them
mkdir asking
cp "$bin/cornstarch-console" asking
printf '#!/bin/sh\ncat >"%s/asked.json"\nexit 6\n' "$work" >asking/cornstarch-worker
chmod +x asking/cornstarch-worker
asking/cornstarch-console profile one.lua >said 2>&1 && fail "a worker that fails is not told"
[ "$(field devices <asked.json) $(field tp_ranks <asked.json)" = "1 2" ] || fail "asked: $(cat asked.json said)"
two=$(submit one.lua)
until_true "job $two holds cuda:1" is_held 1 "$two"
expect_rc 3 "$C" profile one.lua
expect_text "no GPU is free: cuda:0 by job $one, cuda:1 by job $two"
xargs kill <holders
wait_state "$one" LOST
wait_state "$two" LOST
"$C" daemon stop >/dev/null

# --- a daemon without GPUs says why
export CORNSTARCH_NVML=none
"$C" gpus >none.txt
grep -q 'has no GPUs' none.txt && grep -q 'switched off by CORNSTARCH_NVML' none.txt || fail "$(cat none.txt)"
[ "$("$C" plan here.lua --json | field plans.0.hash)" = "$("$C" plan here.lua --json --devices cpu:8 | field plans.0.hash)" ] ||
  fail "without GPUs here is not cpu:8"
echo ok
