"""What consoles cost: the CPU time of one that nobody touches, and the step time of a job without a console beside
that with ten, taken in turns. On a machine where others work step times say little, CPU times do: what daemon, runner
and consoles take of a step, beside what its ranks take. Prints; asserts nothing. Each console has a terminal that is
read at once.

usage: console_idle.py [--bin DIR] [--seconds N] [--rounds N] [--one-rank]
  --one-rank  the job has one rank instead of three, so that a machine of two cores has one for consoles"""

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import tempfile
import time

from console_long import ROOT, Terminal, cpu_ms


def wait_while_read(terminals, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for fd in select.select([t.fd for t in terminals], [], [], end - time.monotonic())[0] if terminals else [time.sleep(seconds)]:
            if fd is not None:
                os.read(fd, 65536)


PLAN = "parallel = { vision = { pp = 1 }, llm = { pp = 2 } },"
ONE_RANK = 'modality = "encoder-colocated", parallel = { vision = { pp = 1 }, llm = { pp = 1 } },'


def start_job(console, steps, plan):
    run = lambda *words: subprocess.run([console, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    run("data", "make", "shapes", "build/shapes", "--train", "64", "--test", "16", "--seed", "1")
    for part, more in (("vision", ["--seed", "1"]), ("llm", ["--seed", "2", "--text", "build/shapes/text.txt", "--vocab", "320"])):
        run("model", "init", f"{ROOT}/lua/examples/shapes-{part}.json", f"build/shapes/{part}", *more)
    script = open(f"{ROOT}/lua/examples/shapes.lua").read()
    assert PLAN in script
    open("job.lua", "w").write(script.replace(PLAN, plan))
    run("submit", "job.lua", "--set", f"steps={steps}")


def last_step(console):
    text = subprocess.run([console, "show", "1", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)["job"]["step"]


def step_ms(console, first, last):
    """of the steps in between, each"""
    text = subprocess.run([console, "metrics", "1", "--columns", "step,step_ms", "--csv"], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [line.split(",") for line in text.splitlines()[1:]]
    return [float(ms) for step, ms in rows if first <= int(step) < last and ms]


def pids_of(name):
    """processes of this run, by the start of their title"""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            title = open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\0", b" ").decode()
            ours = os.environ["CORNSTARCH_STATE_DIR"].encode() in open(f"/proc/{pid}/environ", "rb").read()
        except OSError:
            continue
        if ours and os.path.basename(title.split(" ")[0]).rstrip(":") == name:
            found.append(int(pid))
    return found


class Window:
    """CPU milliseconds of a step, by program, over some seconds"""

    NAMES = ("cornstarch-worker", "cornstarchd", "cornstarch-runner")

    def __init__(self, console, terminals, seconds):
        pids = {name: pids_of(name) for name in self.NAMES}
        assert all(pids.values()), pids
        pids["consoles"] = [t.pid for t in terminals]
        self.first, before = last_step(console), self.sums(pids)
        wait_while_read(terminals, seconds)
        after, self.last = self.sums(pids), last_step(console)
        pids["terminals"] = None # this process, which reads them
        n = max(1, self.last - self.first)
        self.ms = {name: (after[name] - before[name]) / n for name in pids}

    @staticmethod
    def sums(pids):
        return {"terminals": time.process_time() * 1e3, **{name: sum(map(cpu_ms, those)) for name, those in pids.items()}}

    def __str__(self):
        return ", ".join("%s %.3f" % (name, ms) for name, ms in self.ms.items())


def open_consoles(console, n, view):
    terminals = [Terminal([console], 100, 30) for _ in range(n)]
    for terminal in terminals:
        terminal.wait_for(rb"RUN")
        terminal.press(b"\r")
        terminal.wait_for(rb"measured")
        terminal.press(view)
    return terminals


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parse.add_argument("--seconds", type=float, default=10)
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--one-rank", action="store_true")
    args = parse.parse_args()
    console = os.path.join(os.path.abspath(args.bin), "cornstarch-console")
    work = tempfile.mkdtemp(prefix="cs-bench.")
    os.chdir(work)
    for name in ("RUNTIME", "STATE"):
        os.mkdir(name, 0o700)
        os.environ[f"CORNSTARCH_{name}_DIR"] = os.path.join(work, name)
    os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", CORNSTARCH_NVML="none")
    try:
        idle = Terminal([console], 100, 30)
        idle.wait_for(rb"No jobs yet")
        before = cpu_ms(idle.pid)
        wait_while_read([idle], args.seconds)
        print("a console without jobs: %.3f %% of a core" % ((cpu_ms(idle.pid) - before) / args.seconds / 10))
        start_job(console, 1000000, ONE_RANK if args.one_rank else PLAN)
        idle.wait_for(rb"RUN")
        before = cpu_ms(idle.pid)
        wait_while_read([idle], args.seconds)
        print("its list with a job that runs: %.3f %% of a core" % ((cpu_ms(idle.pid) - before) / args.seconds / 10))
        idle.close()
        alone, beside = [], []
        for _ in range(args.rounds):
            none = Window(console, [], args.seconds)
            ten = open_consoles(console, 10, b"3")
            wait_while_read(ten, 1) # what opening takes is past
            all_ten = Window(console, ten, args.seconds)
            for terminal in ten:
                terminal.close()
            alone.append(statistics.median(step_ms(console, none.first, none.last)))
            beside.append(statistics.median(step_ms(console, all_ten.first, all_ten.last)))
            print("step time without a console %.3f ms, with ten %.3f ms" % (alone[-1], beside[-1]))
            print("CPU ms of a step: without: %s; with: %s" % (none, all_ten))
        print("medians: %.3f ms, %.3f ms; load %s" % (statistics.median(alone), statistics.median(beside), open("/proc/loadavg").read().split()[0]))
    finally:
        subprocess.run([console, "stop", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        subprocess.run([console, "wait", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        subprocess.run([console, "daemon", "stop"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        shutil.rmtree(work)


main()
