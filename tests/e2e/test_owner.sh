#!/bin/bash
# What an owner does with jobs beyond training them: parameters of a script, tags, notes, the queue with its
# reasons, copies, another try, what is removed; processes that say whose they are.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
cat >job.lua <<'L'
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp { layers = 2 }, token = "<image>" } },
  llm = cs.hf "data/llm",
}:train("*")
return cs.job {
  name = cs.param("name", "plain"),
  plan = cs.plan { model = model, cluster = cs.cluster { device = "cpu" }, parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 576, slots = 2 },
  data = cs.data.llava { json = "data/train.json", images = "data/images", template = { name = "chatml", default_system = "" } },
  optimizer = cs.optim.adamw { lr = cs.param { name = "lr", default = 1e-3 } },
  batch_samples = 4,
  steps = cs.param("steps", 4),
}
L
expect() { [ "$1" = "$2" ] || fail "$3: '$1', not '$2'"; }
says() { grep -q -- "$1" "$2" || fail "no '$1' in: $(cat "$2")"; }
id_of() { field job.id; }

# --- parameters: what is set holds, has the type of the default, and must be asked for
"$C" daemon start >/dev/null
long=$("$C" submit job.lua --set steps=100000 --set name=long --set lr=0.25 --tag a --tag b=1 --note 'the first' --json 2>/dev/null | id_of)
expect "$("$C" show "$long" --json | field spec.optimizer.lr)" 0.25 'lr of --set'
expect "$(job "$long" name)" long 'name of --set'
expect "$(job "$long" steps)" 100000 'steps of --set'
rc=0; "$C" submit job.lua --set stesp=3 2>err || rc=$?
expect $rc 1 'a parameter that is none'
says "did you mean 'steps'" err
rc=0; "$C" submit job.lua --set steps=many 2>err || rc=$?
says 'a number is needed' err
expect "$("$C" lua -e 'return require"cornstarch".param("x", 2) * 2' --set x=21)" 42 'lua --set'

# --- the queue: 8 ranks, 2 a job; the fifth waits and says so
wait_step "$long" 2
copies=()
for i in 1 2 3 4; do copies+=("$("$C" clone "$long" name=copy$i optimizer.lr=0.001 --tag copy --json 2>/dev/null | id_of)"); done
last=${copies[3]}
expect "$(job "$last" state)" QUEUED 'the fifth job'
expect "$(job "$last" place)" 1 'its place'
says 'it needs 2 CPU ranks, 0 of 8 are free' <("$C" queue)
says 'it needs 2 CPU ranks' <("$C" show "$last")
expect "$("$C" jobs --state queued --ids)" "$last" 'jobs --state'
expect "$("$C" jobs --tag copy --ids | wc -l)" 4 'jobs --tag'
expect "$("$C" jobs --name LONG --ids)" "$long" 'jobs --name'
"$C" jobs --state live --ids | grep -qx "$long" || fail "jobs --state live has no job $long"
rc=0; "$C" jobs --state fialed 2>err || rc=$?
says "did you mean 'FAILED'" err
rc=0; "$C" clone "$long" stepz=1 2>err || rc=$?
says "did you mean 'steps'" err
rc=0; "$C" clone "$long" steps=-1 2>err || rc=$?
says 'steps is -1' err

# --- who works where: titles of processes, owners of CPU ranks
runner=$(runner_pid "$long")
for pid in $(children "$runner" cornstarch-worker); do
  title=$(tr '\0' ' ' <"/proc/$pid/cmdline")
  case $title in
  "cornstarch-worker: job $long rank 0 vision.0 " | "cornstarch-worker: job $long rank 1 llm.0 ") ;;
  *) fail "a worker of job $long is called '$title'" ;;
  esac
done
"$C" nodes --json >node.json
expect "$(python3 -c 'import json,sys
d=[x for x in json.load(open("node.json"))["devices"] if x["job"]==int(sys.argv[1])]
print([(x["rank"], x["job_name"], bool(x["owner"]), x["processes"][0]["command"]) for x in d])' "$long")" \
  "[(0, 'long', True, 'cornstarch-worker: job $long rank 0 vision.0'), (1, 'long', True, 'cornstarch-worker: job $long rank 1 llm.0')]" 'devices'

# --- labels
"$C" tag "$long" ^a c >out
expect "$(cat out)" "job $long: b=1 c" tags
expect "$("$C" note "$long")" "job $long: the first" note
"$C" note "$long" one two >/dev/null
expect "$(job "$long" note)" 'one two' 'a new note'
"$C" note "$long" --clear >/dev/null
expect "$("$C" note "$long")" "job $long: no note" 'no note'

# --- completion asks the daemon
"$C" complete -- pause '' | cut -f1 | grep -qx "$long" || fail "completion offers no job $long"
"$C" complete -- rm '' | cut -f1 | grep -qx "$long" && fail "completion offers to remove a job that runs"
expect "$("$C" complete -- jobs --tag b | cut -f1)" 'b=1' 'tags'

