"""Vocabularies of packages, read, and made into a tokenizer.json as the converters of transformers do."""
import base64
import re

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers


def of_source(path, name):
    """A regular expression that a package has in its source."""
    with open(path) as file:
        text = re.search(name + r'\s*=\s*(r"""(?:.|\n)*?"""|r".*?"(?=\s|$))', file.read()).group(1)
    return text[4:-3] if text.startswith('r"""') else text[2:-1]


def read_ranks(path):
    with open(path, "rb") as file:
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file.read().splitlines() if line)}


def sentencepiece_json(path):
    """The model as transformers' converter for Llama makes it: all merges of two pieces into one, the best first."""
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    pieces = [model.id_to_piece(i) for i in range(model.vocab_size())]
    scores, vocab, merges = [model.get_score(i) for i in range(len(pieces))], {p: i for i, p in enumerate(pieces)}, []
    for i, piece in enumerate(pieces):
        parts = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        merges += [(scores[i], a, b) for a, b in sorted(parts, key=lambda x: (vocab[x[0]], vocab[x[1]]))]
    merges = [(a, b) for _, a, b in sorted(merges, key=lambda x: x[0], reverse=True)]
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(p, normalized=False, special=True) for i, p in enumerate(pieces) if model.is_control(i) or model.is_unknown(i)])
    return t


def merges_of(ranks):
    """The merges that make each token of its parts, as transformers' converter finds them."""
    out = []
    for token, rank in ranks.items():
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best, at = min((ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1))
            if best >= rank:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            out.append((rank, parts))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    kept = [b for b in range(256) if 0x21 <= b <= 0x7e or 0xa1 <= b <= 0xac or 0xae <= b]
    letter = {b: chr(b) for b in kept}
    letter.update({b: chr(0x100 + i) for i, b in enumerate(b for b in range(256) if b not in kept)})
    assert sorted(letter.values()) == alphabet
    spell = lambda token: "".join(letter[b] for b in token)  # noqa: E731
    return {spell(t): r for t, r in ranks.items()}, [tuple(map(spell, parts)) for _, parts in sorted(out, key=lambda x: x[0])]


def tiktoken_json(ranks, pattern, specials, nfc):
    vocab, merges = merges_of(ranks)
    t = Tokenizer(models.BPE(vocab, merges, ignore_merges=True))
    t.normalizer = normalizers.NFC() if nfc else None
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in specials])
    return t
