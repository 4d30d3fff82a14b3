#!/usr/bin/env python3
"""Write processors.json: pixels that image processors of transformers make of pictures under options that change
them, as hashes.

    python3 tests/golden/make_processors.py > tests/golden/processors.json     transformers 5.17, Pillow 12

Each entry has the document, what the test tells its encoder, and for every picture of processors/images that it
names the items: [height, width, hash] (FNV-1a over uint8 (height, width, 3)); nothing is rescaled or normalised.
`together`: the pictures are given as those of one sample."""
import importlib
import json
import os

import numpy as np
from PIL import Image, ImageOps

HERE = os.path.join(os.path.dirname(__file__), "processors", "images")


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return "%016x" % value


def load(name):
    return ImageOps.exif_transpose(Image.open(os.path.join(HERE, name))).convert("RGB")


def planes(values):
    """Any number of axes before (3, height, width): pictures (height, width, 3)."""
    values = np.asarray(values)
    return [x.transpose(1, 2, 0) for x in values.reshape((-1,) + values.shape[-3:])]


def merged(out, merge, frames, patch):
    _, high, wide = out["image_grid_thw"][0]
    x = np.asarray(out["pixel_values"]).reshape(high // merge, wide // merge, merge, merge, 3, frames, patch, patch)[..., 0, :, :]
    return [x.transpose(0, 2, 5, 1, 3, 6, 4).reshape(high * patch, wide * patch, 3)]


def patches(values, high, wide, patch):
    x = np.asarray(values)[0][:high * wide].reshape(high, wide, patch, patch, 3)
    return [x.transpose(0, 2, 1, 3, 4).reshape(high * patch, wide * patch, 3)]


def pictures_of(name, doc, out):
    if name == "qwen2_vl":
        return merged(out, doc["merge_size"], doc["temporal_patch_size"], doc["patch_size"])
    if name == "siglip2":
        return patches(out["pixel_values"], *out["spatial_shapes"][0], doc["patch_size"])
    if name == "gemma4":
        real = out["image_position_ids"][0][out["image_position_ids"][0][:, 0] >= 0]
        return patches(out["pixel_values"], real[:, 1].max() + 1, real[:, 0].max() + 1, doc["patch_size"])
    if isinstance(out["pixel_values"], list):
        return [p for x in out["pixel_values"] for p in planes(x)]
    return planes(out["pixel_values"])


SQUARE = {"height": 56, "width": 56}
WIDE, TALL, TINY, LONG = "rgb3_160x120.png", "rgb1_31x97.png", "rgb4_9x5.png", "rgb5_203x50.png"
USUAL = [WIDE, TALL, TINY, LONG, "exif6.jpg"]
PINS = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]

