"""Our tokenizer against the PyPI packages `tokenizers` and `sentencepiece`, on vocabularies trained here.

  python3 oracle_tokenizer.py TOOL DIR [COUNT [NAME]]     TOOL: tool_tokenize; DIR: scratch

Byte-level BPE as GPT-2, Llama 3 and Qwen have it, BPE with byte fallback as Llama 2 and Gemma, Unigram as T5 and
XLM-R, WordLevel, every normalizer, pre-tokenizer and decoder that is read, added tokens of every kind; models of
SentencePiece of both types with every setting. Ids of all texts, what they decode to, and offsets where the reference
counts them as we do. Punctuation knows no
character newer than 2015: there, texts are of characters that all tables have."""
import json
import os
import struct
import subprocess
import sys
import unicodedata

import sentencepiece

from tokenizer_makers import Makers
from tokenizer_texts import strings

TOOL, DIR = sys.argv[1], sys.argv[2]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 6000
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""


def ours(path, mode, texts):
    blob = b"".join(struct.pack("<I", len(b)) + b for b in (t if isinstance(t, bytes) else t.encode() for t in texts))
    r = subprocess.run([TOOL, path, mode], input=blob, capture_output=True)
    assert r.returncode == 0, path + ": " + r.stderr.decode()
    lines = r.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(texts), (len(lines), len(texts))
    return lines


def tokens_of(line):
    return [tuple(map(int, x.split(":"))) for x in line.split()]


def differ(name, mode, texts, got, want, same=lambda a, b: a == b):
    bad = [i for i, (a, b) in enumerate(zip(got, want)) if not same(a, b)]
    for i in bad[:4]:
        print(f"{name} {mode}: {texts[i][:150]!r}\n  ours   {got[i][:60]!r}\n  theirs {want[i][:60]!r}")
    print(f"{name} {mode}: {len(texts)} texts, {len(bad)} differ")
    return len(bad)


def offsets_differ(name, texts, lines, encodings):
    """Begin of every token in characters; the reference counts a split character from its start."""
    bad = 0
    for text, line, enc in zip(texts, lines, encodings):
        if len(text) > 2000:
            continue
        data, starts, at = text.encode(), {}, 0
        for i, c in enumerate(text):
            starts[at] = i
            at += len(c.encode())
        for got, want in zip(tokens_of(line), enc.offsets):
            at = got[1]
            while 0 < at < len(data) and data[at] & 0xc0 == 0x80:
                at -= 1
            if starts.get(at, len(text)) != want[0]:
                bad += 1
                print(f"{name} offset: {text[:100]!r} ours {got} theirs {want}") if bad < 4 else None
                break
    return bad


def decoded_alike(got, want):
    """Ours keeps bytes that are no UTF-8, theirs has a replacement for each or for a run."""
    return got == want or "\ufffd" in want


def compare(name, t, path, texts, with_offsets=False):
    t.encode_special_tokens = False
    lines = ours(path, "special", texts)
    encodings = t.encode_batch(texts, add_special_tokens=False)
    bad = differ(name, "special", texts, [[g[0] for g in tokens_of(x)] for x in lines], [e.ids for e in encodings])
    if with_offsets:
        bad += offsets_differ(name, texts, lines, encodings)
    # theirs decodes an added token that is normalized to its normalised text, not to its own
    normalized = {i for i, a in t.get_added_tokens_decoder().items() if a.normalized}
    clear = [(s, e.ids) for s, e in zip(texts, encodings) if not normalized & set(e.ids)][:2000]
    back = [bytes.fromhex(x).decode("utf-8", "replace") for x in ours(path, "decode", [s for s, _ in clear])]
    bad += differ(name, "decode", [s for s, _ in clear], back, [t.decode(i, skip_special_tokens=False) for _, i in clear], decoded_alike)
    # special tokens that are not looked for: but no model may find them in its vocabulary either, as theirs do
    t.encode_special_tokens = True
    specials = [a.content for a in t.get_added_tokens_decoder().values() if a.special] + ["<unk>"]
    plain = [s for s in texts[:3000] if not any(c in s or c in unicodedata.normalize("NFKC", s) for c in specials)]
    plain += [] if "Unigram" in name else [s for s in texts[:3000] if s not in plain]
    lines = ours(path, "plain", plain)
    return bad + differ(name, "plain", plain, [[g[0] for g in tokens_of(x)] for x in lines],
                        [e.ids for e in t.encode_batch(plain, add_special_tokens=False)])


def old_merges(path):
    """The same tokenizer with merges written as "a b"."""
    with open(path) as file:
        j = json.load(file)
    j["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    out = path.replace(".json", ".old.json")
    with open(out, "w") as file:
        json.dump(j, file, ensure_ascii=False)
    return out


LONE = [b"a\xffb", b"\xc3", b"\xe2\x82 x", b"\xed\xa0\x80", bytes(range(256)), b"\xf0\x9f\x98", b"\xc0\x80"]


def compare_sentencepiece(name, path, texts):
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    lines = ours(path, "plain", texts + LONE)
    bad = differ(name, "plain", texts + LONE, [[g[0] for g in tokens_of(x)] for x in lines], [model.encode(t) for t in texts + LONE])
    whole = [s for s in texts[:2000] if model.unk_id() not in model.encode(s) and not any(
        c in s for c in ("<unk>", "<s>", "</s>", "<|im_end|>", "<extra_0>"))]
    back = [bytes.fromhex(x).decode("utf-8", "replace") for x in ours(path, "decode", whole)]
    return bad + differ(name, "decode", whole, back, [model.decode(model.encode(s)) for s in whole])


def main():
    texts, bad, makers = strings(COUNT), 0, Makers(DIR)
    for i, (name, make, how) in enumerate(makers.hugging_face()):
        if ONLY not in name:
            continue
        t, path = make(name, **how)
        some = texts if i < 4 else texts[:1500]
        if "Punctuation" in t.to_str():
            some = [s for s in some if all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in s)]
        bad += compare(name, t, path, some, with_offsets=name in ("gpt2", "llama3", "digits", "holes", "behaviours"))
        if name == "llama3":
            bad += compare(name + "-old-merges", t, old_merges(path), some[:2000])
    for name, how in makers.sentencepiece():
        if ONLY in name:
            bad += compare_sentencepiece(name, makers.model(name, **how), texts[:1500])
    print(f"{'FAILED' if bad else 'passed'}: {bad} differences")
    return 1 if bad else 0


sys.exit(main())
