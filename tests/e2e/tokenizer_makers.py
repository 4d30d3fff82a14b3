"""Vocabularies of every kind that is read, trained on texts of tokenizer_texts: for tests that compare."""
import json
import os

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tokenizer_texts import corpus

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MARK = "▁"


class Makers:
    """directory: where files go; size: of the largest vocabulary; rules: a file of rules for all maps of characters;
    pieces: settings of SentencePiece's trainer."""

    def __init__(self, directory, size=2000, lines=4000, letters=120, rules=None, **pieces):
        self.dir, self.size, self.lines, self.letters, self.rules = directory, size, lines, letters, rules
        self.pieces = {"vocab_size": size * 3 // 5, **pieces}

    def finish(self, name, t):
        t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in
                              ("<|im_start|>", "<|im_end|>", "<image>", "<|eot_id|>", "<|endoftext|>", "<|end|>", "<|end|>x")])
        t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False),
                      AddedToken("straße", single_word=True, normalized=True), AddedToken("cafe\u0301", normalized=True),
                      AddedToken("hello world", lstrip=True, normalized=False)])
        path = os.path.join(self.dir, name + ".json")
        t.save(path)
        return path

    def byte_level(self, name, pre, normalizer=None, ignore_merges=False, alphabet=True, unk=None):
        t = Tokenizer(models.BPE(ignore_merges=ignore_merges, unk_token=unk))
        t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoders.ByteLevel()
        special = ["<s>", "</s>"] + (["<unk>"] if unk else [])
        t.train_from_iterator(corpus(self.lines), trainers.BpeTrainer(
            vocab_size=self.size, show_progress=False, special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else []))
        return t, self.finish(name, t)

    def with_bytes(self, name, normalizer=None, pre=None, decoder=None, fuse=True, fallback=256, prefix=None, suffix=None):
        """BPE of characters; the tokens for bytes come after the trained ones. Without a pre-tokenizer all is one word, which
        is too much to train: words are split for that."""
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse))
        t.normalizer, t.pre_tokenizer = normalizer, pre or pre_tokenizers.Split(MARK, "merged_with_next")
        t.train_from_iterator(corpus(self.lines // 4), trainers.BpeTrainer(
            vocab_size=self.size * 3 // 4, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=self.letters,
            **({"continuing_subword_prefix": prefix} if prefix else {}), **({"end_of_word_suffix": suffix} if suffix else {})))
        j = json.loads(t.to_str())
        for b in range(fallback):
            j["model"]["vocab"]["<0x%02X>" % b] = len(j["model"]["vocab"])
        for added in j["added_tokens"]:
            added["normalized"] = False
        j["model"]["byte_fallback"] = fallback > 0
        t = Tokenizer.from_str(json.dumps(j))
        t.pre_tokenizer, t.decoder = pre, decoder
        return t, self.finish(name, t)

    def unigram(self, name, normalizer, pre, decoder=None, fallback=False):
        t = Tokenizer(models.Unigram())
        t.normalizer, t.pre_tokenizer = normalizer, pre
        t.train_from_iterator(corpus(self.lines // 3), trainers.UnigramTrainer(
            vocab_size=self.size * 3 // 4, show_progress=False, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]))
        if fallback:
            j = json.loads(t.to_str())
            j["model"]["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
            j["model"]["byte_fallback"] = True
            t = Tokenizer.from_str(json.dumps(j))
        if decoder is not None:
            t.decoder = decoder
        return t, self.finish(name, t)

    def words(self, name, normalizer, pre):
        t = Tokenizer(models.WordLevel(unk_token="<unk>"))
        t.normalizer, t.pre_tokenizer = normalizer, pre
        t.train_from_iterator(corpus(self.lines), trainers.WordLevelTrainer(
            vocab_size=self.size // 5, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"]))
        return t, self.finish(name, t)

    def model(self, name, **how):
        """A trained model as a file; vocabulary and settings by name."""
        prefix = os.path.join(self.dir, name)
        with open(prefix + ".txt", "w") as out:
            out.write("\n".join(line.replace("\n", " ") for line in corpus(self.lines // 3)))
        sentencepiece.SentencePieceTrainer.train(
            input=prefix + ".txt", model_prefix=prefix, minloglevel=2, hard_vocab_limit=False, num_threads=2,
            **{**self.pieces, **how})
        return prefix + ".model"

    def charsmap(self, rule):
        """The map of characters of a rule of SentencePiece, as its models hold it."""
        from sentencepiece import sentencepiece_model_pb2
        model = sentencepiece_model_pb2.ModelProto()
        with open(self.model("rule-" + rule, **({"normalization_rule_tsv": self.rules} if self.rules else {"normalization_rule_name": rule})), "rb") as file:
            model.ParseFromString(file.read())
        return model.normalizer_spec.precompiled_charsmap

    def hugging_face(self):
        B, S, M, N = pre_tokenizers.ByteLevel, pre_tokenizers.Split, pre_tokenizers.Metaspace, normalizers
        seq, norm, dec = (lambda *a: pre_tokenizers.Sequence(list(a))), (lambda *a: N.Sequence(list(a))), (lambda *a: decoders.Sequence(list(a)))
        llama_decoder = dec(decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0))
        return [
            ("gpt2", self.byte_level, dict(pre=B(add_prefix_space=False))),
            ("prefix", self.byte_level, dict(pre=B(add_prefix_space=True))),
            ("llama3", self.byte_level, dict(pre=seq(S(Regex(LLAMA3), "isolated"), B(add_prefix_space=False, use_regex=False)), ignore_merges=True)),
            ("qwen2", self.byte_level, dict(pre=seq(S(Regex(QWEN2), "isolated"), B(add_prefix_space=False, use_regex=False)), normalizer=N.NFC())),
            ("digits", self.byte_level, dict(pre=seq(pre_tokenizers.Digits(individual_digits=True), B(add_prefix_space=False)))),
            ("holes", self.byte_level, dict(pre=B(add_prefix_space=False), alphabet=False, unk="<unk>")),
            ("behaviours", self.byte_level, dict(pre=seq(S("e", "merged_with_previous"), S(Regex(r"\d+"), "merged_with_next"), S(Regex(r"\w+"), "contiguous", invert=True), S("#", "removed"), B(add_prefix_space=False, use_regex=False)))),
            ("llama2", self.with_bytes, dict(normalizer=norm(N.Prepend(MARK), N.Replace(" ", MARK)), decoder=llama_decoder)),
            ("llama2-first", self.with_bytes, dict(pre=M(MARK, "first", split=False), decoder=llama_decoder)),
            ("mistral-always", self.with_bytes, dict(pre=M(MARK, "always", split=True), decoder=decoders.Metaspace(MARK, "always"))),
            ("gemma", self.with_bytes, dict(normalizer=N.Replace(" ", MARK), pre=S(" ", "merged_with_previous"), decoder=dec(decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()))),
            ("no-bytes", self.with_bytes, dict(normalizer=norm(N.NFKC(), N.Replace(" ", MARK)), fallback=0)),
            ("no-bytes-single", self.with_bytes, dict(normalizer=N.Replace(Regex(r"\s"), MARK), fallback=0, fuse=False)),
            ("some-bytes", self.with_bytes, dict(normalizer=N.Replace(" ", MARK), fallback=200)),
            ("clip", self.with_bytes, dict(normalizer=norm(N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()), pre=S(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True), fallback=0, suffix="</w>", decoder=decoders.BPEDecoder("</w>"))),
            ("subword-prefix", self.with_bytes, dict(pre=pre_tokenizers.WhitespaceSplit(), fallback=0, prefix="##")),
            ("t5-Unigram", self.unigram, dict(normalizer=N.Precompiled(self.charsmap("nmt_nfkc")), pre=seq(pre_tokenizers.WhitespaceSplit(), M(MARK, "always")), decoder=decoders.Metaspace(MARK, "always"))),
            ("xlm-Unigram", self.unigram, dict(normalizer=norm(N.Precompiled(self.charsmap("nmt_nfkc_cf")), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), MARK)), pre=M(MARK, "first"))),
            ("nmt-Unigram", self.unigram, dict(normalizer=norm(N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")), pre=M(MARK, "never"))),
            ("bytes-Unigram", self.unigram, dict(normalizer=norm(N.NFD(), N.StripAccents(), N.Lowercase()), pre=seq(pre_tokenizers.Punctuation("contiguous"), M(MARK, "always", split=False)), fallback=True)),
            ("byte-level-Unigram", self.unigram, dict(normalizer=None, pre=B(add_prefix_space=False), decoder=decoders.ByteLevel())),
            ("words", self.words, dict(normalizer=norm(N.NFKD(), N.StripAccents(), N.Strip()), pre=pre_tokenizers.Whitespace())),
            ("words-split", self.words, dict(normalizer=N.Lowercase(), pre=seq(pre_tokenizers.CharDelimiterSplit("a"), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits()))),
        ]

    def sentencepiece(self):
        user = dict(user_defined_symbols=["<image>", "hello world", "ab", "<|im_start|>", "1"], control_symbols=["<|im_end|>", "<extra_0>"])
        return [
            ("sp-bpe", dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)),
            ("sp-bpe-nfkc", dict(model_type="bpe", character_coverage=0.98)),
            ("sp-bpe-user", dict(model_type="bpe", byte_fallback=True, split_digits=True, add_dummy_prefix=False, **user)),
            ("sp-unigram", dict(model_type="unigram", character_coverage=0.98)),
            ("sp-unigram-bytes", dict(model_type="unigram", byte_fallback=True, normalization_rule_name="nmt_nfkc_cf", **user)),
            ("sp-unigram-suffix", dict(model_type="unigram", treat_whitespace_as_suffix=True, normalization_rule_name="nfkc", split_by_whitespace=False)),
            ("sp-unigram-plain", dict(model_type="unigram", normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False, **user)),
        ]
