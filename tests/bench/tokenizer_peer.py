"""Our tokenizer beside `tokenizers`, `sentencepiece` and `tiktoken` on real vocabularies: the same texts, one thread each,
in turns.

    python3 tests/bench/tokenizer_peer.py BENCH PACKAGES [ROUNDS]

BENCH is build/bin/bench_input_tokenizer; PACKAGES holds the unpacked wheels of mistral-common, llama-models and dashscope
(tests/e2e/test_oracle_vocabularies.sh says how). Figures are MB of text a CPU second, the median of the rounds: texts of
words of many scripts, code and numbers, as the tests have them, 100 KB runs left out; and the same words as plain English
prose."""
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"], os.environ["RAYON_NUM_THREADS"] = "false", "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import sentencepiece  # noqa: E402
import tiktoken  # noqa: E402
from tokenizer_texts import WORDS, strings  # noqa: E402
from vocabularies import of_source, read_ranks, sentencepiece_json, tiktoken_json  # noqa: E402

BENCH, DIR = sys.argv[1], sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 7


def prose(n):
    rng = random.Random(5)
    english = [w for w in WORDS if w.isascii()]
    return [" ".join(rng.choice(english) for _ in range(60)).capitalize() + "." for _ in range(n)]


def seconds(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def ours(path, records):
    out = subprocess.run([BENCH, path, records, "1"], capture_output=True, text=True, check=True).stdout
    return float(out.split()[1])


def row(name, path, kinds, peers):
    """Rounds in turns: ours, then each peer."""
    for kind, (texts, records, n_bytes) in kinds.items():
        times = {"ours": []} | {peer: [] for peer in peers}
        for _ in range(ROUNDS):
            times["ours"].append(ours(path, records))
            for peer, encode in peers.items():
                times[peer].append(seconds(lambda: encode(texts)))
        speed = {who: n_bytes / 1e6 / statistics.median(t) for who, t in times.items()}
        print(f"{name:10} {kind:6} " + "  ".join(f"{who} {s:.1f} MB/s" for who, s in speed.items()) +
              "  " + "  ".join(f"{speed['ours'] / s:.1f}x {who}" for who, s in speed.items() if who != "ours"), flush=True)


def peers_of(path, t, native):
    t.save(path)
    return {"tokenizers": lambda texts: [t.encode(s, add_special_tokens=False) for s in texts], **native}


def main():
    with tempfile.TemporaryDirectory() as folder:
        kinds = {}
        for kind, texts in (("mixed", strings(12000, long=False)), ("prose", prose(6000))):
            records = os.path.join(folder, kind)
            with open(records, "wb") as out:
                for text in texts:
                    out.write(struct.pack("<I", len(text.encode())) + text.encode())
            kinds[kind] = (texts, records, sum(len(t.encode()) for t in texts))
        model_file = os.path.join(DIR, "mistral_common", "data", "tokenizer.model.v1")
        model, out = sentencepiece.SentencePieceProcessor(model_file=model_file), os.path.join(folder, "t.json")
        peers = peers_of(out, sentencepiece_json(model_file), {"sentencepiece": lambda texts: [model.encode(s) for s in texts]})
        row("Mistral v1", model_file, kinds, peers)
        row("  as json", out, kinds, {})
        for name, file, pattern, nfc in (
                ("Llama 3", "llama_models/llama3/tokenizer.model", of_source(os.path.join(DIR, "llama_models/llama3/tokenizer.py"), "pat_str"), False),
                ("Qwen", "dashscope/resources/qwen.tiktoken", of_source(os.path.join(DIR, "dashscope/tokenizers/qwen_tokenizer.py"), "PAT_STR"), True)):
            ranks = read_ranks(os.path.join(DIR, file))
            encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
            peers = peers_of(out, tiktoken_json(ranks, pattern, [], nfc), {"tiktoken": lambda texts: [encoding.encode_ordinary(s) for s in texts]})
            row(name, os.path.join(DIR, file), kinds, peers)
            row("  as json", out, kinds, {})


main()
