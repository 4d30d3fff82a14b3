#!/bin/bash
# Expert parallelism: ranks that share the experts of the language model compute what one rank does, over replicas and
# parts of the rows, with stages, shared matrices and frozen experts; evaluation, checkpoints, other layouts, export; two
# families, one with a tensor for every expert, one with a tensor for all.
. "$(dirname "$0")/../support/e2e.sh"
. "$(dirname "$0")/../support/near.sh"
make_data 48
make_mixed
python3 - <<'PY'
import json
common = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
              vocab_size=512, max_position_embeddings=1024, hidden_act="silu", rms_norm_eps=1e-5, initializer_range=0.1,
              output_router_logits=True, tie_word_embeddings=False)
json.dump(dict(common, model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], intermediate_size=48,
               moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[1],
               router_aux_loss_coef=0.05), open("each.json", "w"))
json.dump(dict(common, model_type="mixtral", architectures=["MixtralForCausalLM"], intermediate_size=24,
               num_local_experts=5, num_experts_per_tok=2, router_aux_loss_coef=0.02), open("mixtral.json", "w"))
PY
for family in each mixtral; do
  "$C" model init $family.json data/$family --seed 2 --text data/text.txt --vocab 384 >/dev/null
done
test='eval={ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 10 }'
common=('llm_dir="data/each"' 'json="data/mixed.json"' batch=6 seq=256 slots=4)
one='modality="encoder-colocated"'

# --- everything trains
write_job one.lua "${common[@]}" "$test" "$one"
base=$(done_job one.lua)
# --- the loss of the experts' balance is told beside that of the tokens, and not where none is trained
"$C" metrics "$base" --csv >one.csv
write_job unbalanced.lua "${common[@]}" "$test" "$one" 'llm_dir={ dir = "data/each", router_aux_loss_coef = 0 }'
unbalanced=$(done_job unbalanced.lua)
write_job strict.lua "${common[@]}" "$one" 'llm_dir={ dir = "data/each", router_aux_loss_coef = 2 }'
strict=$(done_job strict.lua)
expect_rc 0 "$C" export "$strict" strict
python3 - one.csv "$jobs/$base" "$jobs/$unbalanced" "$jobs/$strict" <<'PY' || fail "the balancing loss is not told, or router_aux_loss_coef does nothing"
import csv, json, math, sys
table = list(csv.DictReader(open(sys.argv[1])))
one, unbalanced, strict = ([r for r in map(json.loads, open(path + "/journal")) if r["type"] == "runner.step"]
                           for path in sys.argv[2:])
def of(rows, kind): return [r for r in rows if r.get("kind", "train") == kind]
for kind in ("train", "eval"):
    told = [r["aux_loss"] for r in of(one, kind)]
    # of 6 experts 2 take a row: 2 where all are alike busy, 6 where two take all
    assert len(told) > 1 and all(1.5 < v < 6 for v in told) and len(set(told)) == len(told), (kind, told)
    seen = [float(r["aux_loss"]) for r in table if r["kind"] == kind]
    assert len(seen) == len(told) and all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(seen, told)), (seen, told)
assert not any("aux_loss" in r for r in unbalanced)
first = [of(rows, "train")[0] for rows in (one, unbalanced, strict)]
assert first[0]["loss"] == first[1]["loss"] == first[2]["loss"] and first[0]["aux_loss"] == first[2]["aux_loss"]
assert len({r["grad_norm"] for r in first}) == 3
assert of(strict, "train")[-1]["aux_loss"] < of(one, "train")[-1]["aux_loss"]
config = json.load(open("strict/llm/config.json"))
assert config["router_aux_loss_coef"] == 2 and config["output_router_logits"] is True, config
PY
check() { # WHAT RANKS KEY=VALUE...
  local what=$1 ranks=$2 id
  shift 2
  write_job ep.lua "${common[@]}" "$test" "$@"
  id=$(done_job ep.lua)
  [ "$("$C" show "$id" --json | field plan.n_ranks)" = "$ranks" ] || fail "$what: not $ranks ranks a replica"
  near "$base" "$id" "$what" 2
  echo "$id" >last
}
check "two replicas, ep 2" 2 'llm=1, ep = 2' 'plan=dp = 2,'
expect_rc 0 "$C" export "$(cat last)" out
expect_rc 0 "$C" model check out/llm
python3 - "$jobs/$base" "$jobs/$(cat last)" <<'PY' || fail "the parameters at the end are not told as one rank tells them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
assert sorted(one) == sorted(two) and sum("experts" in name for name in one) > 20, (len(one), len(two))
PY
check "two parts of the rows, ep 2, two stages" 5 'llm=2, cp = 2, ep = 2' 'plan=schedule = "zb-h1",'
check "two replicas of two parts, ep 4 of 6 experts" 3 'llm=1, cp = 2, ep = 4' 'plan=dp = 2,'
check "four replicas, ep 2" 1 "$one" 'llm=1, ep = 2' 'plan=dp = 4,'
check "two replicas of tp 2, ep 2" 3 'llm=1, tp = 2, ep = 2' 'plan=dp = 2,'