# --- what is removed is gone, what runs is not removed
rc=0; "$C" rm "$long" --yes 2>err || rc=$?
expect $rc 3 'a job that runs'
rc=0; "$C" rm "$long" 2>err </dev/null || rc=$?
says '\-\-yes answers beforehand' err
"$C" stop "$last" >/dev/null
"$C" kill "$long" --now >/dev/null
"$C" wait "$long" >/dev/null || true
rc=0; "$C" retry --tag c "$long" 2>err || rc=$?
says 'goes with --all' err
rc=0; "$C" retry 987654 "$long" >out 2>err || rc=$? # one that cannot keeps no other from it
expect $rc 2 'a job that is not there'
says "job $long: queued" out
says 987654 err
wait_state "$long" RUN
for id in "${copies[@]:0:3}" "$long"; do "$C" stop "$id" --now >/dev/null; "$C" wait "$id" >/dev/null || true; done
gone() { "$C" rm --yes "${copies[0]}" >/dev/null 2>&1; } # its runner may still end
until_true "job ${copies[0]} can be removed" gone
[ ! -e "$jobs/${copies[0]}" ] || fail "the directory of job ${copies[0]} is still there"
expect "$("$C" prune --tag copy --keep 1 --dry-run | cut -d' ' -f1 | sort -n | xargs)" "${copies[1]} ${copies[2]}" 'what prune would remove'
expect "$("$C" prune --tag copy --keep 1 --dry-run --json | field jobs.0)" "${copies[2]}" 'the same as a document'
python3 - "$root/tests/e2e" "$C" <<'PY' || fail "prune on a terminal"
import sys
sys.path.insert(0, sys.argv[1])
from terminal import Terminal
for more in [], ["--json"]:
    t = Terminal([sys.argv[2], "prune", "--tag", "copy", *more])
    t.wait("[y/N]")
    t.type("n\r")
    assert t.wait_end() == 0 and "nothing was done" in t.text(), t.text()
PY
expect "$("$C" jobs --tag copy --ids | wc -l)" 3 'jobs after a no'
all() { "$C" prune --yes >/dev/null 2>&1; [ -z "$("$C" jobs --ids)" ]; }
until_true 'all jobs are removed' all
expect "$("$C" daemon status --json | field live)" 0 'live jobs'

# --- a sweep of jobs: every combination runs, the best comes first; jobs as values of Lua
sed -e 's/^return cs.job {/return cs.sweep { over = { lr = { 1e-9, 1e-2 }, as = { { llm = { 1, 2 }, b = "x, y" } } }, build = function(p) return cs.job {/' \
  -e 's/cs.param { name = "lr", default = 1e-3 }/p.lr/' -e '$s/}/} end }/' job.lua >sweep.lua
"$C" sweep sweep.lua --set steps=6 >out 2>err || fail "$(cat out err)"
expect "$(sed -n 2p out | tr -s ' ' | cut -d' ' -f2-5)" "$(job latest id) as=b:x__y_llm:1_2 lr=0.01 DONE" 'the best of the sweep'
says 'best by loss: job .*, as=.* lr=0.01' out
says '2 jobs of sweep sweep' err
rc=0; "$C" sweep job.lua 2>err || rc=$?
says 'returns no sweep of jobs' err
rc=0; "$C" run sweep.lua 2>err || rc=$?
says "'cornstarch-console sweep' runs" err
cat >typed <<'L'
jobs = cs.jobs { tag = "sweep=sweep" }
#jobs, jobs[1].state, #jobs[1]:metrics(), jobs[2]:spec().optimizer.lr
jobs[1]:pauze()
jobs[1]:pause()
cs.jobs(987654)
cs.jobs(jobs[1].id):wait().state
L
rc=0; "$C" lua <typed >out 2>err || rc=$?
expect "$(xargs <out)" '2 DONE 6 1e-09 DONE' 'jobs in Lua'
says 'did you mean cs.live:pause' err
says '987654' err
says 'DONE' err # why it cannot be paused

# --- from search to run: a plan of a search by its number, shown or given to a job
sed -e '/^return cs.job/,$d' job.lua >found.lua
cat >>found.lua <<'L'
local found = cs.search {
  model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 3 }, seq_tokens = 576, batch_slots = 4,
  runs = true, compare = false, explain = false,
}
L
cp found.lua search.lua && echo 'return found' >>search.lua
sed -n '/^return cs.job/,$p' job.lua | sed 's/plan = cs.plan.*/plan = found:plan(cs.param("pick", 1)),/' >>found.lua
"$C" plan search.lua --pick 2 --json | field plans.0.hash >out
expect "$("$C" lua found.lua --set pick=2 --json | field plan_hash)" "$(cat out)" 'the picked plan and that of the job'
[ "$("$C" lua found.lua --json | field plan_hash)" != "$(cat out)" ] || fail 'the first and the second plan are one'
"$C" plan search.lua --view --pick 1 >out
says '9 Plan' out
rc=0; "$C" plan search.lua --pick 900 2>err || rc=$?
says 'were found' err
rc=0; "$C" plan job.lua --pick 1 2>err || rc=$?
says 'returns no search' err
"$C" run found.lua --plain --set pick=2 --set steps=2 >out || fail "$(cat out)"
says 'DONE' out
echo ok
