#!/bin/bash
# Jobs in many layouts through daemon, feeder and workers: tests/gpu/layouts.sh [--gpus N] [--only REGEX] [--part K/N] [--exact] [--cpu] [BUILD]
#   --gpus N  most GPUs of a job (default: all that are there)
#   --only REGEX  of the layouts those whose names match, "zero 3|copies of the encoder" say
#   --part K/N  of those every Nth, from the Kth: N such commands at once share a machine with many cores
#   --exact   also the quickstart's job to its end on one GPU and on all: at least 95 % exact match
#   --cpu     CPU ranks, to try the script where there is no GPU
#   BUILD     build directory with bin and lib (default: build)
# Passes when every layout that the GPUs allow (pipelines in several orders, encoder first, replicas, replicas of
# pipelines, encoders with replicas of their own number or copied to ranks of the LLM, gradients and weights that replicas
# divide, a tied embedding, rows of a slot over several ranks) trains 20 steps in fp32 with the losses and gradient
# norms of one rank, within 1e-4, and in bf16 within 3e-2; when the two copies of a tied embedding on two ranks end with the same bits, also
# with all state in bf16; when a job with replicas, killed after a checkpoint, ends with the weights of the one that
# was not; and when nothing is left afterwards. Exit: 0 passed, 1 not, 77 no GPU.
set -u
numbers='gpus only part' only= part=1/1 switches=exact is_exact=no
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || gpus=4 # CPU ranks; without --cpu it is seen that there is no GPU
. "$(dirname "$0")/node.sh"
make_model small 256
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$root/lua/examples/shapes-llm.json" >tied.json
"$C" model init tied.json data/tied --seed 2 --text data/text.txt --vocab 384 >/dev/null
remember_memory
passed=0 failed=0
good() { passed=$((passed + 1)); printf 'ok     %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED %s\n' "$*"; }

# near BASE ID LIMIT: 20 steps each; prints the worst relative difference, fails above the limit and on NaN
near() {
  jobs_py rows "$jobs/$1" >one
  jobs_py rows "$jobs/$2" >two
  python3 - "$3" <<'PY'
import sys
one, two = ([[float(x) for x in line.split()[:3]] for line in open(name)] for name in ("one", "two"))
if len(one) != 20 or len(two) != 20:
    sys.exit(f"{len(one)} and {len(two)} steps")
worst = max((abs(a - b) / max(abs(a), 1e-3) for x, y in zip(one, two) for a, b in zip(x, y)), key=lambda d: d if d == d else 9e9)
print(f"{worst:.2e}")
sys.exit(0 if worst <= float(sys.argv[1]) else 1)
PY
}

