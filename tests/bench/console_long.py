"""A console on a job of many steps: how long until it shows something, until the charts stand, and what a key costs.
Prints milliseconds; asserts nothing. The journal is that of a short job, its rows repeated with other numbers.

usage: console_long.py [--bin DIR] [--steps N] [--size COLSxROWS]"""

import argparse
import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import tempfile
import termios
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


KEYS = [b"+", b"-", b"+", b"l", b"h", b"-"] * 10 # zoom and move: every one draws the charts anew
SAID = "jobs %.1f ms, job %.1f ms, charts %.1f ms, CPU time until then %.1f ms, of the daemon %.1f ms; a key %.1f ms, its CPU time %.2f ms"


class Terminal:
    """A console in a terminal of its own: what it writes, and when."""

    def __init__(self, command, cols, rows):
        self.text, self.began = b"", time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def wait_for(self, pattern, limit_s=60):
        """milliseconds since the start, or since the last key, until it is on the screen"""
        while not re.search(pattern, self.text):
            ready, _, _ = select.select([self.fd], [], [], limit_s)
            assert ready, f"never: {pattern}, last: {self.text[-300:]}"
            self.text += os.read(self.fd, 65536)
        return (time.monotonic() - self.began) * 1e3

    def settle(self, quiet_s=0.3):
        while select.select([self.fd], [], [], quiet_s)[0]:
            self.text += os.read(self.fd, 65536)

    def press(self, key):
        self.text, self.began = b"", time.monotonic()
        os.write(self.fd, key)

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def cpu_ms(pid):
    return sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task")) / 1e6


def make_job(console, steps):
    """a short job, then a journal of so many steps in its place"""
    run = lambda *words: subprocess.run([console, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    run("data", "make", "shapes", "build/shapes", "--train", "64", "--test", "16", "--seed", "1")
    for part, more in (("vision", ["--seed", "1"]), ("llm", ["--seed", "2", "--text", "build/shapes/text.txt", "--vocab", "320"])):
        run("model", "init", f"{ROOT}/lua/examples/shapes-{part}.json", f"build/shapes/{part}", *more)
    script = re.sub(r"(?m)^  steps = \d+", "  steps = 4", open(f"{ROOT}/lua/examples/shapes.lua").read())
    open("job.lua", "w").write(script)
    run("submit", "job.lua")
    run("wait", "latest")
    run("daemon", "stop")
    path = os.path.join(os.environ["CORNSTARCH_STATE_DIR"], "jobs/1/journal")
    lines = [json.loads(line) for line in open(path)]
    train = [row for row in lines if row["type"] == "runner.step" and row["kind"] == "train"]
    rest = [row for row in lines if row["type"] != "runner.step"]
    noise = random.Random(1)
    with open(path, "w") as out:
        for step in range(steps):
            row = dict(train[step % len(train)], step=step, loss=0.5 + 100 / (step + 50) + noise.random() * 0.1)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
        for row in rest:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")


def measure(console, daemon, cols, rows):
    daemon_before = cpu_ms(daemon)
    screen = Terminal([console], cols, rows)
    first = screen.wait_for(rb"DONE")
    screen.settle()
    screen.press(b"\r")
    opened = screen.wait_for(rb"llm")
    screen.press(b"5")
    charts = screen.wait_for(rb"(?s)loss.*gradient")
    screen.settle(1)
    all_cpu, daemon_cpu, drawn = cpu_ms(screen.pid), cpu_ms(daemon) - daemon_before, []
    for key in KEYS:
        screen.press(key)
        drawn.append(screen.wait_for(rb"."))
        screen.settle(0.15) # longer than screens are held back
    key_cpu = (cpu_ms(screen.pid) - all_cpu) / len(KEYS)
    screen.close()
    return first, opened, charts, all_cpu, daemon_cpu, statistics.median(drawn), key_cpu


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parse.add_argument("--steps", type=int, default=100000)
    parse.add_argument("--size", default="200x60")
    args = parse.parse_args()
    console = os.path.join(os.path.abspath(args.bin), "cornstarch-console")
    cols, rows = map(int, args.size.split("x"))
    work = tempfile.mkdtemp(prefix="cs-bench.")
    os.chdir(work)
    for name in ("RUNTIME", "STATE"):
        os.mkdir(name, 0o700)
        os.environ[f"CORNSTARCH_{name}_DIR"] = os.path.join(work, name)
    os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", CORNSTARCH_NVML="none")
    try:
        make_job(console, args.steps)
        began = time.monotonic()
        subprocess.run([os.path.join(os.path.dirname(console), "cornstarchd"), "--rebuild", f"--state-dir={work}/STATE", f"--runtime-dir={work}/RUNTIME"], check=True)
        print(f"{args.steps} steps, {args.size}: history made again in {time.monotonic() - began:.2f} s")
        subprocess.run([console, "daemon", "start"], check=True, stdout=subprocess.PIPE)
        status = subprocess.run([console, "daemon", "status", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        daemon = int(next(filter(None, re.search(r"process (\d+)|\"pid\": (\d+)", status).groups())))
        for _ in range(3):
            print(SAID % measure(console, daemon, cols, rows))
    finally:
        subprocess.run([console, "daemon", "stop"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