# --- another family; experts that are frozen, whose values are told as they were
common[0]='llm_dir="data/mixtral"'
write_job one.lua "${common[@]}" "$test" "$one"
base=$(done_job one.lua)
check "mixtral, ep 2 of 5 experts" 2 'llm=1, ep = 2' 'plan=dp = 2,'
write_job one.lua "${common[@]}" "$one" 'train=:train("vision.projector"):lora { module = "llm", rank = 4, alpha = 8 }'
write_job ep.lua "${common[@]}" 'llm=1, ep = 2' 'plan=dp = 2,' \
  'train=:train("vision.projector"):lora { module = "llm", rank = 4, alpha = 8 }'
alone=$(done_job one.lua)
shared=$(done_job ep.lua)
near "$alone" "$shared" "adapters beside frozen experts"
python3 - "$jobs/$alone" "$jobs/$shared" <<'PY' || fail "frozen experts that ranks share are not told as one rank has them"
import json, sys
one, two = (json.load(open(path + "/weights.json"))["xxh3"] for path in sys.argv[1:3])
frozen = [name for name in one if name.startswith("llm/") and "lora" not in name]
assert len(frozen) > 20 and all(one[name] == two[name] for name in frozen), [n for n in frozen if one[n] != two.get(n)]
PY

# --- what a search finds with ranks of experts and of matrices is run as it says
cat >found.lua <<'LUA'
local cs = require "cornstarch"
local model = cs.mllm {
  encoders = { vision = { from = cs.hf "data/vision", projector = cs.projector.mlp {}, token = "<image>" } },
  llm = cs.hf "data/mixtral",
}:train("*")
local found = cs.search {
  model = model, cluster = cs.cluster { device = "cpu", devices_per_node = 6 }, seq_tokens = 256, batch_slots = 4,
  parallel = { vision = { pp = 1, tp = 1, cp = 1 }, llm = { pp = 1, tp = 2, cp = 1, ep = 2 } }, dp = 2, compare = false,
  schedule = "1f1b", runs = true,
}
local best = found:plans()[1]
assert(best.runs and best.parallel.llm.ep == 2 and best.parallel.llm.tp == 2, best.parallel.llm)
return cs.job {
  plan = found:plan(), data = cs.data.llava { json = "data/mixed.json", images = "data/images" },
  optimizer = cs.optim.adamw { lr = 2e-3 }, batch_samples = 6, steps = 4,
}
LUA
expect_rc 0 "$C" plan found.lua
expect_text "experts of a layer of llm are spread over 2 ranks"
id=$(done_job found.lua)
python3 - "$jobs/$id/plan.json" <<'PY' || fail "the plan is not what was found"
import json, sys
llm = [s for s in json.load(open(sys.argv[1]))["stages"] if s["branch"] == "llm"]
assert llm and all(s["ep"] == 2 and s["tp"] == 2 for s in llm), llm
PY

# --- a job goes on with other numbers of ranks: as the one that nothing disturbed, in steps long enough for few: one day
# rounding sends a row to another expert
long=("${common[@]}" steps=100000 lr=1e-4 batch=36 slots=12)
write_job one.lua "${long[@]}" "$one"
write_job ep2.lua "${long[@]}" "$one" 'llm=1, ep = 2' 'plan=dp = 2,'
write_job ep4.lua "${long[@]}" 'llm=1, cp = 2, ep = 4' 'plan=dp = 2,'
write_job dp2.lua "${long[@]}" "$one" 'plan=dp = 2,'
goes_on "from ep 2 to ep 4, to one rank, to ep 2, to two replicas" ep2 ep4 one ep2 dp2

# --- what cannot run is refused before anything starts, by name
refused 4 'ep = 3 does not divide dp * cp = 2 * 2' 'llm=1, cp = 2, ep = 3' 'plan=dp = 2,'
refused 4 'have 5 experts each' 'llm=1, ep = 6' 'plan=dp = 6,' slots=6
refused 4 'vision has no layers with experts' 'vision=1, ep = 2' 'plan=dp = 2,'
refused 4 'llm has no layers with experts' 'llm_dir="data/llm"' 'llm=1, ep = 2' 'plan=dp = 2,'
echo "ok: $compared layouts"
