#!/bin/bash
# What every planner chooses, or named layouts, run as jobs: predicted beside measured, one line each:
#   tests/bench/planners.sh [--gpus N] [--layouts] [--noise] [--wide] [--train GLOBS] [--steps N] [--seq N] [--slots N] [--only REGEX] [--cpu] [BUILD]
#   --gpus N  ranks of the cluster, GPUs or, with --cpu, CPU ranks (2)
#   --layouts  instead of planners' choices one layout of every kind that so many ranks have
#   --noise   pictures of noise: a GPU takes less for products of numbers that are alike, as those of flat pictures are
#   --wide    widths of SigLIP-so400m and Llama-3.2-1B, four layers each (else the sample's model)
#   --train GLOBS  what trains (*)
#   --steps N  of each job (60); measured are the steps from the 33rd on
#   --seq N   rows of a slot (576, wide 1316, with four pictures), --slots N a step's slots (8)
#   --only REGEX  of the rows those whose names match
# First a profile of the model on this machine is measured. "predicted" is what the job says before its first step, of
# slots as full as its samples make them,
# "calibrated" after 22 (CPU ranks) or 32, "off" how much either is above what was measured: the median; "data" the
# median of what the rank waited for its samples that waited longest. Exit: 0, 77 no GPU.
set -u
gpus=2 train='*' steps=60 seq=576 slots=8 only=
rows=
case " $* " in *" --wide "*) seq=1316 rows='encoder_rows = { vision = 1024 },' ;; esac # of four samples: slots are full
numbers='gpus train steps seq slots only' switches='layouts noise' is_layouts=no is_noise=no
. "$(dirname "$0")/../gpu/node.sh"
make_model "$size" 256
init=weights
[ "$size" = small ] || init=random
[ $is_noise = no ] || python3 - data/images/* <<'PY'
import os, struct, sys, zlib
side = 224
def chunk(name, data): return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
for path in sys.argv[1:]:
    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                  chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
PY
devices='cs.cluster "here"'
[ $is_cpu = no ] || devices="cs.cluster { device = \"cpu\", devices_per_node = $gpus }"

write_row() { # FILE PLAN: Lua of the plan, which has model, cluster and rows
  cat >"$1" <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf { dir = "data/vision", init = "$init" }, projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf { dir = "data/llm", init = "$init" },
}:train("$train")
return cs.job {
  plan = $2,
  data = cs.data.llava { json = "data/train.json", images = "data/images", template = { name = "chatml", default_system = "" } },
  optimizer = cs.optim.adamw { lr = 1e-3, warmup_steps = 50 }, lr = cs.lr.constant {}, batch_samples = $((slots * 4)), steps = $steps, seed = 1,
}
LUA
}
found() { # PLANNER PROFILE
  echo "cs.search { model = model, cluster = $devices, seq_tokens = $seq, $rows batch_slots = $slots, planner = \"$1\", runs = true," \
    "compare = false, explain = false, top = 1, $2 }:plan(1)"
}
made() { # LAYOUT PROFILE
  echo "cs.plan { model = model, cluster = $devices, seq_tokens = $seq, $rows slots = $slots, $1 $2 }"
}
profile='profile = "profile.json",'
write_row profiled.lua "$(found cornstarch '')"
"$C" profile profiled.lua --output profile.json >profile.txt 2>&1 || fail "profile: $(tail -n 3 profile.txt)"
grep -E ' among |links' profile.txt
printf '%-22s %9s %7s %10s %7s %9s %6s  %s\n' row predicted off calibrated off measured data layout
row() { # NAME PLAN: runs it
  [[ $1 =~ $only ]] || return 0
  write_row row.lua "$2"
  if ! id=$(submit row.lua 2>said); then
    printf '%-22s %s\n' "$1" "$(grep -v '^warning' said | head -n 1)"
    return
  fi
  "$C" wait "$id" >/dev/null || fail "$1: $(job "$id" state) $(job "$id" reason)"
  "$C" logs "$id" --rank runner >runner.txt
  python3 - "$jobs/$id" "$1" runner.txt <<'PY'
import json, re, statistics, sys
job, name, log = sys.argv[1:]
plan = json.load(open(job + "/plan.json"))
rows = [json.loads(line) for line in open(job + "/journal")]
steps = [r for r in rows if r["type"] == "runner.step" and r.get("kind", "train") == "train"][32:]
measured = statistics.median(r["step_ns"] / 1e6 for r in steps)
data = statistics.median(r["data_wait_us"] / 1e3 for r in steps)
text = open(log).read()
calibrated = re.search(r"calibrated: predicted step (\S+) ms \(was", text)
filled = re.search(r"of the first step: predicted step (\S+) ms", text)
predicted = float(filled[1]) if filled else plan["predicted_step_ns"] / 1e6
again = float(calibrated[1]) if calibrated else 0
stages = ", ".join(f"{s['name']} {s['n_layers']}" for s in plan["stages"])
off = lambda ms: f"{100 * (ms / measured - 1):6.1f}%"
print(f"{name:22} {predicted:9.3f} {off(predicted)} {again:10.3f} {off(again) if again else '     -'} {measured:9.3f} "
      f"{data:6.3f}  {plan['schedule']}, {plan['n_ranks']} ranks: {stages}")
PY
}
if [ $is_layouts = no ]; then
  for planner in cornstarch modules megatron disttrain entrain blind; do row $planner "$(found $planner "$profile")"; done
  exit 0
fi
layout() { [ "$1" -gt "$gpus" ] || row "$2" "$(made "$3" "$profile")"; } # RANKS NAME LAYOUT
together='modality = "encoder-colocated",'
layout 1 "one rank" "$together parallel = { vision = { pp = 1 }, llm = { pp = 1 } },"
layout 2 "encoder, LLM" 'parallel = { vision = { pp = 1 }, llm = { pp = 1 } },'
layout 2 "encoder, LLM, zb-h1" 'schedule = "zb-h1", parallel = { vision = { pp = 1 }, llm = { pp = 1 } },'
layout 2 "2 stages" 'modality = "encoder-first", parallel = { vision = { pp = 1 }, llm = { pp = 2 } },'
layout 2 "2 replicas" "$together dp = 2, parallel = { vision = { pp = 1 }, llm = { pp = 1 } },"
for zero in 2 3; do
  layout 2 "2 replicas, zero $zero" "$together dp = 2, parallel = { vision = { pp = 1, zero = $zero }, llm = { pp = 1, zero = $zero } },"
done
layout 2 "tp 2" "$together parallel = { vision = { pp = 1 }, llm = { pp = 1, tp = 2 } },"
layout 2 "tp 2, sp" "$together parallel = { vision = { pp = 1 }, llm = { pp = 1, tp = 2, sp = true } },"
layout 2 "cp 2" "$together parallel = { vision = { pp = 1, cp = 2 }, llm = { pp = 1, cp = 2 } },"
layout 2 "copies, three-phase" "$together schedule = \"three-phase\", parallel = { vision = { pp = 1 }, llm = { pp = 2 } },"
layout 2 "copies, replicated" 'modality = "encoder-replicated", parallel = { vision = { pp = 1 }, llm = { pp = 2 } },'
layout 4 "encoder, LLM in 3" 'parallel = { vision = { pp = 1 }, llm = { pp = 3 } },'
layout 4 "2 x encoder, LLM" 'dp = 2, parallel = { vision = { pp = 1 }, llm = { pp = 1 } },'
layout 4 "4 replicas" "$together dp = 4, parallel = { vision = { pp = 1 }, llm = { pp = 1 } },"
layout 4 "tp 4" "$together parallel = { vision = { pp = 1 }, llm = { pp = 1, tp = 4 } },"
layout 4 "cp 4" "$together parallel = { vision = { pp = 1, cp = 4 }, llm = { pp = 1, cp = 4 } },"
layout 4 "tp 2 in 2 stages" 'modality = "encoder-first", parallel = { vision = { pp = 1, tp = 2 }, llm = { pp = 2, tp = 2 } },'
exit 0