# is_wanted RANKS NAME: there are as many GPUs, nothing else is asked for, and it is this command's turn
turn=0
is_wanted() {
  [ "$1" -le "$gpus" ] || return 1
  [[ $2 =~ $only ]] || return 1
  turn=$((turn + 1))
  [ $((turn % ${part#*/})) -eq $((${part%/*} % ${part#*/})) ]
}

# compare RANKS NAME PLAN [KEY=VALUE...]: the layout against one rank with the same keys; in fp32 unless they name a
# precision
declare -A base=()
compare() {
  local ranks=$1 name=$2 plan=$3 id off limit=1e-4
  shift 3
  is_wanted "$ranks" "$name" || return 0
  case "$is_cpu $*" in
    no\ *precision*) limit=3e-2 ;;
    yes\ *precision*) return 0 ;;
    no*) set -- "$@" 'precision="fp32"' ;;
  esac
  if [ -z "${base["with $*"]:-}" ]; then
    write_node_job one.lua 1 "$@"
    base["with $*"]=$(done_job one.lua)
  fi
  write_node_job many.lua "$ranks" "plan=$plan" "$@"
  id=$(submit many.lua 2>said) || { bad "$name: $(grep -m1 . said)"; return; }
  if ! "$C" wait "$id" >/dev/null; then
    bad "$name: $(job "$id" state) $(job "$id" reason)"
  elif ! jobs_py copies "$jobs/$id" >copies 2>&1; then
    bad "$name: the copies of the tied embedding differ: $(cat copies)"
  elif off=$(near "${base["with $*"]}" "$id" $limit); then
    good "$name: off by at most $off"
  else
    bad "$name: off by $off, $limit is allowed"
  fi
}

pipe() { echo "parallel = { vision = { pp = $1 }, llm = { pp = $2 } }, modality = \"$3\", schedule = \"${4:-1f1b}\", dp = ${5:-1},"; }
compare 2 "encoder and LLM" "$(pipe 1 1 encoder-parallel)"
compare 2 "encoder and LLM, zb-h1" "$(pipe 1 1 encoder-parallel zb-h1)"
compare 2 "2 replicas" "$(pipe 1 1 encoder-colocated 1f1b 2)"
compare 2 "a copy of the encoder beside both stages" "$(pipe 1 2 encoder-colocated)"
compare 2 "encoder first" "$(pipe 1 2 encoder-first)"
compare 2 "tied embedding on two ranks" "$(pipe 1 2 encoder-first)" llm=data/tied
compare 2 "2 replicas, tied embedding" "$(pipe 1 1 encoder-colocated 1f1b 2)" llm=data/tied
compare 3 "encoder, LLM in 2 stages" "$(pipe 1 2 encoder-parallel)"
compare 3 "encoder, LLM in 2 stages, interleaved" "$(pipe 1 2 encoder-parallel interleaved)"
compare 4 "encoder, LLM in 3 stages, zb-h2" "$(pipe 1 3 encoder-parallel zb-h2)" slots=8
compare 4 "2 replicas of encoder and LLM" "$(pipe 1 1 encoder-parallel 1f1b 2)"
compare 4 "2 replicas of encoder and LLM, zb-h1, tied" "$(pipe 1 2 encoder-first zb-h1 2)" llm=data/tied
compare 4 "4 replicas" "$(pipe 1 1 encoder-colocated 1f1b 4)"
compare 8 "4 replicas, tied embedding on two ranks" "$(pipe 1 2 encoder-first 1f1b 4)" llm=data/tied

# rows of a slot split over ranks: by their work, and by other rules; text alone where there are two GPUs
split() { echo "parallel = { vision = { pp = 1 }, llm = { pp = $1, cp = $2 } }, context = \"$3\", schedule = \"${4:-1f1b}\", dp = ${5:-1},"; }
texts() { echo "parallel = { llm = { pp = 1, cp = $1 } }, context = \"$2\","; }
make_texts

# kind_of recurrent|experts: the example's LLM with other layers
kind_of() {
  python3 - "$1" "$root/lua/examples/shapes-llm.json" <<'PY'
import json, sys
kinds = {
    "recurrent": {"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "num_hidden_layers": 4,
                  "layer_types": ["linear_attention"] * 3 + ["full_attention"], "linear_num_key_heads": 2,
                  "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
                  "linear_conv_kernel_dim": 4},
    "experts": {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8,
                "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True, "mlp_only_layers": [1],
                "decoder_sparse_step": 1, "output_router_logits": True, "router_aux_loss_coef": 0.1},
}
config = {**json.load(open(sys.argv[2])), **kinds[sys.argv[1]]}
del config["mlp_bias"]
print(json.dumps(config))
PY
}

compare 2 "text in 2 stages of 2 chunks" 'parallel = { llm = { pp = 2, vpp = 2 } }, schedule = "interleaved",' text=yes
compare 2 "text over 2 ranks" "$(texts 2 lpt)" text=yes
compare 2 "text over 2 ranks, zigzag, slots of 2000 rows" "$(texts 2 zigzag)" text=yes seq=2000 slots=2 batch=64 llm=data/tied
compare 2 "text over 2 ranks in bf16, slots of 2000 rows" "$(texts 2 lpt)" text=yes seq=2000 slots=2 batch=64 'precision="bf16"'
# ... of recurrent layers, of experts whose loss of balance knows all rows, and of slots that one rank has alone
for kind in recurrent experts; do
  kind_of $kind >$kind.json
  "$C" model init $kind.json data/$kind --seed 2 --text data/text.txt --vocab 384 >/dev/null
  compare 2 "$kind: text over 2 ranks" "$(texts 2 lpt)" text=yes llm=data/$kind
  compare 2 "$kind: text over 2 ranks, zigzag, in bf16, slots of 2000 rows" "$(texts 2 zigzag)" text=yes seq=2000 slots=2 batch=64 llm=data/$kind 'precision="bf16"'
  compare 3 "$kind: encoder, LLM over 2 ranks, zb-h1" "$(split 1 2 striped zb-h1)" llm=data/$kind
  compare 4 "$kind: text over 4 ranks, striped" "$(texts 4 striped)" text=yes llm=data/$kind
done
# experts over the ranks of replicas, of a context, of both, beside shared matrices and divided gradients
spread() { echo "parallel = { llm = { pp = 1, cp = $2, tp = ${4:-1}, ep = $3, recompute = \"${5:-none}\", zero = ${6:-1} } }, dp = $1,"; }
python3 - data/experts/config.json >mixtral.json <<'PY'
import json, sys
config = {k: v for k, v in json.load(open(sys.argv[1])).items() if k not in ("num_experts", "moe_intermediate_size",
          "norm_topk_prob", "mlp_only_layers", "decoder_sparse_step", "head_dim", "attention_bias")}
print(json.dumps({**config, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 5}))
PY
"$C" model init mixtral.json data/mixtral --seed 2 --text data/text.txt --vocab 384 >/dev/null
compare 2 "experts over 2 replicas" "$(spread 2 1 2)" text=yes llm=data/experts
compare 2 "experts over 2 replicas in bf16" "$(spread 2 1 2)" text=yes llm=data/experts 'precision="bf16"'
compare 2 "experts over 2 replicas, made again, slots of 2000 rows" "$(spread 2 1 2 1 full)" text=yes seq=2000 slots=2 batch=64 llm=data/experts
compare 2 "experts over 2 parts of the rows" "$(spread 1 2 2)" text=yes llm=data/experts
compare 2 "experts over 2 parts of the rows in bf16, slots of 2000 rows" "$(spread 1 2 2)" text=yes seq=2000 slots=2 batch=64 llm=data/experts 'precision="bf16"'
compare 2 "experts over 2 replicas with an encoder" "parallel = { vision = { pp = 1 }, llm = { pp = 1, ep = 2 } }, modality = \"encoder-colocated\", dp = 2," llm=data/experts
compare 2 "experts over 2 replicas, zero 3" "$(spread 2 1 2 1 none 3)" text=yes llm=data/experts
compare 2 "experts of mixtral, 5 over 2 replicas" "$(spread 2 1 2)" text=yes llm=data/mixtral
compare 2 "experts of mixtral, 5 over 2 replicas in bf16, all state in bf16" "$(spread 2 1 2)" text=yes llm=data/mixtral 'precision="bf16"' 'state="bf16"'
compare 4 "experts over 2 of 4 replicas" "$(spread 4 1 2)" text=yes llm=data/experts
compare 4 "experts over 2 replicas of 2 parts in bf16" "$(spread 2 2 4)" text=yes llm=data/experts 'precision="bf16"'
compare 4 "experts over 2 replicas, matrices over 2 ranks" "$(spread 2 1 2 2 selective)" text=yes llm=data/experts
compare 4 "experts over 2 replicas of 2 stages, zb-h1" "parallel = { llm = { pp = 2, ep = 2 } }, schedule = \"zb-h1\", dp = 2," text=yes llm=data/experts
# ... and of items of encoders, on the ranks of the LLM or their own
shared() { echo "parallel = { vision = { pp = 1, cp = $1 }, llm = { pp = 1, cp = $2 } }, modality = \"$3\", context = \"lpt\", schedule = \"${4:-1f1b}\","; }
compare 2 "items over 2 ranks, those of the LLM" "$(shared 2 2 encoder-colocated)"
compare 2 "items over 2 ranks, those of the LLM, zb-h1, in bf16" "$(shared 2 2 encoder-colocated zb-h1)" 'precision="bf16"'
compare 3 "items over 2 ranks, LLM on one" "$(shared 2 1 encoder-parallel)"
compare 4 "items over 2 ranks, LLM over 2" "$(shared 2 2 encoder-parallel)"
compare 4 "items over 3 ranks, LLM on one, in bf16" "$(shared 3 1 encoder-parallel)" 'precision="bf16"'
compare 2 "text over 2 ranks, short slots on one" "$(texts 2 lpt) context_rows = 400," text=yes
compare 2 "recurrent: text over 2 ranks, short slots on one, in bf16" "$(texts 2 lpt) context_rows = 400," text=yes llm=data/recurrent 'precision="bf16"'
compare 4 "text over 4 ranks, short slots on few" "$(texts 4 lpt) context_rows = 200," text=yes
compare 2 "heads move: text over 2 ranks" "$(texts 2 lpt) context_exchange = \"heads\"," text=yes
compare 2 "heads move: text over 2 ranks, zigzag, in bf16, slots of 2000 rows" "$(texts 2 zigzag) context_exchange = \"heads\"," text=yes seq=2000 slots=2 batch=64 llm=data/tied 'precision="bf16"'
compare 3 "heads move: encoder, LLM over 2 ranks, zb-h1" "$(split 1 2 striped zb-h1) context_exchange = \"heads\"," llm=data/recurrent
compare 4 "heads move: text over 4 ranks in bf16" "$(texts 4 lpt) context_exchange = \"heads\"," text=yes 'precision="bf16"'
compare 2 "heads move: text over 2 ranks, short slots on one, in bf16" "$(texts 2 lpt) context_exchange = \"heads\", context_rows = 400," text=yes 'precision="bf16"'
compare 4 "heads move: text over 4 ranks, short slots on few" "$(texts 4 lpt) context_exchange = \"heads\", context_rows = 200," text=yes
compare 3 "encoder, LLM over 2 ranks" "$(split 1 2 lpt)"
compare 3 "text over 3 ranks" "$(texts 3 lpt)" text=yes
compare 4 "encoder, LLM over 3 ranks, striped" "$(split 1 3 striped)" llm=data/tied
compare 4 "text over 4 ranks" "$(texts 4 lpt)" text=yes
compare 5 "encoder, LLM in 2 stages over 2 ranks, zb-h1" "$(split 2 2 lpt zb-h1)"
compare 6 "2 replicas of encoder and LLM over 2 ranks" "$(split 1 2 lpt 1f1b 2)"

# matrices of a stage shared by ranks: fp32 and bf16, norms of heads, more ranks than heads of keys, beside other layouts
shared() { echo "parallel = { vision = { pp = 1, tp = $1 }, llm = { pp = $2, tp = $3, cp = ${4:-1} } }, schedule = \"${5:-1f1b}\", dp = ${6:-1},"; }
words() { echo "parallel = { llm = { pp = 1, tp = $1 } },"; }
compare 2 "text, matrices over 2 ranks" "$(words 2)" text=yes
compare 2 "text, matrices over 2 ranks, slots of 2000 rows, tied" "$(words 2)" text=yes seq=2000 slots=2 batch=64 llm=data/tied
compare 2 "text, matrices over 2 ranks in bf16" "$(words 2)" text=yes 'precision="bf16"'
compare 2 "text, matrices over 2 ranks in bf16, state in bf16, slots of 2000 rows" "$(words 2)" text=yes seq=2000 slots=2 batch=64 'precision="bf16"' 'state="bf16"'
compare 2 "encoder and LLM, matrices over the same 2 ranks" "modality = \"encoder-colocated\", $(shared 2 1 2)"
for kind in recurrent experts; do
  compare 2 "$kind: text, matrices over 2 ranks" "$(words 2)" text=yes llm=data/$kind
  compare 2 "$kind: text, matrices over 2 ranks in bf16" "$(words 2)" text=yes llm=data/$kind 'precision="bf16"'
done
compare 3 "encoder, LLM with matrices over 2 ranks, zb-h1" "$(shared 1 1 2 1 zb-h1)"
compare 4 "text, matrices over 4 ranks" "$(words 4)" text=yes
compare 4 "encoder and LLM, matrices over 2 ranks each, in bf16" "$(shared 2 1 2)" 'precision="bf16"'
compare 4 "text over 2 ranks, matrices over 2" "parallel = { llm = { pp = 1, tp = 2, cp = 2 } }," text=yes
compare 4 "2 replicas, matrices over 2 ranks" "$(words 2) dp = 2," text=yes
compare 5 "encoder, LLM in 2 stages, matrices over 2 ranks" "$(shared 1 2 2)"
sequences() { echo "parallel = { llm = { pp = ${2:-1}, tp = $1, sp = true } },"; }
compare 2 "text, matrices and rows between products over 2 ranks" "$(sequences 2)" text=yes
compare 2 "text, matrices and rows between products over 2 ranks in bf16, made again" "parallel = { llm = { pp = 1, tp = 2, sp = true, recompute = \"full\" } }," text=yes 'precision="bf16"'
export CORNSTARCH_TENSOR_COPIES=nccl
compare 2 "text, matrices and rows between products over 2 ranks, by NCCL" "$(sequences 2)" text=yes
unset CORNSTARCH_TENSOR_COPIES
compare 4 "text, matrices and rows between products over 4 ranks" "$(sequences 4)" text=yes seq=2000 slots=2 batch=64
compare 4 "text in 2 stages, matrices and rows between products over 2 ranks in bf16, zb-h1" "$(sequences 2 2) schedule = \"zb-h1\"," text=yes 'precision="bf16"'

# encoders with replicas of their own number, on ranks of their own or one on every rank that shares the LLM's matrices
uneven() { echo "parallel = { vision = { pp = 1, dp = $1 }, llm = { pp = ${3:-1} } }, schedule = \"${4:-1f1b}\", dp = $2,"; }
guests() { echo "modality = \"encoder-colocated\", parallel = { vision = { pp = 1, dp = $1 }, llm = { pp = 1, tp = $2, cp = ${3:-1} } }, schedule = \"${4:-1f1b}\", dp = ${5:-1},"; }
compare 2 "own replicas, 2 of the encoder where 2 ranks share matrices" "$(guests 2 2)"
compare 2 "own replicas, 2 of the encoder where 2 ranks share matrices, zb-h1, in bf16" "$(guests 2 2 1 zb-h1)" 'precision="bf16"'
compare 3 "own replicas, 2 of the encoder for 1" "$(uneven 2 1)"
compare 3 "own replicas, 1 of the encoder for 2, in bf16" "$(uneven 1 2)" 'precision="bf16"'
compare 4 "own replicas, 2 of the encoder for 1 in 2 stages, zb-h1" "$(uneven 2 1 2 zb-h1)"
compare 4 "own replicas, 4 of the encoder where 2 ranks share matrices, twice" "$(guests 4 2 1 1f1b 2)"
compare 4 "own replicas, 4 of the encoder where 4 ranks share matrices and rows" "$(guests 4 2 2)"
compare 5 "own replicas, 3 of the encoder for 2" "$(uneven 3 2)" slots=6
compare 8 "own replicas, 5 of the encoder for 3, in bf16" "$(uneven 5 3)" slots=6 'precision="bf16"'

# copies of the encoder on the ranks of the LLM: each with its share of the slots, or all of them
copied() { echo "parallel = { vision = { pp = 1 }, llm = { pp = $3 } }, modality = \"$1\", schedule = \"$2\", dp = ${4:-1},"; }
compare 2 "copies of the encoder, three-phase" "$(copied encoder-colocated three-phase 2)" slots=8
compare 2 "copies of the encoder, three-phase, in bf16" "$(copied encoder-colocated three-phase 2)" slots=8 'precision="bf16"'
compare 2 "copies of the encoder, anchors" "$(copied encoder-colocated anchors 2)" slots=8
compare 2 "copies of the encoder, replicated" "$(copied encoder-replicated 1f1b 2)"
compare 2 "copies of the encoder, replicated, zb-h1, in bf16" "$(copied encoder-replicated zb-h1 2)" 'precision="bf16"'
compare 3 "copies of the encoder, three-phase over 3 ranks" "$(copied encoder-colocated three-phase 3)" slots=8
compare 4 "copies of the encoder, three-phase, 2 replicas" "$(copied encoder-colocated three-phase 2 2)" slots=8
compare 4 "copies of the encoder, replicated, 2 replicas" "$(copied encoder-replicated 1f1b 2 2)"

# gradients (2), weights too (3) divided among replicas, and among ranks that split rows
divided() { echo "parallel = { vision = { pp = $2, zero = $1 }, llm = { pp = $3, zero = $1 } }, modality = \"$4\", schedule = \"${5:-1f1b}\", dp = ${6:-2},"; }
for zero in 2 3; do
  compare 2 "2 replicas, zero $zero" "$(divided $zero 1 1 encoder-colocated)"
  compare 2 "2 replicas, zero $zero, tied embedding" "$(divided $zero 1 1 encoder-colocated)" llm=data/tied
  compare 2 "2 replicas in bf16, zero $zero" "$(divided $zero 1 1 encoder-colocated)" 'precision="bf16"'
  compare 2 "2 replicas, all state in bf16, zero $zero" "$(divided $zero 1 1 encoder-colocated)" 'precision="bf16"' 'state="bf16"'
  compare 2 "text over 2 ranks, zero $zero" "parallel = { llm = { pp = 1, cp = 2, zero = $zero } }," text=yes
  compare 4 "2 replicas of encoder and LLM, zero $zero" "$(divided $zero 1 1 encoder-parallel)"
  compare 4 "2 replicas of encoder and LLM, interleaved, zero $zero" "$(divided $zero 1 2 encoder-first interleaved)" slots=8
  compare 4 "2 replicas, matrices over 2 ranks, zero $zero" "parallel = { llm = { pp = 1, tp = 2, zero = $zero } }, dp = 2," text=yes
  compare 4 "4 replicas, zero $zero" "$(divided $zero 1 1 encoder-colocated 1f1b 4)"
  compare 2 "2 replicas, zb-h1 on one rank, zero $zero" "$(divided $zero 1 1 encoder-colocated zb-h1)" slots=8
  compare 2 "2 replicas, zb-h1 on one rank, all state in bf16, zero $zero" "$(divided $zero 1 1 encoder-colocated zb-h1)" slots=8 'precision="bf16"' 'state="bf16"'
  compare 4 "2 replicas of encoder and LLM, zb-h1, zero $zero" "$(divided $zero 1 1 encoder-parallel zb-h1)"
  compare 4 "2 replicas in 2 stages, zb-h2 in bf16, zero $zero" "$(divided $zero 1 2 encoder-first zb-h2)" slots=8 'precision="bf16"'
  compare 4 "2 replicas, copies of the encoder, three-phase, zero $zero" "$(divided $zero 1 2 encoder-colocated three-phase)" slots=8
  compare 4 "2 replicas, copies of the encoder, zb-h1, zero $zero" "$(divided $zero 1 2 encoder-replicated zb-h1)" slots=8
done

# activations that wait on the host: all slots of gpipe, those of a long pipeline, chunks of stages
waits() { echo "parallel = { vision = { pp = $1, offload = \"host\" }, llm = { pp = $2, offload = \"host\", recompute = \"${5:-none}\" } }, modality = \"$3\", schedule = \"$4\","; }
compare 1 "activations on the host, gpipe" "$(waits 1 1 encoder-colocated gpipe)" slots=8
compare 2 "activations on the host, encoder and LLM, gpipe" "$(waits 1 1 encoder-parallel gpipe)" slots=8
compare 2 "activations on the host, gpipe in bf16, full recompute" "$(waits 1 1 encoder-parallel gpipe full)" slots=8 'precision="bf16"'
compare 4 "activations on the host, encoder, LLM in 3 stages" "$(waits 1 3 encoder-parallel 1f1b)" slots=8
compare 3 "activations on the host, LLM in 2 stages, interleaved" "$(waits 1 2 encoder-parallel interleaved)" slots=8

# copies RANKS NAME PLAN [KEY=VALUE...]: both copies of the tied embedding are the same after 200 steps
copies() {
  local ranks=$1 name=$2 plan=$3 id n
  shift 3
  is_wanted "$ranks" "$name" || return 0
  write_node_job copies.lua "$ranks" "plan=$plan" llm=data/tied steps=200 "$@"
  id=$(submit copies.lua 2>said) || { bad "$name: $(grep -m1 . said)"; return; }
  if ! "$C" wait "$id" >/dev/null; then
    bad "$name: $(job "$id" state) $(job "$id" reason)"
  elif n=$(jobs_py copies "$jobs/$id" 2>&1) && [ "$n" = 1 ]; then
    good "$name: equal"
  else
    bad "$name: $n"
  fi
}
for state in fp32 bf16; do
  [ $is_cpu = no ] || [ $state = fp32 ] || continue
  for dp in 1 2 4; do
    copies $((2 * dp)) "copies of a tied embedding, $dp replicas, state in $state" \
      "$(pipe 1 2 encoder-first 1f1b $dp)" "state=\"$state\""
  done
done

# the weights of every parameter at the end
weights_of() { jobs_py weights "$jobs/$1" | sort; }

# a job with replicas that is killed after its checkpoint ends as the one that is not
if is_wanted 2 "2 replicas, killed and resumed"; then
  write_node_job whole.lua 2 "plan=$(pipe 1 1 encoder-colocated 1f1b 2)" steps=2000 checkpoint='{ every_steps = 500 }'
  whole=$(done_job whole.lua)
  cut=$(submit whole.lua)
  until_true "job $cut has a checkpoint" has_whole_ckpt "$cut" 499
  kill -9 $(children "$(runner_pid "$cut")" cornstarch-worker | tail -n 1)
  until_true "job $cut ends" state_is "$cut" FAILED
  "$C" resume "$cut" >/dev/null
  if "$C" wait "$cut" >/dev/null && weights_of "$whole" >one && weights_of "$cut" >two && [ -s one ] && cmp -s one two; then
    good "2 replicas, killed and resumed: the weights of the undisturbed job"
  else
    bad "2 replicas, killed and resumed: $(job "$cut" state) $(job "$cut" reason)"
  fi
fi

# the quickstart's job to its end, on the node's devices
exact() { # RANKS PLAN
  local id share
  sed -e "s/cluster = cs.cluster.*/cluster = $cluster,/" -e "s/parallel = .*/$2/" "$root/lua/examples/shapes.lua" >exact.lua
  grep -q "cluster = $cluster,$" exact.lua && grep -qF "$2" exact.lua || fail "lua/examples/shapes.lua has changed"
  id=$(done_job exact.lua)
  share=$(job "$id" exact_match)
  if python3 -c "import sys; sys.exit(not float('$share') >= 0.95)"; then
    good "quickstart's job on $1 GPUs: exact match $share"
  else
    bad "quickstart's job on $1 GPUs: exact match $share"
  fi
}
if [ $is_exact = yes ]; then
  "$root/scripts/shapes-data" "$PWD/build/shapes" >/dev/null
  exact 1 "$(layout 1)"
  if [ "$gpus" -ge 2 ]; then
    exact "$gpus" "$(layout "$gpus")"
    exact "$gpus" "$(pipe 1 1 encoder-colocated 1f1b "$gpus")"
  fi
fi
[ -z "$(our_pids cornstarch-worker)$(our_pids cornstarch-feeder)$(our_pids cornstarch-runner)" ] || fail "processes are left: $(our_pids)"
[ "$part" != 1/1 ] || until_true "the GPUs are free" are_gpus_free
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
