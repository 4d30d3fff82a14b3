#!/bin/bash
# A run as one page: nothing in it is loaded or runs, what people wrote stays text, figures are those of the rows, and
# headless Chromium, where it is installed, draws it without a word in its log.
. "$(dirname "$0")/../support/e2e.sh"
make_data 64
"$bin/cornstarchd" -b --cpu-devices=4 || fail "the daemon does not start"
write_job job.lua vision=1 llm=2 steps=12 slots=4 batch=8 name='[[a <b onclick="x">"name"</b> & more]]' \
  eval='{ data = cs.data.llava { json = "data/test.json", images = "data/images" }, every_steps = 4, max_samples = 8 }'
id=$(done_job job.lua)
expect_rc 1 "$C" report "$id"
expect_text "--html FILE"
"$C" report "$id" --html page.html >said || fail "$(cat said)"
"$C" report "$id" --html page.html >said || fail "a page is not replaced: $(cat said)"
"$C" metrics "$id" --lines >rows
"$C" show "$id" --json >show.json
cat >check.py <<'PY'
import html.parser, json, math, re, sys

VOID = {"meta", "br", "hr", "img"}

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text, self.ids, self.titles = [], [], [], [], []
        self.cells = {}
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "object", "embed", "img", "b onclick"), tag
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "href"), (tag, name)
            assert "url(" not in (value or "") and "://" not in (value or ""), (tag, name, value)
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if "id" in attrs:
            self.ids.append(attrs["id"])
            self.cells[attrs["id"]] = []
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr" and self.ids:
            self.cells[self.ids[-1]].append([])
    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"
    def handle_data(self, text):
        self.text.append(text)
        if self.open and self.open[-1] == "title":
            self.titles.append(text)
        if self.open and self.open[-1] in ("td", "th") and self.ids:
            self.cells[self.ids[-1]][-1].append(text)

source = open("page.html").read()
page = Page()
page.feed(source)
assert page.open == [], page.open
assert "url(" not in source and "@import" not in source and "<b onclick" not in source
assert 'a <b onclick="x">"name"</b> & more' in "".join(page.text)
assert page.ids == ["charts", "evaluation", "timeline", "plan", "memory", "environment", "specification"] or \
    page.ids == ["warnings", "charts", "evaluation", "timeline", "plan", "memory", "environment", "specification"], page.ids

rows = [json.loads(line) for line in open("rows")]
evals = [r for r in rows if r["kind"] == "eval"]
told = [row for row in page.cells["evaluation"] if row and row[0].isdigit()]
assert [int(t[0]) for t in told] == [r["step"] for r in evals]
for cells, row in zip(told, evals):
    assert math.isclose(float(cells[1]), row["loss"], rel_tol=2e-3) and abs(float(cells[2]) - row["exact_match"]) < 1e-4
points = [re.fullmatch(r"step (\d+): (\S+)", t) for t in page.titles]
losses = {int(m[1]): float(m[2]) for m in points if m}
assert all(any(math.isclose(losses[r["step"]], r[k], rel_tol=1e-5, abs_tol=1e-9) for k in ("loss", "exact_match")) for r in evals)

# the curve of the loss goes through the rows: heights in the picture are a straight line of the values
charts = source.split('data-metric="loss"')[1].split("</svg>")[0]
path = re.search(r'<path class="line s0" d="([^"]*)"', charts)[1].replace("h.1", "")
drawn = [tuple(map(float, p.split())) for p in re.split("[ML]", path) if p]
train = [r["loss"] for r in rows if r["kind"] == "train"]
assert len(drawn) == len(train) == 12
scale = (drawn[-1][1] - drawn[0][1]) / (train[-1] - train[0])
assert scale < 0, "greater is not higher"
for (_, y), loss in zip(drawn, train):
    assert abs(drawn[0][1] + scale * (loss - train[0]) - y) < 0.2, (y, loss)
assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)

# two timelines, predicted above measured, with every forward and backward of the step
timeline = source.split('id="timeline"')[1].split("</section>")[0]
pictures = timeline.split("<svg")[1:]
assert len(pictures) == 2 and timeline.index("predicted") < timeline.index("measured")
slots = json.load(open("show.json"))["plan"]["slots"]
for picture in pictures:
    forward = re.findall(r'<rect class="F"[^>]*><title>(\S+) \S, slot (\d+)', picture)
    assert sorted(set(forward)) == sorted(forward) and len(forward) == 3 * slots, (len(forward), slots)
assert len([r for r in page.cells["memory"] if len(r) == 8 and r[0].isdigit()]) == 3
PY
python3 check.py || fail "the page"

# --- a job that has not begun has no figures, and still a page
write_job long.lua vision=1 llm=2 steps=1000000
write_job waits.lua vision=1 llm=2 steps=5
long=$(submit long.lua)
waits=$(submit waits.lua)
"$C" report "$waits" --html waits.html >said || fail "$(cat said)"
grep -q '<p>QUEUED' waits.html || fail "its state is missing"
! grep -q 'id="charts"' waits.html || fail "charts of nothing"
wait_step "$long" 3
"$C" report "$long" --html long.html >said || fail "of a job that runs: $(cat said)"
grep -q 'id="charts"' long.html || fail "no charts of a job that runs"
for job in "$waits" "$long"; do "$C" stop "$job" >said || fail "$(cat said)"; done
"$C" wait "$long" >said || true

# --- drawn: the colours of forward, backward and of lines are there, and nothing was amiss
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "no Chromium: not drawn"; exit 0; }
timeout "$LIMIT_S" "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
  --user-data-dir="$work/browser" --force-device-scale-factor=0.5 --window-size=1200,3600 \
  --screenshot="$work/page.png" "file://$work/page.html" >browser.log 2>&1 || { echo "Chromium does not start here: not drawn"; exit 0; }
! grep -E 'CONSOLE|Refused|violates' browser.log || fail "the browser complains"
cat >pixels.py <<'PY'
import collections, struct, zlib
data, at, packed = open("page.png", "rb").read(), 8, b""
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at : at + 8])
    body = data[at + 8 : at + 8 + size]
    if kind == b"IHDR":
        width, height, depth, colour = struct.unpack(">IIBB", body[:10])
    packed += body if kind == b"IDAT" else b""
    at += 12 + size
assert depth == 8 and colour in (2, 6)
n = 3 if colour == 2 else 4
raw, line, before = zlib.decompress(packed), 1 + n * width, bytes(n * width)
seen = collections.Counter()
for y in range(height):
    how, row = raw[y * line], bytearray(raw[y * line + 1 : (y + 1) * line])
    for i in range(len(row)) if how else ():
        a, b, c = row[i - n] if i >= n else 0, before[i], before[i - n] if i >= n else 0
        if how == 4:
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        row[i] = (row[i] + (0, a, b, (a + b) // 2, near if how == 4 else 0)[how]) & 255
    seen.update(zip(row[0::n], row[1::n], row[2::n]))
    before = row
assert seen[255, 255, 255] > width * height / 2, "the page is not light"
for name, colour in (("forward", (0x00, 0x72, 0xB2)), ("backward", (0xD9, 0x82, 0x00))):
    assert seen[colour] > 200, f"no {name} on the screen: {seen[colour]}"
PY
python3 pixels.py || fail "the picture"
echo "drawn by Chromium, too"
