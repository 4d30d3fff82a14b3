"""Our tokenizer against the PyPI package `tokenizers`: ids and offsets of 10,000 strings, four tokenizers.

  python3 oracle_tokenizer.py TOOL DIR [COUNT]     TOOL: tool_tokenize; DIR: scratch

The tokenizers are trained here: GPT-2 style (ByteLevel regex, prefix space on and off), Llama-3 style (Split
regex with digit triples, ignore_merges), Qwen2 style (NFC, single digits), added tokens of every kind.
"""
import json, os, random, struct, subprocess, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TOOL, DIR = sys.argv[1], sys.argv[2]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
rng = random.Random(7)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
WORDS = ("the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we "
         "there can an your which their said if do will each about how up out them then she many some so these would other into has "
         "more her two like him see time could no make than first been its who now people my made over did down only way find use may "
         "water long little very after words called just where most know triangle circle square red blue green yellow picture shows "
         "der die das und ist nicht ein für mit auf über größer naïve café señor über Ångström привет мир как дела это "
         "世界 你好 图片 日本語 テスト 한국어 안녕 مرحبا العالم שלום עולם नमस्ते").split()
CODE = ["for (int i = 0; i < n; i++) {\n\tsum += a[i];\n}\n", "def f(x):\n    return x ** 2\n", "if err != nil {\r\n\treturn err\r\n}\r\n", "<div class=\"x\">&amp;</div>", "SELECT * FROM t WHERE a='b';", "https://example.com/a?b=c&d=%20", "x_1+=0x1F;//!!"]
ODD = ["\u180e", "\u0085", "\u2028", "\u2029", "\u00a0", "\u3000", "\x00", "\x1f", "\u200b", "\u200d", "\ufeff", "e\u0301", "a\u0308\u0304", "\u1100\u1161\u11a8", "\u212b", "\u0958", "\u09c7\u09be", "q\u0323\u0307", "\ud55c", "\u1112\u1161\u11ab", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "\U0001d400", "ſ", "'S", "'LL", "ß", "İ", "ı", "½", "²", "٣", "Ⅷ", "೬", "\u0345", "\u2126", "\u0344", "\u1e9b\u0323", "\u3099", "か\u3099"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<image>", "<|eot_id|>", "<tool_call>", "[MASK]", "<|endoftext|>", "<|end|>", "<|end|>x", "straße", "cafe\u0301"]


def piece():
    k = rng.random()
    if k < .50: return rng.choice(WORDS)
    if k < .58: return str(rng.randrange(10 ** rng.randrange(1, 12)))
    if k < .66: return rng.choice(ODD)
    if k < .72: return rng.choice(CODE)
    if k < .80: return rng.choice(SPECIAL)
    if k < .86: return "".join(rng.choice("!?.,;:'\"()[]{}<>|/\\@#$%^&*-_=+~`") for _ in range(rng.randrange(1, 6)))
    if k < .92: return rng.choice(["\n", "\r\n", "\t", "  ", "   ", "\n\n", " \n ", "\r", "\v", "\f"])
    if k < .97: return "".join(chr(c) for c in (rng.choice([rng.randrange(0x20, 0x2000), rng.randrange(0x2000, 0xd800), rng.randrange(0xe000, 0x10000), rng.randrange(0x10000, 0x20000)]) for _ in range(3)))
    return rng.choice(WORDS).upper()


def strings(n):
    fixed = ["", " ", "\n", "a" * 100000, " " * 100000, "ab" * 30000, "\n" * 5000, "é" * 20000, "e\u0301" * 20000, "<" * 20000, "1" * 10001]
    fixed += ODD + CODE + SPECIAL + [w + s + w for s in SPECIAL for w in ("a", " ", "_", "é", "\n")] + [" " + s + " " for s in SPECIAL]
    out = fixed[:]
    while len(out) < n:
        out.append("".join(piece() + rng.choice(["", " ", " ", "  ", "\n"]) for _ in range(rng.randrange(1, 25))))
    return out[:n]


def corpus(n=4000):
    for _ in range(n):
        yield " ".join(rng.choice(WORDS) if rng.random() < .9 else rng.choice(CODE + ODD[10:30]) for _ in range(20))


def train(name, pre, normalizer=None, ignore_merges=False, alphabet=True, unk=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges, unk_token=unk))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=2000, show_progress=False, special_tokens=["<s>", "</s>", "<unk>"] if unk else ["<s>", "</s>"],
                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else []))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<|im_start|>", "<|im_end|>", "<image>", "<|eot_id|>", "<|endoftext|>", "<|end|>", "<|end|>x")])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False), AddedToken("straße", single_word=True, normalized=True),
                  AddedToken("cafe\u0301", normalized=True, single_word=False), AddedToken("hello world", lstrip=True, normalized=False)])
    path = os.path.join(DIR, name + ".json")
    t.save(path)
    return t, path


