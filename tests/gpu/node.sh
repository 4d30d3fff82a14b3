# Sourced by soak.sh, kill.sh and layouts.sh (bash): reads their command line, then the programs of a build directory
# as a node with GPUs, with a private daemon (tests/support/e2e.sh). The caller has set: numbers (names of its options
# with a number or text; each is a variable with its default, gpus among them: how many a job takes) and, where it has any,
# switches (names of options without: is_NAME is no, or yes when given). Set here: size (small, or wide with --wide),
# is_cpu (yes with --cpu: CPU ranks, to try the scripts where there is no GPU), build (the directory). --help prints
# the comment at the head of the script, up to its "set".
size=small is_cpu=no build=build
while [ $# -gt 0 ]; do
  option=${1#--}
  case $1 in
    --wide) size=wide ;;
    --cpu) is_cpu=yes ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*)
      case " ${switches:-} " in *" $option "*) printf -v "is_$option" yes; shift; continue ;; esac
      case " $numbers " in *" $option "*) ;; *) echo "${0##*/}: $1 is no option; --help tells them" >&2; exit 1 ;; esac
      printf -v "$option" %s "${2:?$1 needs a value}"
      shift ;;
    *) build=$1 ;;
  esac
  shift
done
build=$(cd "$build" 2>/dev/null && pwd) || { echo "there is no build directory; give it as the last argument" >&2; exit 1; }
export CORNSTARCH_BIN=$build/bin
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ $is_cpu = no ]; then
  n=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | wc -l) || n=0
  [ "$n" -gt 0 ] || { echo "skipped: no GPU (nvidia-smi shows none); --cpu runs on CPU ranks" >&2; exit 77; }
  [ "$n" -ge "$gpus" ] || { echo "skipped: $gpus GPUs are asked for, this machine has $n" >&2; exit 77; }
  [ -e "$build/lib/libcornstarch-cuda.so" ] || { echo "$build/lib/libcornstarch-cuda.so is missing" >&2; exit 1; }
  export CORNSTARCH_NVML=${CORNSTARCH_NVML:-libnvidia-ml.so.1}
  cluster='cs.cluster "here"'
else
  cluster='cs.cluster { device = "cpu" }'
