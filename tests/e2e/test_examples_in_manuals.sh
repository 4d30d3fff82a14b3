#!/bin/sh
# What the manual pages show under EXAMPLES, and the README in its tour, works: every command is run in
# order, in an empty home, on small sample data and the shipped scripts cut to a few steps. The pages say
# what is what (in the README, blocks marked "console" are literal blocks):
#   .Dl $ COMMAND, and lines "$ COMMAND" of a literal block   run; must end with exit code 0
#   the other lines of such a block                           its output, "..." stands for anything
#   .\" file: NAME before a block                             the block is written to that file
#   .\" not run: WHY before a block                           shown only
set -eu
command -v python3 >/dev/null || exit 77
bin=$(realpath "${CORNSTARCH_BIN:-build/bin}")
source=$(realpath "${CORNSTARCH_SOURCE:-.}")
home=$(mktemp -d)
export HOME="$home" XDG_RUNTIME_DIR="$home/run" PATH="$bin:$PATH" LC_ALL=C.UTF-8
unset XDG_STATE_HOME XDG_CONFIG_HOME CORNSTARCH_STATE_DIR CORNSTARCH_RUNTIME_DIR
mkdir -m 700 "$home/run"
cd "$home"
finish() {
    cornstarch-console stop --now latest >/dev/null 2>&1 || true
    cornstarch-console daemon stop >/dev/null 2>&1 || true
    rm -rf "$home"
}
trap finish EXIT
trap 'exit 1' INT TERM

mkdir -p lua build
ln -s "$bin" build/bin
cp -r "$source/lua/examples" lua/
sed -i -E 's/^  steps = [0-9]+/  steps = 12/; s/cs.param\("steps", [0-9]+\)/12/; s/max_samples = [0-9]+/max_samples = 16/; s/every_steps = [0-9]+/every_steps = 6/' \
    lua/examples/*.lua
cornstarch-console data make shapes build/shapes --train 64 --test 16 --seed 1 >/dev/null
cornstarch-console model init lua/examples/shapes-vision.json build/shapes/vision >/dev/null
cornstarch-console model init lua/examples/shapes-llm.json build/shapes/llm --text build/shapes/text.txt --vocab 384 >/dev/null

cat >run.py <<'END'
import glob, os, re, subprocess, sys

ESCAPES = {r"\e": "\\", r"\&": "", r"\-": "-", r"\(dq": '"', r"\(aq": "'"}


def plain(line):
    return re.sub(r"\\(?:e|&|-|\(dq|\(aq)", lambda m: ESCAPES[m.group()], line)


def entries(path):
    """(kind, argument, lines) of a page's EXAMPLES: run, file, skip"""
    inside, mark, block = False, None, None
    for line in open(path, encoding="utf-8").read().split("\n"):
        if line.startswith(".Sh "):
            inside = line == ".Sh EXAMPLES"
        elif not inside:
            continue
        elif block is not None and line != ".Ed":
            block.append(plain(line))
        elif block is not None:
            kind = mark or ("run", "")
            yield kind[0], kind[1], block
            mark = block = None
        elif line.startswith('.\\" file: '):
            mark = ("file", line.split(": ", 1)[1])
        elif line.startswith('.\\" not run: '):
            mark = ("skip", line.split(": ", 1)[1])
        elif line.startswith(".Bd -literal"):
            block = []
        elif line.startswith(".Dl $ "):
            yield "run", "", [plain(line[4:])]


def readme(path):
    for block in re.findall(r"^```console\n(.*?)^```$", open(path, encoding="utf-8").read(), re.M | re.S):
        yield "run", "", block.rstrip("\n").split("\n")


def fits(want, got):
    """want: lines, "..." for anything; blanks count as one"""
    squeeze = lambda lines: " ".join(" ".join(lines).split())
    parts = [re.escape(part) for part in squeeze(want).split("...")]
    return re.fullmatch(r"\s*" + ".*".join(parts) + r"\s*", squeeze(got.split("\n")), re.S) is not None


def run(command, want):
    try:
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "did not end"
    out = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        return f"exit code {done.returncode}\n{out}{done.stderr.decode('utf-8', 'replace')}"
    if want and not fits(want, out):
        return "another output than the page shows:\n" + out
    return None


bad = 0
for path in [sys.argv[1] + "/README.md"] + sorted(glob.glob(sys.argv[1] + "/man/*.[1-8]")):
    name, n = os.path.basename(path), 0
    subprocess.run(["cornstarch-console", "daemon", "stop"], capture_output=True)
    for kind, argument, lines in (readme if path.endswith(".md") else entries)(path):
        if kind == "file":
            open(argument, "w", encoding="utf-8").write("\n".join(lines) + "\n")
        commands = []
        for line in lines if kind == "run" else []:
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif not commands:
                print(f"{name}: a block that begins without a command: {line}")
                bad += 1
                break
            else:
                commands[-1][1].append(line)
        for command, want in commands:
            problem, n = run(command, want), n + 1
            if problem:
                print(f"{name}: $ {command}\n{problem}")
                bad += 1
    print(f"{name}: {n} commands")
    if n == 0:
        print(f"{name}: no example was run")
        bad += 1
sys.exit(1 if bad else 0)
END
python3 run.py "$source"
