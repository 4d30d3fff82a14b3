"""Handwritten digits of scikit-learn (8x8, 1797 of them) as 32x32 PNG files with questions in LLaVA's JSON:
digits.py DIR singles|pairs. The last fifth, in a fixed random order, is held out."""
import json
import os
import random
import struct
import sys
import zlib

from sklearn.datasets import load_digits

WORDS = "zero one two three four five six seven eight nine".split()
ASK = ["Which digit is this?", "What digit do you see?", "Name the digit."]


def png(pixels):
    """8-bit grey, rows of equal length."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + bytes(row) for row in pixels))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def grey(image, across, down):
    """The 8x8 pixels enlarged, each to across x down."""
    return [[min(255, int(image[y // down][x // across] * 16)) for x in range(8 * across)] for y in range(8 * down)]


def write(folder, name, pixels):
    with open(os.path.join(folder, "images", name), "wb") as f:
        f.write(png(pixels))


def singles(folder, digits, name, indices):
    """One picture a sample, all of one size."""
    for n, i in enumerate(indices):
        write(folder, f"{i:04d}.png", grey(digits.images[i], 4, 4))
        talk = [
            {"from": "human", "value": "<image>\n" + (ASK[n % len(ASK)] if name == "train" else ASK[0])},
            {"from": "gpt", "value": WORDS[digits.target[i]]},
        ]
        yield {"id": f"digit-{i}", "image": f"{i:04d}.png", "conversations": talk}


def pairs(folder, digits, name, indices):
    """Two pictures a sample, of different sizes and shapes; the question is about one of them."""
    chance = random.Random(name)
    for n in range(4000 if name == "train" else 400):
        two = [chance.choice(indices) for _ in range(2)]
        files = [f"{name}-{n:04d}-{k}.png" for k in range(2)]
        for i, file in zip(two, files):
            write(folder, file, grey(digits.images[i], chance.randint(4, 7), chance.randint(4, 7)))
        which = chance.randrange(2)
        talk = [
            {"from": "human", "value": f"<image> <image>\nWhich digit is in picture {which + 1}?"},
            {"from": "gpt", "value": WORDS[digits.target[two[which]]]},
        ]
        yield {"id": f"{name}-{n}", "images": files, "conversations": talk}


def main(folder, make):
    digits = load_digits()
    os.makedirs(os.path.join(folder, "images"))
    order = list(range(len(digits.target)))
    random.Random(0).shuffle(order)
    held_out = len(order) // 5
    sets = {"train": order[:-held_out], "test": order[-held_out:]}
    text = []
    for name, indices in sets.items():
        rows = list(make(folder, digits, name, indices))
        text += [turn["value"] for row in rows for turn in row["conversations"]]
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))


main(sys.argv[1], {"singles": singles, "pairs": pairs}[sys.argv[2]])