fi
. "$(dirname "${BASH_SOURCE[0]}")/../support/e2e.sh"

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# children PID NAME: without pgrep, which bare machines lack
children() {
  local file pid
  for file in /proc/"$1"/task/*/children; do
    for pid in $(cat "$file" 2>/dev/null); do
      case $(readlink "/proc/$pid/exe" 2>/dev/null) in "$bin/$2") echo "$pid" ;; esac
    done
  done
}

# wait_training ID STEPS: fails at once when the job ends instead
wait_training() {
  local end=$((SECONDS + LIMIT_S))
  until step_is "$1" "$2"; do
    case $(job "$1" state) in FAILED | LOST | CANCELLED) fail "job $1 is $(job "$1" state): $(job "$1" reason)" ;; esac
    [ $SECONDS -lt $end ] || fail "job $1 did not finish $2 steps in $LIMIT_S s"
    sleep 0.05
  done
}

# memory in use per GPU, MiB, one line each
gpu_memory() { [ $is_cpu = yes ] || nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits; }
gpu_processes() { [ $is_cpu = yes ] || nvidia-smi --query-compute-apps=pid --format=csv,noheader; }
memory_before= processes_before=
remember_memory() { memory_before=$(gpu_memory) processes_before=$(gpu_processes); }
# no process computes that did not before, and no GPU holds more than it did, give or take what the driver keeps
are_gpus_free() {
  [ -z "$(comm -13 <(sort <<<"$processes_before") <(gpu_processes | sort))" ] || return 1
  paste <(echo "$memory_before") <(gpu_memory) | awk '$2 > $1 + 64 { bad = 1 } END { exit bad }'
}

# layout N: Lua of the plan for N ranks
layout() {
  if [ "$1" -eq 1 ]; then
    echo 'modality = "encoder-colocated", parallel = { vision = { pp = 1 }, llm = { pp = 1 } },'
  else
    echo "parallel = { vision = { pp = 1 }, llm = { pp = $(($1 - 1)) } },"
  fi
}

# make_model small|wide: data/vision and data/llm beside the sample data; wide: widths of SigLIP-so400m and
# Llama-3.2-1B, four layers each, fresh weights
make_model() {
  "$C" data make shapes data --train "$2" --test 256 --seed 1 >/dev/null
  cp "$root/lua/examples/shapes-vision.json" vision.json
  cp "$root/lua/examples/shapes-llm.json" llm.json
  if [ "$1" = wide ]; then
    sed -i 's/"image_size": 32/"image_size": 224/; s/"patch_size": 4/"patch_size": 14/' vision.json
    sed -i 's/"max_position_embeddings": 1024/"max_position_embeddings": 8192/' llm.json
  fi
  "$C" model init vision.json data/vision --seed 1 >/dev/null
  "$C" model init llm.json data/llm --seed 2 --text data/text.txt --vocab 384 >/dev/null
  [ "$1" = wide ] || return 0
  widen data/vision hidden_size=1152 intermediate_size=4304 num_hidden_layers=4 num_attention_heads=16 initializer_range=0.02
  widen data/llm hidden_size=2048 intermediate_size=8192 num_hidden_layers=4 num_attention_heads=32 \
    num_key_value_heads=8 head_dim=64 initializer_range=0.02
}
widen() { # DIR KEY=NUMBER...: the weights go, the job starts from fresh ones
  rm -f "$1"/*.safetensors*
  python3 - "$@" <<'PY'
import json, sys
path = sys.argv[1] + "/config.json"
config = json.load(open(path))
for pair in sys.argv[2:]:
    key, value = pair.split("=")
    config[key] = float(value) if "." in value else int(value)
json.dump(config, open(path, "w"))
PY
}

# make_texts: data/train-text.json, the samples without their pictures
make_texts() {
  python3 - <<'PY'
import json
rows = json.load(open("data/train.json"))
for row in rows:
    row.pop("image", None)
    for turn in row["conversations"]:
        turn["value"] = turn["value"].replace("<image>\n", "").replace("<image>", "")
json.dump(rows, open("data/train-text.json", "w"))
PY
}

# write_node_job FILE RANKS KEY=VALUE...: as write_job of e2e.sh, for the node's devices; text=yes: make_texts, no encoder
write_node_job() {
  local file=$1 ranks=$2 pair
  local -A v=([init]=weights [slots]=4 [seq]=576 [batch]=16 [steps]=20 [seed]=1 [checkpoint]='{}' [eval]=nil [lr]=1e-3
    [precision]=nil [state]=nil [name]=nil [llm]=data/llm [plan]= [schedule]='cs.lr.constant {}' [warmup]=50 [text]=no)
  shift 2
  for pair; do v[${pair%%=*}]=${pair#*=}; done
  local encoders="encoders = { vision = {
    from = cs.hf { dir = \"data/vision\", init = \"${v[init]}\" }, projector = cs.projector.mlp {}, token = \"<image>\" } },"
  local of='' layout
  layout=$(layout "$ranks")
  [ ${v[text]} = no ] || encoders='' of=-text layout='parallel = { llm = { pp = 1 } },'
  cat >"$file" <<LUA
local cs = require "cornstarch"
local model = cs.mllm {
  $encoders
  llm = cs.hf { dir = "${v[llm]}", init = "${v[init]}" },
}:train("*")
local function samples(set)
  return cs.data.llava { json = "data/" .. set .. "$of.json", images = "data/images", template = { name = "chatml", default_system = "" } }
end
return cs.job {
  name = ${v[name]},
  plan = cs.plan {
    model = model, cluster = $cluster, ${v[plan]:-$layout}
    seq_tokens = ${v[seq]}, slots = ${v[slots]},
  },
  data = samples "train", eval = ${v[eval]}, checkpoint = ${v[checkpoint]}, precision = ${v[precision]},
  optimizer = cs.optim.adamw { lr = ${v[lr]}, warmup_steps = ${v[warmup]}, state = ${v[state]} }, lr = ${v[schedule]}, batch_samples = ${v[batch]},
  steps = ${v[steps]}, seed = ${v[seed]},
}
LUA
}
