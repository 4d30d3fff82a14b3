#!/usr/bin/env python3
"""Write layouts.json: what the processors of transformers make of 100,000 sizes of pictures each, as hashes,
and the texts that they put in place of 100 of them.

    python3 tests/golden/make_layouts.py > tests/golden/layouts.json     needs transformers 5.17

Sizes come from `sizes` below, the same as in tests/property/test_input_layouts.c. For each one five numbers
go into a hash (FNV-1a, 32-bit little endian): 0 or 1 where it is refused, items, placeholder rows, and the
height and width of the first picture that is made (0, 0 where the class does not tell). A hash of every 10,000
sizes; a refused one counts as 1, 0, 0, 0, 0. Texts: a hash over the text and a zero byte of each."""
import importlib
import json
import math
import struct

from transformers.image_utils import SizeDict

PIXELS_MAX = 64 * 1000 * 1000


def sizes(n):
    state = 88172645463325252
    for _ in range(n):
        pair = []
        for _ in range(2):
            state ^= (state << 13) & (1 << 64) - 1
            state ^= state >> 7
            state ^= (state << 17) & (1 << 64) - 1
            most = (60, 600, 3000, 12000)[state >> 8 & 3]
            pair.append(1 + (state >> 16) % most)
        yield tuple(pair)


class Picture:
    """As much of an array as sizes need."""

    def __init__(self, height, width):
        self.shape = (3, height, width)

    def __getitem__(self, index):
        size = [3]
        for length, part in zip(self.shape[1:], index[1:]):
            size.append(len(range(*part.indices(length))))
        return Picture(*size[1:])


def module(name):
    return importlib.import_module("transformers.models." + name)


def tell_size(image, *_, **__):
    return image.shape[1:]


def pil(name, cls):
    return getattr(module(f"{name}.image_processing_pil_{name}"), cls + "Pil")


def bare(name, cls, **values):
    """A processor without tokenizer, that texts can be asked of."""
    made = object.__new__(getattr(module(f"{name}.processing_{name}"), cls))
    for key, value in values.items():
        object.__setattr__(made, key, value)
    return made


def limited(height, width):
    if not (height > 0 and width > 0) or height * width > PIXELS_MAX:
        raise ValueError("size")
    return height, width


# Each family: processor document, encoder, ask(height, width) -> (items, placeholder rows, height, width),
# and text(height, width) or None.

