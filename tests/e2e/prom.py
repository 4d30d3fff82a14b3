"""Reads the text format of Prometheus (0.0.4) strictly: {(name, labels): value}, labels a sorted tuple of pairs."""

import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def labels_of(text):
    """the labels between braces, and what comes behind them"""
    found, at = [], 1
    while text[at] != "}":
        match = LABEL.match(text, at)
        assert match, text
        value = re.sub(r'\\["\\n]', lambda m: ESCAPED[m.group()], match.group(2))
        found.append((match.group(1), value))
        at = match.end()
        if text[at] == ",":
            at += 1
    assert len({k for k, _ in found}) == len(found), text
    return tuple(sorted(found)), text[at + 1 :]


def read(text):
    samples, types, family = {}, {}, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types, f"{family} comes twice"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and kind in ("gauge", "counter"), line
            types[name] = kind
        else:
            name = NAME.match(line).group()
            assert name == family and name in types, f"{name} is not of family {family}"
            rest, labels = line[len(name) :], ()
            if rest[0] == "{":
                labels, rest = labels_of(rest)
            assert rest[0] == " " and (name, labels) not in samples, line
            samples[name, labels] = float(rest[1:])
    return samples
