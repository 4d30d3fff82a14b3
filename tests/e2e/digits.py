"""Handwritten digits of scikit-learn (8x8, 1797 of them) as 32x32 PNG files with questions in LLaVA's JSON:
digits.py DIR. The last fifth, in a fixed random order, is held out."""
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


def main(folder):
    digits = load_digits()
    os.makedirs(os.path.join(folder, "images"))
    order = list(range(len(digits.target)))
    random.Random(0).shuffle(order)
    held_out = len(order) // 5
    sets = {"train": order[:-held_out], "test": order[-held_out:]}
    text = []
    for name, indices in sets.items():
        rows = []
        for n, i in enumerate(indices):
            image = digits.images[i]
            grey = [[min(255, int(image[y // 4][x // 4] * 16)) for x in range(32)] for y in range(32)]
            with open(os.path.join(folder, "images", f"{i:04d}.png"), "wb") as f:
                f.write(png(grey))
            talk = [
                {"from": "human", "value": "<image>\n" + (ASK[n % len(ASK)] if name == "train" else ASK[0])},
                {"from": "gpt", "value": WORDS[digits.target[i]]},
            ]
            rows.append({"id": f"digit-{i}", "image": f"{i:04d}.png", "conversations": talk})
            text += [talk[0]["value"], talk[1]["value"]]
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(text))


main(sys.argv[1])
