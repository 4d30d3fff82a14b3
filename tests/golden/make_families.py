#!/usr/bin/env python3
"""Write families.json: the texts that transformers 5.17 makes with the templates that models come with, to compare
the built-in templates with.

    python3 tests/golden/make_families.py DIR > tests/golden/families.json

DIR holds the models' own templates, one file a row of `families`: NAME.jinja. They are not part of this
repository. A conversation whose text is null is one that the template refuses, or one that the built-in template
treats otherwise on purpose: `systemless` rows drop the system turn (Mistral v3 writes it into a last question only,
which no training conversation ends with)."""
import json
import os
import random
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

S, U, A, IMAGE = "system", "user", "assistant", None
bos, llama = {"bos_token": "<s>", "eos_token": "</s>"}, {"bos_token": "<|begin_of_text|>"}
families = {  # built-in name: tokens, placeholder of pictures, what is left out
    "qwen2_vl": ({}, "<|image_pad|>", None),
    "qwen3": ({}, None, None),
    "qwen3_instruct": ({}, "<|image_pad|>", None),
    "qwen3_5": ({}, "<|image_pad|>", None),
    "llama2": (bos, None, None),
    "llama3": (llama, None, None),
    "mistral_v1": (bos, None, None),
    "mistral_v3": (bos, None, "systemless"),
    "mistral_v3_tekken": (bos, "[IMG]", "systemless"),
    "mistral_v7_tekken": (bos, "[IMG]", "system only"),
    "gemma": ({"bos_token": "<bos>"}, "<start_of_image>", None),
    "gemma4": ({"bos_token": "<bos>"}, "<|image|>", None),
    "phi3": ({"eos_token": "<|endoftext|>"}, None, None),
    "phi4": ({}, None, "system only"),
}
words = ["hello", " red", "\n", "\n\n", "  ", "<think>", "</think>", "<think>\nwhy\n</think>\n\n", "\u00e9", "\u65e5\u672c",
         "\t", "\u3000", "[INST]", "</s>", "<<SYS>>", "<|channel>", "<channel|>", "{{ x }}", "'q'", "<tool_response>", ".",
         "a", "b", "12"]


def some(r):
    return "".join(r.choice(words) for _ in range(r.randrange(1, 7)))


def conversation(r, with_images, has_system):
    turns = [(S, [some(r) + "s"])] if has_system else []
    for _ in range(r.choice([1, 2, 3])):
        parts = [some(r) + "u"]
        for _ in range(r.choice([0, 1, 2]) if with_images else 0):
            parts.insert(r.randrange(len(parts) + 1), IMAGE)
        turns += [(U, parts), (A, [some(r) + "x"])]
    return turns


def content(parts):
    if parts == [parts[0]] and parts[0] is not IMAGE:
        return parts[0]
    return [{"type": "image"} if p is IMAGE else {"type": "text", "text": p} for p in parts]


def render(template, names, turns):
    messages = [{"role": role, "content": content(parts)} for role, parts in turns]
    try:
        return render_jinja_template(conversations=[messages], chat_template=template, tools=None, documents=None,
                                     add_generation_prompt=False, **names)[0][0]
    except Exception:  # the template's own refusal
        return None


def is_left_out(turns, rule):
    has_system = turns[0][0] == S
    return (rule == "systemless" and has_system) or (rule == "system only" and not has_system)


r = random.Random(15)
plain, pictured = [[conversation(r, k, i % 2 == 0) for i in range(n)] for k, n in ((False, 14), (True, 10))]
items = [{"messages": [{"role": role, "content": content(p)} for role, p in turns],
          "images": ["f.png" for _, p in turns for x in p if x is IMAGE]} for turns in plain + pictured]
print('{"conversations": [\n%s],\n"cases": [' % ",\n".join(json.dumps(i) for i in items))
lines = []
for name, (names, token, rule) in families.items():
    with open(os.path.join(sys.argv[1], name + ".jinja")) as f:
        template = f.read()
    texts = [None if is_left_out(t, rule) else render(template, names, t) for t in plain + (pictured if token else [])]
    lines.append(json.dumps({"name": name, "token": token or "<image>", "texts": texts}))
print(",\n".join(lines) + "\n]}")