# module, class, options, side of the encoder (0: any), its patch
CASES = [
    ("clip", "CLIP", {"size": {"shortest_edge": 40}, "crop_size": SQUARE}, 56, 14),
    ("clip", "CLIP", {"size": {"shortest_edge": 41}, "crop_size": {"height": 57, "width": 57}}, 57, 19),
    ("clip", "CLIP", {"size": 70, "crop_size": 56, "resample": 2}, 56, 14),
    ("clip", "CLIP", {"size": [60, 80], "crop_size": 56}, 56, 14),
    ("clip", "CLIP", {"size": {"shortest_edge": 60, "longest_edge": 90}, "crop_size": SQUARE}, 56, 14),
    ("clip", "CLIP", {"size": {"max_height": 70, "max_width": 50}, "crop_size": SQUARE}, 56, 14),
    ("clip", "CLIP", {"do_resize": False, "crop_size": SQUARE}, 56, 14),
    ("siglip", "Siglip", {"size": SQUARE, "resample": 0}, 56, 14),
    ("siglip", "Siglip", {"size": SQUARE, "resample": 1}, 56, 14),
    ("siglip", "Siglip", {"size": SQUARE, "resample": 4}, 56, 14),
    ("siglip", "Siglip", {"size": SQUARE, "resample": 5}, 56, 14),
    ("siglip", "Siglip", {"size": {"height": 40, "width": 50}, "do_pad": True, "pad_size": SQUARE}, 56, 14),
    ("siglip", "Siglip", {"size": 40, "default_to_square": True, "do_center_crop": True, "crop_size": SQUARE}, 56, 14),
    ("vit", "ViT", {"size": 56}, 56, 14),
    ("bit", "Bit", {"size": {"shortest_edge": 64}, "crop_size": SQUARE}, 56, 14),
    ("llava", "Llava", {"size": {"shortest_edge": 56}, "crop_size": SQUARE, "do_pad": True}, 56, 14),
    ("llava", "Llava", {"size": SQUARE, "do_center_crop": False, "do_pad": True, "image_mean": [.1, .5, .99]}, 56, 14),
    ("qwen2_vl", "Qwen2VL", {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 784, "max_pixels": 7840}, 0, 14),
    ("qwen2_vl", "Qwen2VL", {"patch_size": 8, "merge_size": 1, "temporal_patch_size": 1, "resample": 1,
                             "size": {"shortest_edge": 5000, "longest_edge": 6000}}, 0, 8),
    ("pixtral", "Pixtral", {"size": {"height": 40, "width": 100}, "patch_size": 8}, 0, 8),
    ("pixtral", "Pixtral", {"size": {"longest_edge": 50}, "patch_size": 16, "resample": 2}, 0, 16),
    ("siglip2", "Siglip2", {"patch_size": 14, "max_num_patches": 12}, 0, 14),
    ("gemma4", "Gemma4", {"patch_size": 4, "max_soft_tokens": 70, "pooling_kernel_size": 2}, 0, 4),
    ("got_ocr2", "GotOcr2", {"size": SQUARE, "crop_to_patches": False}, 56, 14),
    ("got_ocr2", "GotOcr2", {"size": SQUARE, "crop_to_patches": True, "min_patches": 2, "max_patches": 4}, 56, 14),
    ("gemma3", "Gemma3", {"size": SQUARE, "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 10,
                          "pan_and_scan_max_num_crops": 3, "pan_and_scan_min_ratio_to_activate": 1.1}, 56, 14),
    ("llava_next", "LlavaNext", {"size": {"shortest_edge": 56}, "crop_size": SQUARE, "image_grid_pinpoints": PINS}, 56, 14),
    ("llava_next", "LlavaNext", {"size": {"shortest_edge": 70}, "crop_size": SQUARE, "image_grid_pinpoints": PINS}, 56, 14),
    ("llava_onevision", "LlavaOnevision", {"size": SQUARE, "image_grid_pinpoints": PINS}, 56, 14),
    ("llava_onevision", "LlavaOnevision", {"size": SQUARE, "image_grid_pinpoints": PINS, "together": True}, 56, 14),
    ("smolvlm", "SmolVLM", {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}, "do_image_splitting": False}, 56, 14),
    ("smolvlm", "SmolVLM", {"size": {"longest_edge": 100}, "max_image_size": {"longest_edge": 56}, "resample": 3}, 56, 14),
    ("idefics3", "Idefics3", {"size": {"longest_edge": 150}, "max_image_size": {"longest_edge": 56}}, 56, 14),
]


def main():
    entries = []
    for name, cls, options, side, patch in CASES:
        options = dict(options)
        together = options.pop("together", False)
        make = getattr(importlib.import_module(f"transformers.models.{name}.image_processing_pil_{name}"), cls + "ImageProcessorPil")
        doc = dict(options, image_processor_type=cls + "ImageProcessor", do_rescale=False, do_normalize=False)
        processor = make(**{k: v for k, v in doc.items() if k != "image_processor_type"})
        items = {}
        for file in USUAL if not together else [None]:
            images = [load(file)] if file else [load(x) for x in USUAL]
            out = processor(images=[images] if name in ("smolvlm", "idefics3") or together else images, return_tensors=None)
            made = [[p.shape[0], p.shape[1], fnv(np.ascontiguousarray(p).astype(np.uint8).tobytes())] for p in pictures_of(name, doc, out)]
            if together:
                items = {x: [y] for x, y in zip(USUAL, made)}
            else:
                items[file] = made
        entries.append({"processor": doc, "together": together, "side": side, "patch": patch, "items": items})
    print("[" + ",\n".join(json.dumps(e) for e in entries) + "]")


if __name__ == "__main__":
    main()
