"""A console in a real terminal, and keys and sizes that chance chooses: it never crashes, and Esc always leads
back to the list of jobs. Meanwhile jobs run, the daemon is killed and comes back.

usage: console_walk.py CONSOLE SEED KEYS"""
import os
import random
import signal
import subprocess
import sys

from terminal import Terminal

console, seed, n_keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
SPECIAL = ["\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~", "\t", "\x1b[Z", "\r", "\x1b", "\x7f",
           "\x1b[3~", "\x1bOP", "\x03", "\x04", "\x15", "\x0c", "\x1b[200~1 + 1\r2\x1b[201~"]
PRINTED = [chr(c) for c in range(32, 127) if chr(c) != "!"] # behind ":" it would run programs
SIZES = [(80, 24), (100, 30), (200, 60), (61, 15), (40, 10), (1, 1)]


def open_console():
    terminal = Terminal([console], 100, 30, 60)
    terminal.wait("[1 Jobs]")
    return terminal


def back_to_jobs(terminal):
    """False: it was left, as q and some words of the palette do. A stopped one is continued."""
    terminal.resize(100, 30)
    for _ in range(8):
        try:
            terminal.type("\x1b")
        except OSError:
            return False
        for _ in range(2): # a lone Escape is one after a moment
            if not terminal.read():
                return False
    state = open("/proc/%d/stat" % terminal.pid).read().rsplit(")", 1)[1].split()[0]
    if state == "T":
        os.kill(terminal.pid, signal.SIGCONT)
    terminal.type("\x0c") # drawn anew: what is kept here need not know every sequence
    try:
        return terminal.try_wait("[1 Jobs]")
    except SystemExit as why:
        raise SystemExit("%s\nafter %d keys of seed %d; the last: %r; it waits in %s" % (
            why, pressed, seed, recent[-60:], open("/proc/%d/wchan" % terminal.pid).read()))


recent = []
terminal, pressed, opened = open_console(), 0, 1
while pressed < n_keys:
    for _ in range(40):
        recent.append(chance.choice(SPECIAL) if chance.random() < 0.3 else chance.choice(PRINTED))
        try:
            terminal.type(recent[-1])
        except OSError:
            break
        pressed += 1
        if chance.random() < 0.1:
            recent.append(chance.choice(SIZES))
            terminal.resize(*recent[-1])
        if chance.random() < 0.3 and not terminal.read():
            break
    if not back_to_jobs(terminal):
        code = terminal.wait_end()
        if code not in (0, -signal.SIGINT): # C-c that came when it had left already
            raise SystemExit("after %d keys of seed %d it ended with %d: %s" % (pressed, seed, code, terminal.text()))
        terminal, opened = open_console(), opened + 1
    if chance.random() < 0.1:
        pid = subprocess.run([console, "daemon", "status", "--json"], stdout=subprocess.PIPE, text=True).stdout
        if '"pid": ' in pid:
            os.kill(int(pid.split('"pid": ')[1].split(",")[0].split("\n")[0]), signal.SIGKILL)
terminal.type("q")
code = terminal.wait_end()
if code != 0:
    raise SystemExit("it ended with %d" % code)
print("ok: %d keys, opened %d times" % (pressed, opened))
