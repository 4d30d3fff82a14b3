"""Our feeder beside torch's DataLoader with the processors of transformers: the same samples, in turns, on as many threads
as it has worker processes.

    python3 tests/bench/feeder_peer.py BUILD [ROUNDS [WORKERS]]

BUILD is a build directory; WORKERS is 1,2 by default. Data is made for the run, each sample a turn of a question and an answer:
  shapes  pictures of coloured shapes, 96 x 96 PNG (`data make shapes`)
  photos  JPEG of 1024 x 768, quality 90, soft gradients with noise
  chat    text alone, eight turns of 40 words
SigLIP of 384 pixels, resized bicubically. A sample of the peer is read, decoded, resized, normalised, rendered and tokenized, and
collated 32 at a time; ours is put into slots with pixels of 8 bits, which ranks normalise. Figures are samples a second and
CPU time of a sample (of the workers; ours: of all threads), medians of the rounds. Needs torch, transformers and Pillow; with torchvision its resize is measured too."""
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast, SiglipImageProcessor
try:
    from transformers import SiglipImageProcessorPil
except ImportError:  # there is one of both
    SiglipImageProcessorPil = SiglipImageProcessor

BUILD = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
WORKERS = [int(n) for n in (sys.argv[3] if len(sys.argv) > 3 else "1,2").split(",")]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH, SIDE = 32, 384
CHATML = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}")
try:
    import torchvision  # noqa: F401
    HAS_TORCHVISION = True
except ImportError:
    HAS_TORCHVISION = False


def words(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


WORDS = [w for w in re.findall(r"[A-Za-z]+", open(os.path.join(ROOT, "README.md")).read()) if len(w) > 1]


def photo(rng, path):
    y, x = numpy.mgrid[0:768, 0:1024]
    base = numpy.stack([127 + 100 * numpy.sin(x / rng.uniform(40, 300) + y / rng.uniform(40, 300)) for _ in range(3)], 2)
    noise = numpy.random.default_rng(rng.randrange(1 << 30)).normal(0, 12, (768, 1024, 1))
    Image.fromarray(numpy.clip(base + noise, 0, 255).astype("uint8")).save(path, quality=90)


def make_photos(folder, n):
    rng, rows = random.Random(1), []
    os.makedirs(os.path.join(folder, "photos"))
    for i in range(n):
        photo(rng, os.path.join(folder, "photos", f"{i}.jpg"))
        rows.append({"id": str(i), "image": f"{i}.jpg", "conversations": [
            {"from": "human", "value": "<image>\n" + words(rng, 12) + "?"}, {"from": "gpt", "value": words(rng, 30) + "."}]})
    json.dump(rows, open(os.path.join(folder, "photos.json"), "w"))


def make_chat(folder, n):
    rng, rows = random.Random(2), []
    for i in range(n):
        turns = [{"from": who, "value": words(rng, 40)} for _ in range(4) for who in ("human", "gpt")]
        rows.append({"id": str(i), "conversations": turns})
    json.dump(rows, open(os.path.join(folder, "chat.json"), "w"))


def make_all(folder):
    console = os.path.join(BUILD, "bin", "cornstarch-console")
    run = lambda *a: subprocess.run([console, *a], check=True, stdout=subprocess.DEVNULL)  # noqa: E731
    run("data", "make", "shapes", os.path.join(folder, "shapes"), "--train", "1024", "--test", "2")
    make_photos(folder, 96)
    make_chat(folder, 2048)
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as out:
        out.write(open(os.path.join(folder, "shapes", "text.txt")).read())
        out.writelines(words(random.Random(3), 2000) for _ in range(20))
    run("model", "init", os.path.join(ROOT, "lua", "examples", "shapes-llm.json"), os.path.join(folder, "llm"), "--text", text,
        "--vocab", "2000")
    shapes = os.path.join(folder, "shapes")
    return {"shapes": (os.path.join(shapes, "train.json"), os.path.join(shapes, "images"), 1024),
            "photos": (os.path.join(folder, "photos.json"), os.path.join(folder, "photos"), 96),
            "chat": (os.path.join(folder, "chat.json"), "-", 2048)}


class Samples(torch.utils.data.Dataset):
    def __init__(self, rows, images, tokenizer, processor):
        self.rows, self.images, self.tokenizer, self.processor = rows, images, tokenizer, processor

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        roles = {"human": "user", "gpt": "assistant"}
        text = self.tokenizer.apply_chat_template([{"role": roles[t["from"]], "content": t["value"]} for t in row["conversations"]],
                                                  tokenize=False)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        pixels = None
        if self.processor is not None:
            with Image.open(os.path.join(self.images, row["image"])) as image:
                pixels = self.processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
        return ids, pixels


def collate(batch):
    return [ids for ids, _ in batch], torch.stack([p for _, p in batch]) if batch[0][1] is not None else None


def one_thread(_):
    torch.set_num_threads(1)


def theirs(samples, workers):
    """Samples a second from the first batch on, so that the start of processes does not count; CPU ms a sample of the workers."""
    before = children_s()
    loader = torch.utils.data.DataLoader(samples, batch_size=BATCH, num_workers=workers, collate_fn=collate, worker_init_fn=one_thread,
                                         shuffle=True)
    it = iter(loader)
    next(it)
    begin, n = time.perf_counter(), 0
    for ids, _ in it:
        n += len(ids)
    rate = n / (time.perf_counter() - begin)
    del it  # waits for the workers
    return rate, 1e3 * (children_s() - before) / len(samples)


def children_s():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def ours(json_file, images, llm, workers, n):
    out = subprocess.run([os.path.join(BUILD, "bin", "bench_feeder_rate"), json_file, images, llm, str(workers), str(n), str(SIDE)],
                         capture_output=True, text=True, check=True).stdout
    rate, cpu_us = re.search(r"threads: +(\S+) samples/s, (\d+) us of CPU", out).groups()
    return (float(rate), float(cpu_us) / 1e3), out


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        kinds = make_all(folder)
        llm = os.path.join(folder, "llm")
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(llm, "tokenizer.json"), chat_template=CHATML)
        processors = {"Pillow": SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE})}
        if HAS_TORCHVISION:
            processors["torchvision"] = SiglipImageProcessor(size={"height": SIDE, "width": SIDE})
        for kind, (json_file, images, n) in kinds.items():
            rows = json.load(open(json_file))
            peers = {name: Samples(rows, images, tokenizer, p) for name, p in processors.items()} if images != "-" else \
                {"DataLoader": Samples(rows, images, tokenizer, None)}
            print(kind, ours(json_file, images, llm, 1, n)[1], sep="\n", end="", flush=True)
            for workers in WORKERS:
                rates = {"ours": []} | {name: [] for name in peers}
                for _ in range(ROUNDS):
                    rates["ours"].append(ours(json_file, images, llm, workers, n)[0])
                    for name, samples in peers.items():
                        rates[name].append(theirs(samples, workers))
                rate = {who: statistics.median(r for r, _ in all) for who, all in rates.items()}
                cpu = {who: statistics.median(c for _, c in all) for who, all in rates.items()}
                print(f"{kind:7} {workers} threads  " +
                      "  ".join(f"{who} {rate[who]:.1f} samples/s, {cpu[who]:.2f} ms of CPU each" for who in rates) + "  " +
                      "  ".join(f"{rate['ours'] / rate[who]:.2f}x, of CPU {cpu[who] / cpu['ours']:.2f}x {who}"
                                for who in rates if who != "ours"), flush=True)


if __name__ == "__main__":
    main()
