#!/bin/bash
# Figures for Prometheus: the page of cornstarchd --metrics-port says of a job what its rows say, to a strict reader of
# the format here and to promtool where it is installed; only the loopback listens unless told otherwise.
. "$(dirname "$0")/../support/e2e.sh"
make_data 32
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free_port)
"$bin/cornstarchd" -b --metrics-port="$port" || fail "the daemon does not start"
get() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="")' "http://127.0.0.1:$port$1"; }
get / | grep -q /metrics || fail "no word at /"

# --- names that would break the format, a job with sources and evaluations
write_job job.lua vision=1 llm=1 steps=6 name='[[a "name" \ of mine]]' \
  eval='{ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 3, max_samples = 8 }'
id=$(done_job job.lua)
get /metrics >page
"$C" metrics "$id" --lines >rows
cat >check.py <<'PY'
import json, math, sys
sys.path.insert(0, sys.argv[1])
from prom import read
job = sys.argv[2]
page = read(open("page").read())
rows = [json.loads(line) for line in open("rows")]
last = {kind: [r for r in rows if r["kind"] == kind][-1] for kind in ("train", "eval")}

def value(name, **labels):
    return page["cornstarch_" + name, tuple(sorted(labels.items()))]

info = [dict(k[1]) for k in page if k[0] == "cornstarch_job_info"]
assert [(i["job"], i["name"], i["state"]) for i in info] == [(job, 'a "name" \\ of mine', "DONE")], info
assert value("jobs", state="DONE") == 1 and value("jobs", state="RUN") == 0
assert value("job_step", job=job) == value("job_steps", job=job) == 6
assert value("devices", device="cpu") == 8 and value("devices_held", device="cpu") == 0
for kind, row in last.items():
    assert math.isclose(value("loss", job=job, kind=kind), row["loss"], rel_tol=1e-6)
    assert math.isclose(value("step_seconds", job=job, kind=kind), row["step_ms"] / 1e3, rel_tol=1e-6)
train = last["train"]
assert math.isclose(value("memory_bytes", job=job, kind="train"), train["mem_bytes"], rel_tol=1e-9)
assert math.isclose(value("grad_norm", job=job, kind="train"), train["grad_norm"], rel_tol=1e-6)
for part, ms in train["parts"].items():
    assert math.isclose(value("step_seconds_by_part", job=job, kind="train", part=part), ms / 1e3, rel_tol=1e-6, abs_tol=1e-12)
for module in ("vision", "llm"):
    assert math.isclose(value("mfu_by_module", job=job, kind="train", module=module), train["modules"][module]["mfu"], rel_tol=1e-6)
assert math.isclose(value("exact_match", job=job, kind="eval"), last["eval"]["exact_match"], rel_tol=1e-6, abs_tol=1e-12)
PY
python3 check.py "$root/tests/e2e" "$id" || fail "the page says something else than the rows"
if command -v promtool >/dev/null; then
  promtool check metrics <page || fail "promtool finds fault"
  echo "read by promtool, too"
fi

# --- a daemon that starts anew tells the same of jobs that do no more steps
"$C" daemon stop >/dev/null
"$bin/cornstarchd" -b --metrics-port="$port" || fail "the daemon does not start again"
get /metrics >page
python3 check.py "$root/tests/e2e" "$id" || fail "after a start the page says something else than the rows"

# --- what is not there, what may not be done, who may reach it
python3 - "$port" <<'PY' || fail "HTTP"
import http.client, sys
for method, path, want in (("GET", "/other", 404), ("POST", "/metrics", 501), ("HEAD", "/metrics", 200), ("GET", "/metrics?x=1", 200)):
    peer = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    peer.request(method, path)
    got = peer.getresponse()
    assert got.status == want or method == "POST" and got.status >= 400, (method, path, got.status)
    assert method != "HEAD" or got.read() == b""
PY
listening=$(awk -v port="$(printf %04X "$port")" '$4 == "0A" && $2 ~ ":" port "$" { print $2 }' /proc/net/tcp /proc/net/tcp6)
[ "$listening" = "$(printf '0100007F:%04X' "$port")" ] || fail "listens on $listening"
mkdir -m 700 other other/run
expect_rc 1 env XDG_STATE_HOME="$work/other" XDG_RUNTIME_DIR="$work/other/run" "$bin/cornstarchd" --metrics-port="$port"
expect_text "cannot listen on 127.0.0.1"
