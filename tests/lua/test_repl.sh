#!/bin/bash
# Lua that is typed: chunks over several lines, errors that end nothing, help from the tables of the manual; on a
# terminal history and completion.
set -eu
bin=$(realpath "${CORNSTARCH_BIN:-build/bin}")
work=$(mktemp -d "${TMPDIR:-/tmp}/cs-repl.XXXXXX")
trap '"$bin/cornstarch-console" daemon stop >/dev/null 2>&1; rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work XDG_RUNTIME_DIR=$work CORNSTARCH_NVML=none LC_ALL=C.UTF-8
fail() { echo "FAILED: $*"; exit 1; }
typed() { # WANT-RC: standard input typed, output in $work/out
  rc=0
  "$bin/cornstarch-console" lua >"$work/out" 2>"$work/err" || rc=$?
  [ "$rc" = "$1" ] || fail "exit $rc, not $1: $(cat "$work/out" "$work/err")"
}
has() { grep -qF -- "$1" "$work/${2:-out}" || fail "no '$1' in: $(cat "$work/${2:-out}")"; }

typed 0 <<'L'
x = 20
x + 1
for i = 1, 2 do

  print("row", i)
end
while given
:
{ 1, 2, name = "three" }
cs.lab.split { costs = { 1, 2, 3 }, stages = 2 }.bottleneck
?cs.lr.cosine
help(cs.param)
help "plan:bubble"
:help cs.optim.adamv
L
has 21
has 'row	2'
has '{1, 2, name = "three"}'
has 'final_ratio'
has 'cs.param { ... } -> string|number|boolean'
has 'predicted idle share of the ranks'
has 'did you mean cs.optim.adamw?'
typed 1 <<'L'
nothing.at.all
cs.lab.splt {}
print "still here"
while true do
L
has 'still here'
has "did you mean cs.lab.split?" err
has "'end' expected" err
# what --set says is asked for by any of the lines
rc=0
printf '%s\n' 'x = 21' 'cs.param("lr", 1) * x' | "$bin/cornstarch-console" lua --set lr=2 >"$work/out" 2>"$work/err" || rc=$?
[ "$rc $(cat "$work/out")" = '0 42' ] || fail "exit $rc: $(cat "$work/out" "$work/err")"
rc=0
printf '%s\n' 'cs.param("lr", 1)' | "$bin/cornstarch-console" lua --set lt=2 >"$work/out" 2>"$work/err" || rc=$?
[ "$rc $(cat "$work/out")" = '1 1' ] || fail "exit $rc: $(cat "$work/out" "$work/err")"
has "did you mean 'lr'?" err
"$bin/cornstarch-console" lua -e 'return require"cornstarch".jobs(1)' 2>"$work/err" && fail 'a job 1 without jobs'
has 'cs.jobs' err

ldd "$bin/cornstarch-console" | grep -q libedit || { echo 'ok (no terminal: built without libedit)'; exit 0; }
python3 - "$bin/cornstarch-console" "$work" <<'P'
import os, pty, select, sys, time
def session(keys):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.argv[1], [sys.argv[1], "lua"])
    seen = b""
    def wait(mark):
        nonlocal seen
        end = time.time() + 60
        while mark not in seen:
            assert time.time() < end, (mark, seen)
            if select.select([fd], [], [], 1)[0]:
                try:
                    seen += os.read(fd, 4096)
                except OSError:
                    break
        assert mark in seen, (mark, seen)
        seen = seen[seen.index(mark) + len(mark):]
    for key, mark in keys:
        wait(mark)
        os.write(fd, key)
    end(pid, fd)

def end(pid, fd):
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
    os.close(fd)
    os.waitpid(pid, 0)

# names of a table, keys of an argument table, more lines than one
session([
    (b"cs.lab.spl\t", b"cs> "),
    (b" { costs = { 1, 5 }, sta\t", b"it"),
    (b" = 2 }.bottleneck\r", b"ges"),
    (b"if true then\r", b"5"),
    (b"print('le' .. 'ft') end\r", b">> "),
    (b":quit\r", b"left"),
])
said = open(sys.argv[2] + "/cornstarch/lua-history").read()
assert "bottleneck" in said and ":quit" in said, said
session([(b"\x10\x10\r", b"cs> "), (b":quit\r", b"cs> ")])  # what was typed last time: up twice
P
echo ok
