"""Texts that tokenizers are compared on: words of many scripts, code, numbers, marks, emoji, white space of every
kind, special tokens glued to words, and long runs of one thing."""
import random

WORDS = ("the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we "
         "there can an your which their said if do will each about how up out them then she many some so these would other into has "
         "more her two like him see time could no make than first been its who now people my made over did down only way find use may "
         "water long little very after words called just where most know triangle circle square red blue green yellow picture shows "
         "der die das und ist nicht ein für mit auf über größer naïve café señor über Ångström привет мир как дела это "
         "世界 你好 图片 日本語 テスト 한국어 안녕 مرحبا العالم שלום עולם नमस्ते").split()
CODE = ["for (int i = 0; i < n; i++) {\n\tsum += a[i];\n}\n", "def f(x):\n    return x ** 2\n",
        "if err != nil {\r\n\treturn err\r\n}\r\n", "<div class=\"x\">&amp;</div>", "SELECT * FROM t WHERE a='b';",
        "https://example.com/a?b=c&d=%20", "x_1+=0x1F;//!!"]
ODD = ["\u180e", "\u0085", "\u2028", "\u2029", "\u00a0", "\u3000", "\x00", "\x1f", "\u200b", "\u200d", "\ufeff",
       "e\u0301", "a\u0308\u0304", "\u1100\u1161\u11a8", "\u212b", "\u0958", "\u09c7\u09be", "q\u0323\u0307",
       "\ud55c", "\u1112\u1161\u11ab", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "\U0001d400", "ſ", "'S", "'LL", "ß", "İ", "ı",
       "½", "²", "٣", "Ⅷ", "೬", "\u0345", "\u2126", "\u0344", "\u1e9b\u0323", "\u3099", "か\u3099", "ﬁ", "①",
       "ｶﾞ", "㌀", "\u3131\u314f", "\uffa1\uffc2", "▁", "\u2581\u2581", "<0x41>", "<unk>", "…", "\ufffd", "\u0378",
       "\u0c5d", "\U00011f04", "\U0002ebf0", "Ⓐ", "\u0904\u0903", "\u0e33", "\u0eb3", "Σς", "ǅ"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<image>", "<|eot_id|>", "<tool_call>", "[MASK]",
           "<|endoftext|>", "<|end|>", "<|end|>x", "straße", "cafe\u0301", "[INST]", "<extra_0>"]
LONG = ["a" * 100000, " " * 100000, "ab" * 30000, "\n" * 5000, "é" * 20000, "e\u0301" * 20000, "<" * 20000,
        "1" * 10001, "世" * 20000, "\u0301" * 3000]


def piece(rng):
    k = rng.random()
    if k < .50:
        return rng.choice(WORDS)
    if k < .58:
        return str(rng.randrange(10 ** rng.randrange(1, 12)))
    if k < .66:
        return rng.choice(ODD)
    if k < .72:
        return rng.choice(CODE)
    if k < .80:
        return rng.choice(SPECIAL)
    if k < .86:
        return "".join(rng.choice("!?.,;:'\"()[]{}<>|/\\@#$%^&*-_=+~`") for _ in range(rng.randrange(1, 6)))
    if k < .92:
        return rng.choice(["\n", "\r\n", "\t", "  ", "   ", "\n\n", " \n ", "\r", "\v", "\f"])
    if k < .97:
        planes = [(0x20, 0x2000), (0x2000, 0xd800), (0xe000, 0x10000), (0x10000, 0x20000)]
        return "".join(chr(rng.randrange(*rng.choice(planes))) for _ in range(3))
    return rng.choice(WORDS).upper()


def strings(n, seed=7, long=True):
    """n texts: the fixed ones first."""
    rng = random.Random(seed)
    out = ["", " ", "\n"] + (LONG if long else []) + ODD + CODE + SPECIAL
    out += [w + s + w for s in SPECIAL + ODD for w in ("a", " ", "_", "é", "\n")] + [" " + s + " " for s in SPECIAL]
    while len(out) < n:
        out.append("".join(piece(rng) + rng.choice(["", " ", " ", "  ", "\n"]) for _ in range(rng.randrange(1, 25))))
    return out[:n]


def corpus(n=4000, seed=8):
    rng = random.Random(seed)
    for _ in range(n):
        yield " ".join(rng.choice(WORDS) if rng.random() < .9 else rng.choice(CODE + ODD[10:30]) for _ in range(20))