def old_merges(path):
    """The same tokenizer with merges written as "a b"."""
    j = json.load(open(path))
    j["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    out = path.replace(".json", ".old.json")
    json.dump(j, open(out, "w"), ensure_ascii=False)
    return out


# Code points that the two sides' Unicode tables know differently: not comparable, counted apart.
NEWER = lambda s: any(0x10500 <= ord(c) and __import__("unicodedata").category(c) == "Cn" for c in s) or any(__import__("unicodedata").category(c) == "Cn" for c in s)


def compare(name, t, path, texts, mode):
    blob = b"".join(struct.pack("<I", len(b)) + b for b in (s.encode() for s in texts))
    r = subprocess.run([TOOL, path, mode], input=blob, capture_output=True)
    assert r.returncode == 0, r.stderr.decode()
    lines = r.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(texts), (len(lines), len(texts))
    t.encode_special_tokens = mode == "plain"
    bad = bad_offsets = skipped = 0
    for s, line, enc in zip(texts, lines, t.encode_batch(texts, add_special_tokens=False)):
        got = [tuple(map(int, x.split(":"))) for x in line.split()]
        if [g[0] for g in got] != enc.ids:
            if NEWER(s):
                skipped += 1
                continue
            bad += 1
            if bad <= 5: print(f"{name} {mode}: {s[:200]!r}\n  ours   {[g[0] for g in got][:60]}\n  theirs {enc.ids[:60]}\n  {enc.tokens[:60]}")
        elif "Qwen" not in name and "prefix" not in name and len(s) < 2000:
            # begin of every token, in characters; the reference counts a split character from its start
            starts = {}
            for i, c in enumerate(s): starts[len(s[:i].encode())] = i
            b = s.encode()
            for g, o in zip(got, enc.offsets):
                at = g[1]
                while at > 0 and at < len(b) and b[at] & 0xc0 == 0x80: at -= 1
                if starts.get(at, len(s)) != o[0]:
                    bad_offsets += 1
                    if bad_offsets <= 3: print(f"{name} {mode} offset: {s[:100]!r} ours {g} theirs {o}")
                    break
    print(f"{name} {mode}: {len(texts)} strings, {bad} differ, {bad_offsets} offsets differ, {skipped} with unassigned code points left out")
    return bad + bad_offsets + (1 if skipped > len(texts) // 100 else 0)


def main():
    B, S = pre_tokenizers.ByteLevel, pre_tokenizers.Split
    seq = lambda *a: pre_tokenizers.Sequence(list(a))
    rows = [
        ("gpt2", B(add_prefix_space=False), {}),
        ("prefix", B(add_prefix_space=True), {}),
        ("llama3", seq(S(Regex(LLAMA3), "isolated"), B(add_prefix_space=False, use_regex=False)), dict(ignore_merges=True)),
        ("Qwen2", seq(S(Regex(QWEN2), "isolated"), B(add_prefix_space=False, use_regex=False)), dict(normalizer=normalizers.NFC())),
        ("digits", seq(pre_tokenizers.Digits(individual_digits=True), B(add_prefix_space=False)), {}),
        ("holes", B(add_prefix_space=False), dict(alphabet=False, unk="<unk>")),
        ("behaviours", seq(S("e", "merged_with_previous"), S(Regex(r"\d+"), "merged_with_next"), S(Regex(r"\w+"), "contiguous", invert=True), S("#", "removed"), B(add_prefix_space=False, use_regex=False)), {}),
    ]
    texts, bad = strings(COUNT), 0
    for i, (name, pre, kw) in enumerate(rows):
        t, path = train(name, pre, **kw)
        some = texts if i < 4 else texts[:3000]
        bad += compare(name, t, path, some, "special")
        bad += compare(name, t, path, some[:5000], "plain")
        if name == "llama3": bad += compare(name + "-old-merges", t, old_merges(path), some[:2000], "special")
    print(f"{'FAILED' if bad else 'passed'}: {bad} differences")
    return 1 if bad else 0


sys.exit(main())
