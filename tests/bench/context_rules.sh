#!/bin/bash
# Every rule of distribution in jobs on CPU ranks, what is predicted beside what is measured; one line a rule:
#   tests/bench/context_rules.sh [RANKS] [TOKENS] [STEPS]
# Of the last steps: largest load over the mean as the map has it; the same of the time that ranks computed, without the
# wait for rows of others; the wait of a rank, mean, as a share of the step; median time of a step, and over that of the
# fastest rule. A slot is one document of that length with a picture in its middle, under a causal mask.
. "$(dirname "$0")/../support/e2e.sh"
ranks=${1:-2} tokens=${2:-4096} steps=${3:-24}
make_data 8
python3 - "$tokens" <<'PY'
import json, random, sys
row, draw = json.load(open("data/train.json"))[0], random.Random(7)
symbols = "".join(draw.choice("~^`{}|@#$%&*") for _ in range(int(sys.argv[1]) - 160))
row["conversations"] = [{"from": "human", "value": symbols[: len(symbols) // 2] + "<image>" + symbols[len(symbols) // 2 :]},
                        {"from": "gpt", "value": "red"}]
json.dump([row], open("data/one.json", "w"))
PY
common=('json="data/one.json"' batch=1 slots=1 "seq=$tokens" "steps=$steps" "llm=1, cp = $ranks")
for rule in uniform zigzag striped random lpt exact best; do
  write_job "$rule.lua" "${common[@]}" "plan=context = \"$rule\","
  echo "$rule $(done_job "$rule.lua" 2>/dev/null)"
done >ran
python3 - "$jobs" "$steps" <<'PY'
import json, statistics, sys
found = []
for rule, job in (line.split() for line in open("ran")):
    rows = [json.loads(line) for line in open(f"{sys.argv[1]}/{job}/journal")]
    rows = [r for r in rows if r["type"] == "runner.step" and r.get("kind", "train") == "train"][int(sys.argv[2]) // 3 :]
    loads = [row[3] for row in rows[0]["context"]]
    times, waits = [0.0] * len(loads), []
    for r in rows:
        for i, (rank, _, _, _, wait) in enumerate(r["context"]):
            times[i] += (1 - r["bubble"][rank]) * r["makespan_ns"] / 1e3 - wait
            waits.append(1e3 * wait / r["step_ns"])
    uneven = lambda x: max(x) * len(x) / sum(x)
    found.append((rule, uneven(loads), uneven(times), statistics.mean(waits), statistics.median(r["step_ns"] for r in rows) / 1e6))
best = min(f[4] for f in found)
print(f"{'rule':8} {'predicted':>9} {'measured':>9} {'wait':>6} {'step ms':>8} {'slower':>7}")
for rule, predicted, measured, wait, ms in found:
    print(f"{rule:8} {predicted:9.3f} {measured:9.3f} {100 * wait:5.1f}% {ms:8.1f} {100 * (ms / best - 1):+6.1f}%")
PY
