#!/usr/bin/env python3
"""Write tokens.json: what transformers 5.17 makes of added tokens in every document of a tokenizer.

    python3 tests/golden/make_tokens.py > tests/golden/tokens.json

`tokenizer` is a tokenizer.json of 256 bytes without added tokens. A case has the added tokens that are put
into it and the other documents of its directory; `added` are the tokens afterwards as [id, spelling, special],
`named` the spellings of bos_token and its like, `ids` what `text` becomes."""
import json
import os
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from tokenizers import pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

TEXT = "<s>a <image> b<tool_call>c <a></s> <im>!<b> <e>"
base = {
    "version": "1.0", "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None, "decoder": None,
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
              "vocab": {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, "merges": []}}


def own(content, number, **more):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **more}


def token(content, **more):
    return {"content": content, **more}


def typed(content, **more):
    return {"__type": "AddedToken", "content": content, **more}


# name, added tokens of tokenizer.json, the other documents
cases = [
    ("nothing beside tokenizer.json", [own("<s>", 256)], {}),
    ("added_tokens_decoder", [own("<s>", 256)],
     {"tokenizer_config": {"added_tokens_decoder": {"257": token("<image>"), "258": token("<tool_call>", special=True)}}}),
    ("added_tokens_decoder in no order, with gaps", [own("<s>", 256)],
     {"tokenizer_config": {"added_tokens_decoder": {"400": token("<image>"), "300": token("<tool_call>")}}}),
    ("flags of the decoder hold", [own("<image>", 256, special=False, normalized=True)],
     {"tokenizer_config": {"added_tokens_decoder": {"256": token("<image>", special=True, lstrip=True)}}}),
    ("a decoder that strips", [],
     {"tokenizer_config": {"added_tokens_decoder": {"256": token("<image>", rstrip=True, lstrip=True, normalized=False)}}}),
    ("a single word of the decoder", [],
     {"tokenizer_config": {"added_tokens_decoder": {"256": token("b", single_word=True)}}}),
    ("a token of the vocabulary in the decoder", [],
     {"tokenizer_config": {"added_tokens_decoder": {"0": token("!", special=True)}}}),
    ("named tokens alone", [],
     {"tokenizer_config": {"bos_token": "<s>", "eos_token": typed("</s>", lstrip=True), "pad_token": "<s>",
                           "image_token": "<image>", "additional_special_tokens": ["<a>"]}}),
    ("a named token of the vocabulary", [], {"tokenizer_config": {"eos_token": "!"}}),
    ("named tokens become special", [],
     {"tokenizer_config": {"added_tokens_decoder": {"256": token("<s>", normalized=True)}, "bos_token": "<s>"}}),
    ("a named token of tokenizer.json becomes special", [own("<s>", 256, special=False)],
     {"tokenizer_config": {"bos_token": "<s>"}}),
    ("but not beside a decoder", [own("<s>", 256, special=False)],
     {"tokenizer_config": {"bos_token": "<s>", "added_tokens_decoder": {}}}),
    ("extra_special_tokens as a list", [], {"tokenizer_config": {"extra_special_tokens": ["<e>", typed("<a>", lstrip=True)]}}),
    ("extra_special_tokens with names", [],
     {"tokenizer_config": {"bos_token": "<s>", "extra_special_tokens": {"image_token": "<image>"}}}),
    ("extra before additional", [],
     {"tokenizer_config": {"extra_special_tokens": ["<e>"], "additional_special_tokens": ["<a>"]}}),
    ("tokens of the model's own", [],
     {"tokenizer_config": {"image_token": typed("<im>"), "a_token": "<a>", "extra_special_tokens": ["<e>"]}}),
    ("special_tokens_map.json", [],
     {"special_tokens_map": {"bos_token": token("<s>", lstrip=True), "eos_token": "</s>",
                             "additional_special_tokens": ["<a>", "<b>"]}}),
    ("special_tokens_map.json before the configuration", [],
     {"tokenizer_config": {"bos_token": "<a>", "a_token": "<b>"},
      "special_tokens_map": {"bos_token": "<s>", "image_token": "<image>"}}),
    ("special_tokens_map.json beside a decoder", [],
     {"tokenizer_config": {"added_tokens_decoder": {"256": token("<image>")}, "bos_token": "<image>"},
      "special_tokens_map": {"bos_token": "<s>", "eos_token": "</s>"}}),
    ("special_tokens_map.json with objects in its list", [],
     {"special_tokens_map": {"extra_special_tokens": ["<a>", token("<b>", lstrip=True)]}}),
    ("added_tokens.json", [own("<s>", 256)],
     {"tokenizer_config": {"eos_token": "</s>"}, "added_tokens": {"</s>": 258, "<image>": 257}}),
    ("added_tokens.json with a number that is taken", [own("<s>", 256)], {"added_tokens": {"<image>": 256, "<b>": 300}}),
    ("added_tokens.json beside a decoder", [own("<s>", 256)],
     {"tokenizer_config": {"added_tokens_decoder": {}}, "added_tokens": {"<b>": 300}}),
    ("add_bos_token does nothing here", [own("<s>", 256)], {"tokenizer_config": {"bos_token": "<s>", "add_bos_token": True}}),
]


def run(added, files):
    with tempfile.TemporaryDirectory() as folder:
        for name, document in {**files, "tokenizer": {**base, "added_tokens": added}}.items():
            with open(os.path.join(folder, name + ".json"), "w") as out:
                json.dump(document, out)
        tok = PreTrainedTokenizerFast.from_pretrained(folder)
        return {"added": [[i, t.content, t.special] for i, t in sorted(tok.added_tokens_decoder.items())],
                "named": tok.special_tokens_map, "ids": tok(TEXT, add_special_tokens=False)["input_ids"]}


lines = [json.dumps({"name": name, "own": added, "files": files, **run(added, files)}) for name, added, files in cases]
print('{"text": %s,\n"tokenizer": %s,\n"cases": [\n%s\n]}' % (json.dumps(TEXT), json.dumps(base), ",\n".join(lines)))
