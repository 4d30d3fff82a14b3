#!/usr/bin/env python3
"""Write tokenizers.json: small vocabularies of every kind that is read, and what the PyPI packages `tokenizers` and
`sentencepiece` make of some texts.

    python3 tests/golden/make_tokenizers.py > tests/golden/tokenizers.json

A case has the name of a file and its content (base64 where it is no JSON), `ids` of every text (special tokens found;
of SentencePiece's models: not looked for, and the oracle is the model itself) and `decoded`, what those ids become, null
where theirs is not comparable. `tiktoken` are made-up ranks, which PyPI's `tiktoken` reads."""
import base64
import json
import os
import sys
import tempfile

import sentencepiece
import tiktoken

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from tokenizer_makers import LLAMA3, Makers  # noqa: E402
from tokenizer_texts import ODD, SPECIAL, strings  # noqa: E402

RULES = [("ﬁ", "fi"), ("①", "1"), ("e\u0301", "é"), ("\t", " "), ("\n", " "), ("\u200b", ""), ("\u3000", " "), ("Å", "å"),
         ("ｶﾞ", "ガ"), ("ｶ", "カ"), ("\x1f", ""), ("½", "1/2")] + [(chr(c), chr(c + 32)) for c in range(65, 91)]
# StripAccents and Punctuation of the oracle know no characters of Unicode 9 and newer
TEXTS = [""] + ["a".join(ODD[i:i + 6]) for i in range(0, len(ODD), 6)] + ["x".join(SPECIAL), " ".join(SPECIAL)]
TEXTS += [s for s in strings(400, seed=3, long=False)[-200:] if all(ord(c) < 0x3000 for c in s)][:12]
TEXTS += ["世界 你好 图片を見る  日本語テスト 한국어 안녕", "ab" * 40, " " * 9 + "x" + " " * 5, "\r\n\r\n\tif\r\n", "hello hello world hello"]
TEXTS = [t.replace("\u180e", "").replace("\U00011f04", "") for t in TEXTS]


def hex_of(text):
    return text.encode().hex()


def hugging_face(makers):
    for name, make, how in makers.hugging_face():
        t, path = make(name, **how)
        ids = [t.encode(s, add_special_tokens=False).ids for s in TEXTS]
        normalized = {i for i, a in t.get_added_tokens_decoder().items() if a.normalized}
        decoded = [t.decode(i, skip_special_tokens=False) for i in ids]
        decoded = [None if "\ufffd" in d or normalized & set(i) else hex_of(d) for d, i in zip(decoded, ids)]
        with open(path) as file:
            content = json.load(file)
        yield {"name": name, "file": "tokenizer.json", "json": content, "ids": ids, "decoded": decoded}


def sentencepieces(makers):
    for name, how in makers.sentencepiece():
        if makers.rules and how.get("normalization_rule_name") != "identity":
            how = {k: v for k, v in how.items() if k != "normalization_rule_name"} | {"normalization_rule_tsv": makers.rules}
        path = makers.model(name, **how)
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        ids = [model.encode(s) for s in TEXTS]
        decoded = [None if model.unk_id() in i else hex_of(model.decode(i)) for i in ids]
        with open(path, "rb") as file:
            content = base64.b64encode(file.read()).decode()
        yield {"name": name, "file": "tokenizer.model", "base64": content, "ids": ids, "decoded": decoded}


def tekken():
    """Bytes, some words, and 24 special tokens of which four are listed."""
    words = ["th", "the", " th", " the", "in", "an", "er", "on", "世", "\n\n", "  ", "    ", "<s", "re", " re", "qu", " c"]
    ranks = {bytes([b]): b for b in range(256)} | {w.encode(): 256 + i for i, w in enumerate(words)}
    model = tiktoken.Encoding("tekken", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    special = ["<unk>", "<s>", "</s>", "[INST]"]
    document = {"config": {"pattern": LLAMA3, "num_vocab_tokens": len(ranks) + 1, "default_vocab_size": len(ranks) + 24,
                           "default_num_special_tokens": 24, "version": "v7"},
                "vocab": [{"rank": r, "token_bytes": base64.b64encode(b).decode(), "token_str": None} for b, r in ranks.items()]
                + [{"rank": len(ranks), "token_bytes": base64.b64encode(b"beyond").decode(), "token_str": "beyond"}],
                "special_tokens": [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(special)]}
    ids = [[24 + i for i in model.encode_ordinary(s)] for s in TEXTS]
    return {"name": "tekken", "file": "tekken.json", "json": document, "ids": ids, "decoded": [hex_of(s) for s in TEXTS]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules.tsv")
        with open(rules, "w") as out:
            for a, b in RULES:
                out.write("%s\t%s\n" % (" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b)))
        makers = Makers(folder, size=360, lines=300, letters=70, rules=rules, vocab_size=620, character_coverage=0.98)
        cases = [*hugging_face(makers), *sentencepieces(makers), tekken()]
    print('{"texts": %s,\n"cases": [\n%s\n]}' % (json.dumps([hex_of(t) for t in TEXTS]),
                                                 ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)))


main()
