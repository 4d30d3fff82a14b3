"""The console on a real terminal: palette, pasted text, keys of the user's own, mouse, clipboard."""
import os
import sys
import time

from terminal import Terminal

console = sys.argv[1]
config = os.path.join(os.environ["XDG_CONFIG_HOME"], "cornstarch", "console.conf")
os.makedirs(os.path.dirname(config), exist_ok=True)
with open(config, "w") as out:
    out.write("key.F5 = 6\ntheme = pink\nkey.z = : l o g s Enter\n")

t = Terminal([console])
t.wait("[1 Jobs]", "console.conf:2: there is no theme")
t.wait_mode(2004, True)

t.type("Z")
t.wait("Z does nothing here")
t.type("\x1b[200~qX\ry\n\x1b[201~")
t.wait("pasted bytes are not taken as keys", "[1 Jobs]")

t.type("\x1b[200~ab")  # the mark at its end comes torn apart, as a signal does it: it still ends
for byte in "\x1b[201~":
    t.type(byte)
    time.sleep(0.2)
t.wait("2 pasted bytes are not taken as keys")

t.type(":me")
t.wait(":me", "metrics", "Tab completes", "same as: cornstarch-console metrics ID")
t.type("\x1b[200~trics\x1b[201~\r")  # into the line it goes
t.wait("[5 Metrics]")

t.type("\x1b[15~")
t.wait("[6 GPUs]")
t.type("z")
t.wait("[7 Logs]")

t.type("8")
t.wait("[8 Lua]", "cs>")
t.type("for i = 1, 2 do\rprint('row', i * 21)\rend\r")
t.wait("row     42")
t.type("cs.lab.spl\t")
t.wait("cs> cs.lab.split")
t.type("\x15\x1b[200~x = 20\rx + 1\r\x1b[201~")  # pasted lines run one by one
t.wait("cs> x + 1", " 21")
t.type("while true do local s = ('x'):rep(1000000) end\r")
t.wait("\n ...\n")
t.type("\x03")
t.wait("lua:1: stopped")
LARGE = """m = cs.mllm { llm = cs.config { model_type = 'llama', hidden_size = 8192, intermediate_size = 28672,
  num_hidden_layers = 80, num_attention_heads = 64, num_key_value_heads = 8, vocab_size = 128256 } }
print("goes"); cs.search { model = m, cluster = cs.cluster { device = 'h100-80g', nodes = 512, devices_per_node = 8 },
  seq_tokens = 8192, batch_slots = 4096, simulate = 1000 }
""".replace("\n", "\r")  # minutes in C
t.type(LARGE)
t.wait("simulate = 1000 }", "\n goes\n", "\n ...\n")
t.wait_work(0.5)  # it is in C by now
t.type("\x03")
t.wait("cs.search: stopped")
t.type("#cs.jobs()\r")
t.wait("cs> #cs.jobs()", "\n 0\n")
t.type("\x1b")
t.wait("i types again")
t.type("7")
t.wait("[7 Logs]")

t.type(":!version\r")
t.wait("cornstarch-console 0", "[code 0; Enter goes back]")
t.type("\r")
t.wait("[7 Logs]")
t.type(":!jobs ; touch /$(id)\r")  # words are words, not the shell's
t.wait("[code 1; Enter goes back]")
t.type("\r")
t.wait("[7 Logs]")

t.type(":mouse on\r")
t.wait_mode(1000, True)
click = "\x1b[<0;5;2M" if t.modes.get(1006) else "\x1b[M" + chr(32) + chr(32 + 5) + chr(32 + 2)
t.type(click)  # on the first tab
t.wait("[1 Jobs]")
t.type(":mouse off\r")
t.wait_mode(1000, False)

t.type("y")
t.wait("there is no row to copy here")
t.type("q")
code = t.wait_end()
if code != 0:
    raise SystemExit("it ended with %d" % code)
t.wait_mode(2004, False) if t.modes.get(2004) else None

# from a search to a job: its plans are listed, one is looked at, one is run
t = Terminal([console, "plan", "--view", "--set", "steps=3", "a search.lua"])
t.wait("[Found]", "RUNS", "SCHEDULE", "vision pp1  llm pp1")
t.type("R")
t.wait("run plan")
t.type("n")
t.wait("nothing was done")
t.type("j\r")
t.wait("*   2", "a search  NOT RUN")  # the job keeps its name
t.type("R")
t.wait("run plan 2 as a job?")
t.type("y")
t.wait("job 1 is submitted", "[code 0; Enter goes back]")
t.type("\r")
t.wait("[9 Plan]", "*   2")
t.type("q")
if t.wait_end() != 0:
    raise SystemExit("the view of a search did not end well")

# C-c at the prompt of the shell: what runs ends, what is typed is given up, the prompt stays
prompt = Terminal([console, "lua"], 160, 30, 60)
prompt.wait("cs>")
for line in LARGE.split("\r")[:-1]:
    prompt.type(line + "\r")
    prompt.wait(line[-20:])
prompt.wait("\ngoes\n")
prompt.wait_work(0.5)
prompt.type("\x03")
prompt.wait("cs.search: stopped\ncs>")
prompt.wait_editor()
prompt.type("for i = 1, 2 do\r")
prompt.wait("cs> for i = 1, 2 do\n>>")
prompt.wait_editor()
prompt.type("print(i)")
prompt.wait(">> print(i)")
prompt.type("\x03")
prompt.wait(">> print(i)\ncs>")
prompt.type("6 * (\r")
prompt.wait("cs> 6 * (\n>>")
prompt.type("7)\r")
prompt.wait("\n42")
prompt.type("\x04")
if prompt.wait_end() != 0:
    raise SystemExit("the prompt ended badly: %s" % prompt.text())
print("ok")
