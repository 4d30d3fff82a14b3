#!/bin/bash
# Ranks that are killed (kill -9) or stopped (SIGSTOP) while they train on GPUs, and while they open what connects them:
# tests/gpu/kill.sh [--gpus N] [--rounds N] [--starts N] [--wide] [--cpu] [BUILD]
#   --gpus N    ranks of the job, a pipeline (default 2)
#   --rounds N  how many times a rank is killed at a random moment while it trains (default 6), beside: one that waits
#               within a message, one that the others wait for, the feeder, the runner
#   --starts N  how many times one is killed, and one stopped, at a random moment while the job starts (default 3);
#               those of a second or two in the middle are while GPUs are connected
#   --seed N    decides ranks and moments (default: of the clock; it is printed)
#   --wide      widths of SigLIP-so400m and Llama-3.2-1B, so that most moments are within messages and kernels
#   --cpu       CPU ranks, to try the script where there is no GPU
#   BUILD       build directory with bin and lib (default: build)
# Every time the job must be FAILED (LOST where its runner was killed) within 10 s and name who died, no process of it
# may be left, the GPUs must be free, and the next job on the same daemon must train. A rank that is stopped is named
# within 90 s: the others wait 65 s for it where GPUs are connected (cornstarch-worker(8)), elsewhere ten times the
# runner's --hang-limit, which is 8 s here. (A hundred times its longest step, where it trains by then.)
# Prints a line per round and "N passed, N failed". Exit: 0 all passed, 1 not, 77 no such GPUs.
set -u
numbers="gpus rounds starts seed" gpus=2 rounds=6 starts=3 seed=$(($(date +%s) % 32768))
. "$(dirname "$0")/node.sh"
LIMIT_S=${E2E_LIMIT_S:-120} # round has its own
RANDOM=$seed
export CORNSTARCH_RUNNER=$work/runner
cat >"$CORNSTARCH_RUNNER" <<SH
#!/bin/sh
exec "$bin/cornstarch-runner" --hang-limit 8s "\$@"
SH
chmod +x "$CORNSTARCH_RUNNER"
make_model $size 512
init=weights
[ $size = small ] || init=random
seq=576
[ $size = small ] || seq=2304
write_node_job victim.lua "$gpus" name='"victim"' init=$init seq=$seq steps=100000000
write_node_job after.lua "$gpus" name='"after"' init=$init seq=$seq steps=10
remember_memory
passed=0 failed=0 start_ms=1000
echo "seed $seed, GPU memory before: $(gpu_memory | tr '\n' ' ')MiB"

are_there() { [ "$(children "$runner" cornstarch-worker | wc -l)" -eq "$gpus" ]; }
has_runner() { runner=$(runner_pid "$id" 2>/dev/null) && [ -n "$runner" ] && kill -0 "$runner" 2>/dev/null; }
is_over() { case $(job "$id" state) in FAILED | LOST) ;; *) return 1 ;; esac; }

# round WHEN WHO [SIGNAL]: start|train|wait|peer, a rank, feeder or runner. wait: another rank is held, so that this one
# waits for its message when it dies; peer: it is held itself, the others wait for it. SIGNAL: KILL, or STOP for a rank
round() {
  local when=$1 who=$2 signal=${3:-KILL} victim want said="died (signal 9)" most=10000 began took free delay all held=
  [ "$signal" = KILL ] || said="(the process is stopped)" most=90000
  id=$(submit victim.lua)
  until_true "job $id has a runner" has_runner
  until_true "job $id has workers" are_there
  began=$(now_ms)
  delay=$((RANDOM % 1000))
  if [ "$when" = start ]; then
    delay=$((RANDOM % start_ms))
  else
    wait_training "$id" 1
    start_ms=$(($(now_ms) - began + 1))
    wait_training "$id" 5
    [ $is_cpu = yes ] || ! are_gpus_free || fail "the GPUs look free while job $id trains: this test sees nothing"
  fi
  sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
  workers=($(children "$runner" cornstarch-worker))
  feeder=$(children "$runner" cornstarch-feeder)
  all=("$runner" $feeder "${workers[@]}")
  case $who in
    feeder) victim=$feeder want="the feeder died (signal 9)" said= ;;
    runner) victim=$runner want="its runner was ended by signal 9" said= ;;
    *) victim=${workers[who]} want="rank $who (" ;;
  esac
  [ -n "$victim" ] || fail "round $when $who: nobody to kill"
  case $when in wait) held=${workers[(who + 1) % gpus]} ;; peer) held=$victim ;; esac
  if [ -n "$held" ]; then
    kill -STOP "$held"
    sleep 0.5
  fi
  began=$(now_ms)
  kill -s "$signal" "$victim"
  [ "$signal" = KILL ] || [ "$(job "$id" state)" = STARTING ] || most=400000 # 100 times its longest step
  local LIMIT_S=$((most / 1000 + 60))
  [ -z "$held" ] || kill -CONT "$held" 2>/dev/null || true
  until_true "job $id is over" is_over
  took=$(($(now_ms) - began))
  until_true "the processes of job $id are gone" are_gone "${all[@]}"
  until_true "the GPUs are free" are_gpus_free
  free=$(($(now_ms) - began))
  local reason verdict=ok
  reason=$(job "$id" reason)
  [[ $reason == "$want"* ]] || verdict="FAILED: it does not start with '$want'"
  [[ $reason == *"$said"* ]] || verdict="FAILED: no '$said'"
  [ $took -le $most ] && [ $free -le $most ] || verdict="FAILED: slow"
  if [ "$verdict" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  printf '%-5s %-6s %-4s +%4d ms: over after %d ms, all free after %d ms: %s: %s\n' "$when" "$who" "$signal" $delay $took $free "$verdict" "$reason"
}

# after a death the node trains as before
next_job() {
  local id
  id=$(submit after.lua)
  if "$C" wait "$id" >/dev/null && [ "$(jobs_py rows "$jobs/$id" | wc -l)" -eq 10 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: the next job is $(job "$id" state): $(job "$id" reason)"
  fi
}
for ((i = 0; i < rounds; i++)); do round train $((i < gpus ? i : RANDOM % gpus)); done
if [ "$gpus" -gt 1 ]; then
  round wait $((RANDOM % gpus))
  round peer $((RANDOM % gpus))
fi
next_job
for ((i = 0; i < starts; i++)); do
  round start $((RANDOM % gpus))
  round start $((RANDOM % gpus)) STOP
done
[ "$starts" -eq 0 ] || next_job
round train feeder
round train runner
next_job
[ -z "$(our_pids cornstarch-worker)$(our_pids cornstarch-feeder)$(our_pids cornstarch-runner)" ] || fail "processes are left: $(our_pids)"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
