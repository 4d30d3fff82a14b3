"""A program on a terminal of its own: keys are typed, what it shows is waited for.

The screen is kept as a terminal would: cursor movement, erasing and text of the sequences that ncurses
writes for TERM=xterm. Nothing waits for a time but as a limit against hangs.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@-~])|\x1b\]([^\x07]*)\x07|\x1b([()][0-9A-B]|[=>78M])")


class Terminal:
    def __init__(self, command, cols=100, rows=30, limit_s=60):
        self.cols, self.rows, self.limit_s = cols, rows, limit_s
        self.cells = [[" "] * cols for _ in range(rows)]
        self.x = self.y = self.top = 0
        self.bottom, self.saved = rows - 1, (0, 0)
        self.modes, self.told, self.rest, self.last = {}, [], "", " "
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read(self):
        """What has come; False: the program has ended."""
        if not select.select([self.fd], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.feed(self.decode(data))
        return bool(data)

    def wait(self, *texts):
        end = time.monotonic() + self.limit_s
        while not all(text in self.text() for text in texts):
            if not self.read() or time.monotonic() > end:
                raise SystemExit("waited for %s; the screen:\n%s" % (texts, self.text()))

    def try_wait(self, text):
        """False: the program has ended before it was there."""
        end = time.monotonic() + self.limit_s
        while text not in self.text():
            if not self.read():
                return False
            if time.monotonic() > end:
                raise SystemExit("waited for %s; the screen:\n%s" % (text, self.text()))
        return True

    def wait_editor(self):
        """Until the program reads key by key, not lines that the terminal echoes."""
        end = time.monotonic() + self.limit_s
        while termios.tcgetattr(self.fd)[3] & termios.ECHO:
            if not self.read() or time.monotonic() > end:
                raise SystemExit("it reads lines; the screen:\n%s" % self.text())

    def wait_work(self, seconds):
        """Until the program has computed for so long from now on."""
        def worked():
            with open("/proc/%d/stat" % self.pid) as f:
                return sum(int(v) for v in f.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")
        end, wanted = time.monotonic() + self.limit_s, worked() + seconds
        while worked() < wanted:
            if not self.read() or time.monotonic() > end:
                raise SystemExit("it does not compute; the screen:\n%s" % self.text())

    def resize(self, cols, rows):
        self.cols, self.rows = cols, rows
        self.cells = [[" "] * cols for _ in range(rows)]
        self.x = self.y = self.top = 0
        self.bottom = rows - 1
        try:
            fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        except OSError:
            pass

    def wait_mode(self, mode, is_on):
        end = time.monotonic() + self.limit_s
        while self.modes.get(mode, False) != is_on:
            if not self.read() or time.monotonic() > end:
                raise SystemExit("mode %s is not %s: %s" % (mode, is_on, self.modes))

    def wait_end(self):
        end = time.monotonic() + self.limit_s
        while self.read():
            if time.monotonic() > end:
                raise SystemExit("it does not end; the screen:\n%s" % self.text())
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def move_lines(self, first, last, n):
        """The lines from first to last go up by n, negative: down; what comes in is blank."""
        size = last - first + 1
        n = max(-size, min(n, size))
        blank = [[" "] * self.cols for _ in range(abs(n))]
        lines = self.cells[first:last + 1]
        self.cells[first:last + 1] = lines[n:] + blank if n >= 0 else blank + lines[:n]

    def last_line(self):
        return min(self.bottom, self.rows - 1)

    def down(self):
        if self.y == self.last_line():
            self.move_lines(self.top, self.y, 1)
        elif self.y < self.rows - 1:
            self.y += 1

    def escape(self, letter):
        if letter == "M" and self.y == self.top:
            self.move_lines(self.top, self.last_line(), -1)
        elif letter == "M":
            self.y = max(self.y - 1, 0)
        elif letter == "7":
            self.saved = self.x, self.y
        elif letter == "8":
            self.x, self.y = self.saved

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.down()
        elif c == "\b":
            self.x = max(self.x - 1, 0)
        elif c >= " ":
            if self.x >= self.cols:
                self.x = 0
                self.down()
            self.cells[self.y][self.x] = self.last = c
            self.x += 1

    def obey(self, private, numbers, letter):
        n = [int(v) if v else 0 for v in numbers.split(";")] if numbers else [0]
        first = n[0] or 1
        if private == "?" and letter in "hl":
            for mode in n:
                self.modes[mode] = letter == "h"
        elif letter == "H":
            self.y, self.x = first - 1, (n[1] if len(n) > 1 and n[1] else 1) - 1
        elif letter == "d":
            self.y = first - 1
        elif letter == "G":
            self.x = first - 1
        elif letter in "ABCD":
            self.x += {"C": first, "D": -first}.get(letter, 0)
            self.y += {"B": first, "A": -first}.get(letter, 0)
        elif letter == "J":
            start = 0 if n[0] == 2 else self.y
            for y in range(start, self.rows):
                self.cells[y][(self.x if y == self.y and n[0] == 0 else 0):] = [" "] * (
                    self.cols - (self.x if y == self.y and n[0] == 0 else 0))
        elif letter == "K":
            a, b = (0, self.x + 1) if n[0] == 1 else (self.x, self.cols)
            self.cells[self.y][a:b] = [" "] * (b - a)
        elif letter == "r" and not private:
            self.top, self.bottom = first - 1, (n[1] if len(n) > 1 and n[1] else self.rows) - 1
            self.x = self.y = 0
        elif letter in "LM":
            self.move_lines(self.y, self.last_line(), first if letter == "M" else -first)
        elif letter in "ST":
            self.move_lines(self.top, self.last_line(), first if letter == "S" else -first)
        elif letter == "b": # the last character again
            for _ in range(first):
                self.put(self.last)
        elif letter == "X":
            b = min(self.x + first, self.cols)
            self.cells[self.y][self.x:b] = [" "] * (b - self.x)
        elif letter == "@":
            self.cells[self.y][self.x:self.x] = [" "] * first
            del self.cells[self.y][self.cols:]
        elif letter == "P":
            del self.cells[self.y][self.x:self.x + first]
            self.cells[self.y] += [" "] * (self.cols - len(self.cells[self.y]))

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self.put(text[at])
                at += 1
                continue
            found = SEQUENCE.match(text, at)
            if not found:
                if len(text) - at < 4096:
                    self.rest = text[at:]
                    return
                at += 1
                continue
            if found.group(4) is not None:
                self.told.append(found.group(4))
            elif found.group(5):
                self.escape(found.group(5))
            elif found.group(3):
                self.obey(found.group(1), found.group(2), found.group(3))
                self.y, self.x = max(0, min(self.y, self.rows - 1)), max(0, min(self.x, self.cols))
            at = found.end()