def clip(doc, encoder):
    transforms = importlib.import_module("transformers.image_transforms")
    transforms.get_image_size = tell_size
    side = doc["crop_size"]["height"]
    rows = (side // encoder["patch"]) ** 2

    def ask(h, w):
        size = transforms.get_resize_output_image_size(Picture(h, w), doc["size"]["shortest_edge"], default_to_square=False)
        size = limited(*size)
        if size == (h, w):  # not resized: the first picture is the one that is cut
            size = (side, side)
        return (1, rows) + size
    return ask, lambda h, w: "<image>" * rows


def detr(doc, encoder):
    """Shortest edge with a longest one, cut."""
    size_of = importlib.import_module("transformers.image_transforms").get_size_with_aspect_ratio
    rows = (encoder["side"] // encoder["patch"]) ** 2

    def ask(h, w):
        size = limited(*size_of((h, w), doc["size"]["shortest_edge"], doc["size"]["longest_edge"]))
        return (1, rows) + (size if size != (h, w) else (encoder["side"],) * 2)
    return ask, None


def qwen(doc, encoder):
    smart = module("qwen2_vl.image_processing_pil_qwen2_vl").smart_resize
    factor = doc["patch_size"] * doc["merge_size"]

    def ask(h, w):
        size = limited(*smart(h, w, factor, doc["size"]["shortest_edge"], doc["size"]["longest_edge"]))
        return (1, size[0] * size[1] // factor ** 2) + size
    return ask, lambda h, w: "<|vision_start|>" + "<image>" * ask(h, w)[1] + "<|vision_end|>"


def pixtral(doc, encoder):
    pixels = module("pixtral.image_processing_pil_pixtral")
    pixels.get_image_size = tell_size
    factor, longest = encoder["patch"] * encoder["merge"], doc["size"]["longest_edge"]
    processor = bare("pixtral", "PixtralProcessor", patch_size=encoder["patch"], spatial_merge_size=encoder["merge"],
                     image_token="<image>", image_break_token="[IMG_BREAK]", image_end_token="[IMG_END]")

    def ask(h, w):
        size = limited(*pixels.get_resize_output_image_size(Picture(h, w), (longest, longest), (factor, factor)))
        return (1, size[0] // factor * (size[1] // factor)) + size
    return ask, lambda h, w: processor.replace_image_token({"image_sizes": [ask(h, w)[2:]]}, 0)


def siglip2(doc, encoder):
    size_of = module("siglip2.image_processing_pil_siglip2").get_image_size_for_max_num_patches

    def ask(h, w):
        size = limited(*size_of(h, w, doc["patch_size"], doc["max_num_patches"]))
        return (1, size[0] * size[1] // doc["patch_size"] ** 2) + size
    return ask, None


def gemma4(doc, encoder):
    size_of = module("gemma4.image_processing_pil_gemma4").get_aspect_ratio_preserving_size
    patch, pool, most = doc["patch_size"], doc["pooling_kernel_size"], doc["max_soft_tokens"]
    processor = bare("gemma4", "Gemma4Processor", boi_token="<|image>", eoi_token="<image|>", image_token="<image>")

    def ask(h, w):
        size = limited(*size_of(h, w, patch, most * pool ** 2, pool))
        return (1, size[0] * size[1] // (patch * pool) ** 2) + size
    return ask, lambda h, w: processor.replace_image_token({"num_soft_tokens_per_image": [ask(h, w)[1]]}, 0)


def internvl(doc, encoder):
    grid_of = module("got_ocr2.image_processing_pil_got_ocr2").get_optimal_tiled_canvas
    side = doc["size"]["height"]
    rows = (side // (encoder["patch"] * encoder["merge"])) ** 2
    processor = bare("internvl", "InternVLProcessor", image_seq_length=rows, image_token="<image>",
                     start_image_token="<img>", end_image_token="</img>")

    def ask(h, w):
        columns, lines = grid_of((h, w), (side, side), doc["min_patches"], doc["max_patches"])
        items = columns * lines + (columns * lines > 1)
        return items, items * rows, lines * side, columns * side
    return ask, lambda h, w: processor.replace_image_token({"num_patches": [ask(h, w)[0]]}, 0)


def gemma3(doc, encoder):
    pixels = module("gemma3.image_processing_pil_gemma3")
    pixels.get_image_size = tell_size
    images = pil("gemma3", "Gemma3ImageProcessor")(**doc)
    rows = encoder["side_tokens"] ** 2
    processor = bare("gemma3", "Gemma3Processor",
                     full_image_sequence="\n\n<start_of_image>" + "<image>" * rows + "<end_of_image>\n\n")

    def crops(h, w):
        made = images.pan_and_scan(Picture(h, w), doc["pan_and_scan_min_crop_size"], doc["pan_and_scan_max_num_crops"],
                                   doc["pan_and_scan_min_ratio_to_activate"])
        for crop in made:
            limited(*crop.shape[1:])
        return len(made)

    def ask(h, w):
        items = 1 + crops(h, w)
        return items, items * rows, 0, 0
    return ask, lambda h, w: processor.replace_image_token({"num_crops": [crops(h, w)]}, 0)


def anyres(name, cls):
    def family(doc, encoder):
        utils = importlib.import_module("transformers.image_processing_utils")
        utils.get_image_size = tell_size
        side, pins = encoder["side"], doc["image_grid_pinpoints"]
        pixels = type("P", (), {"image_grid_pinpoints": pins})
        processor = bare(name, cls, image_processor=pixels, patch_size=encoder["patch"], num_additional_image_tokens=0,
                         num_image_tokens=(side // encoder["patch"]) ** 2, vision_aspect_ratio="anyres_max_9")

        def ask(h, w):
            pin = utils.select_best_resolution((h, w), pins)
            size = utils.get_patch_output_size(Picture(h, w), pin, None)
            if pin is None:
                raise ValueError("pin")
            size = limited(*size)
            if size == (h, w):  # the first picture is laid on a canvas then, or the whole is made small
                size = (0, 0) if (h, w) != tuple(pin) or (h, w) == (side, side) else (side, side)
            return (1 + pin[0] // side * (pin[1] // side), processor._get_number_of_features(h, w, side, side)) + size
        return ask, None
    return family


def smolvlm(doc, encoder):
    backend = importlib.import_module("transformers.image_processing_backends").PilBackend
    backend.resize = lambda self, image, size, **_: Picture(size.height, size.width)
    images = pil("smolvlm", "SmolVLMImageProcessor")(**doc)
    longest, tile = doc["size"]["longest_edge"], doc["max_image_size"]["longest_edge"]
    rows = (tile // (encoder["patch"] * encoder["merge"])) ** 2
    text_of = module("smolvlm.processing_smolvlm").get_image_prompt_string

    def split(h, w):
        image = images.resize(Picture(h, w), SizeDict(longest_edge=longest))
        first = image.shape[1:]
        image = images.resize_for_vision_encoder(image, tile)
        if first == (h, w):
            first = image.shape[1:] if image.shape[1:] != (h, w) else (0, 0)
        parts, lines, columns = images.split_images(image, doc["max_image_size"])
        return len(parts), lines, columns, first

    def ask(h, w):
        items, _, _, first = split(h, w)
        return (items, items * rows) + first

    def text(h, w):
        _, lines, columns, _ = split(h, w)
        return text_of(lines, columns, rows, "<fake_token_around_image>", "<image>", "<global-img>")
    return ask, text


FAMILIES = [
    ("clip", clip, {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 224},
                    "crop_size": {"height": 224, "width": 224}}, {"side": 224, "patch": 16, "merge": 1}),
    ("dinov2", clip, {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256},
                      "crop_size": {"height": 224, "width": 224}}, {"side": 224, "patch": 14, "merge": 1}),
    ("two-edges", detr, {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 300, "longest_edge": 500},
                         "crop_size": {"height": 224, "width": 224}}, {"side": 224, "patch": 14, "merge": 1}),
    ("qwen2-vl", qwen, {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 14, "merge_size": 2,
                        "size": {"shortest_edge": 3136, "longest_edge": 12845056}}, {"patch": 14, "merge": 2, "frames": 2}),
    ("qwen3-vl", qwen, {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 16, "merge_size": 2,
                        "size": {"shortest_edge": 65536, "longest_edge": 1048576}}, {"patch": 16, "merge": 2, "frames": 2}),
    ("pixtral", pixtral, {"image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 1024},
                          "patch_size": {"height": 16, "width": 16}}, {"patch": 16, "merge": 1}),
    ("mistral3", pixtral, {"image_processor_type": "PixtralImageProcessorFast", "size": {"longest_edge": 1540},
                           "patch_size": 14}, {"patch": 14, "merge": 2}),
    ("siglip2", siglip2, {"image_processor_type": "Siglip2ImageProcessor", "patch_size": 16, "max_num_patches": 256},
     {"patch": 16, "merge": 1}),
    ("gemma4", gemma4, {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 16, "max_soft_tokens": 280,
                        "pooling_kernel_size": 3}, {"patch": 16, "merge": 3}),
    ("internvl", internvl, {"image_processor_type": "GotOcr2ImageProcessor", "processor_class": "InternVLProcessor",
                            "size": {"height": 448, "width": 448}, "min_patches": 1, "max_patches": 12},
     {"side": 448, "patch": 14, "merge": 2}),
    ("internvl-6", internvl, {"image_processor_type": "GotOcr2ImageProcessor", "crop_to_patches": True,
                              "size": {"height": 448, "width": 448}, "min_patches": 2, "max_patches": 6},
     {"side": 448, "patch": 14, "merge": 2}),
    ("gemma3", gemma3, {"image_processor_type": "Gemma3ImageProcessor", "do_pan_and_scan": True,
                        "pan_and_scan_min_crop_size": 256, "pan_and_scan_max_num_crops": 4,
                        "pan_and_scan_min_ratio_to_activate": 1.2, "size": {"height": 896, "width": 896}},
     {"side": 896, "patch": 14, "merge": 1, "side_tokens": 16}),
    ("llava-next", anyres("llava_next", "LlavaNextProcessor"),
     {"image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": 336},
      "crop_size": {"height": 336, "width": 336},
      "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]},
     {"side": 336, "patch": 14, "merge": 1}),
    ("llava-onevision", anyres("llava_onevision", "LlavaOnevisionProcessor"),
     {"image_processor_type": "LlavaOnevisionImageProcessor", "size": {"height": 84, "width": 84},
      "image_grid_pinpoints": [[84 * a, 84 * b] for a in range(1, 7) for b in range(1, 7)]},
     {"side": 84, "patch": 14, "merge": 1}),
    ("smolvlm", smolvlm, {"image_processor_type": "SmolVLMImageProcessor", "size": {"longest_edge": 2048},
                          "max_image_size": {"longest_edge": 512}}, {"side": 512, "patch": 16, "merge": 4}),
    ("idefics3", smolvlm, {"image_processor_type": "SmolVLMImageProcessor", "size": {"longest_edge": 1456},
                           "max_image_size": {"longest_edge": 364}}, {"side": 364, "patch": 14, "merge": 2}),
]


def fnv(data, value=0xcbf29ce484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value


def main():
    out, block = [], 10000
    pairs = list(sizes(100000))
    for name, family, doc, encoder in FAMILIES:
        ask, text = family(doc, encoder)
        hashes, value, n_refused = [], fnv(b""), 0
        for i, (w, h) in enumerate(pairs):
            try:
                row = (0,) + ask(h, w)
            except (ValueError, TypeError, ZeroDivisionError, OverflowError):
                row, n_refused = (1, 0, 0, 0, 0), n_refused + 1
            value = fnv(struct.pack("<5i", *row), value)
            if (i + 1) % block == 0:
                hashes.append("%016x" % value)
                value = fnv(b"")
        entry = {"name": name, "processor": doc, "encoder": encoder, "refused": n_refused, "sizes": hashes}
        if text is not None:
            value = fnv(b"")
            for w, h in pairs[:100]:
                try:
                    value = fnv(text(h, w).encode() + b"\0", value)
                except ValueError:
                    value = fnv(b"\0", value)
            entry["texts"] = "%016x" % value
        out.append(entry)
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
