#!/usr/bin/env python3
"""Write videos.json and videos.safetensors: what the video processors of transformers make of videos, as oracles.

    python3 tests/golden/make_videos.py tests/golden      needs transformers, torch, torchvision, numpy, num2words

The videos are not stored: frame() here and in tests/unit/test_input_video.c make the same pixels.
frames: digests of the frames that are taken, over 2,000 videos for every setting, and some in full.
sizes: digests of the sizes of 100,000 videos for every setting.
texts: what stands for a video in the text of each family, rows as [n]; seconds_per_grid of Qwen2.5-VL.
blends: rows of a frame and what is left of them in LLaVA-OneVision.
pixels (safetensors): every so many-th value that a processor returns, its shape in NAME.shape."""
import json
import sys
import warnings

import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (InternVLProcessor, InternVLVideoProcessor, LlavaOnevisionProcessor,
                          LlavaOnevisionVideoProcessor, PreTrainedTokenizerFast, Qwen2_5_VLProcessor,
                          Qwen2VLImageProcessor, Qwen2VLVideoProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor,
                          SmolVLMImageProcessor, SmolVLMProcessor, SmolVLMVideoProcessor)
from transformers.image_processing_backends import TorchvisionBackend
from transformers.image_utils import SizeDict
from transformers.models.gemma4.video_processing_gemma4 import Gemma4VideoProcessor
from transformers.video_utils import VideoMetadata

warnings.filterwarnings("ignore")
OUT = sys.argv[1]
MASK = 0xFFFFFFFF
CLASSES = {"Qwen2VL": Qwen2VLVideoProcessor, "Qwen3VL": Qwen3VLVideoProcessor, "LlavaOnevision": LlavaOnevisionVideoProcessor,
           "InternVL": InternVLVideoProcessor, "SmolVLM": SmolVLMVideoProcessor, "Gemma4": Gemma4VideoProcessor}


class Numbers:
    def __init__(self, seed):
        self.x = seed

    def below(self, n):
        self.x = (self.x * 1664525 + 1013904223) & MASK
        return (self.x >> 8) % n


class Digest:
    def __init__(self):
        self.h = 0xCBF29CE484222325

    def add(self, *numbers):
        for b in np.asarray(numbers, "<i4").tobytes():
            self.h = ((self.h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF

    def text(self):
        return f"{self.h:016x}"


def frame(k, height, width):
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return ((x * 5 + y * 3 + k * 29 + c * 71 + ((x * y) >> 3)) ^ ((x >> 2) * (k + 1))).astype(np.int64) & 255


def video(n, height, width):
    return np.stack([frame(k, height, width) for k in range(n)]).astype(np.uint8)


# 1. frames. name: class, document
FRAMES = [
    ("Qwen2VL", {"fps": 2, "do_sample_frames": True}), ("Qwen2VL", {"fps": 1.5, "min_frames": 2, "max_frames": 9, "do_sample_frames": True}),
    ("Qwen2VL", {"num_frames": 7, "do_sample_frames": True}), ("Qwen3VL", {}), ("Qwen3VL", {"fps": 0.7, "min_frames": 3, "max_frames": 11}),
    ("Qwen3VL", {"fps": None, "num_frames": 8}), ("LlavaOnevision", {"num_frames": 13, "do_sample_frames": True}),
    ("LlavaOnevision", {"fps": 3, "do_sample_frames": True}), ("InternVL", {"num_frames": 8, "do_sample_frames": True}),
    ("InternVL", {"fps": 2, "initial_shift": False, "do_sample_frames": True}), ("InternVL", {"num_frames": 5, "initial_shift": 1.75, "do_sample_frames": True}),
    ("SmolVLM", {"video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 512}}, "do_sample_frames": True}),
    ("SmolVLM", {"video_sampling": {"fps": 2.5, "max_frames": 6, "video_size": {"longest_edge": 512}}, "do_sample_frames": True}),
    ("Gemma4", {}),
]
RATES = [24.0, 25.0, 30.0, 29.97002997002997, 23.976023976023978, 15.0, 60.0, 12.5]
frames = []
for name, doc in FRAMES:
    p, numbers, d = CLASSES[name](**doc), Numbers(7), Digest()
    kwargs = {k: getattr(p, k, None) for k in p.valid_kwargs.__annotations__}
    for k in ("do_sample_frames", "video_metadata", "input_data_format", "device"):
        kwargs.pop(k, None)
    for _ in range(2000):
        total, fps = 1 + numbers.below(900), RATES[numbers.below(len(RATES))]
        try:
            got = [int(i) for i in p.sample_frames(metadata=VideoMetadata(total_num_frames=total, fps=fps, duration=total / fps), **kwargs)]
            if not got or got[-1] >= total:  # what it then takes of the video fails
                got = [i for i in got if i < total]
        except (ValueError, ZeroDivisionError, TypeError):
            got = []
        d.add(len(got), *got)
    frames.append({"class": name, "document": doc, "digest": d.text()})

# 2. sizes: what is handed to torchvision
captured = []
real_resize = TorchvisionBackend.resize
TorchvisionBackend.resize = lambda self, image, size, **kw: captured.append((size.height, size.width)) or image
SIZES = [("Qwen2VL", {}), ("Qwen2VL", {"min_pixels": 3136, "max_pixels": 12845056}), ("Qwen2VL", {"cap_pixels_per_frame": True, "max_video_tokens": 3000}),
         ("Qwen3VL", {}), ("Qwen3VL", {"size": {"shortest_edge": 4096, "longest_edge": 25165824}}),
         ("Qwen3VL", {"cap_pixels_per_frame": True, "max_video_tokens": 300, "size": {"shortest_edge": 4096, "longest_edge": 25165824}})]
sizes = []
DEFAULT_SIZE = dict(Qwen2VLVideoProcessor.size)
for name, doc in SIZES:
    Qwen2VLVideoProcessor.size = dict(DEFAULT_SIZE)  # min_pixels of an earlier one would stay in it
    p, numbers, d = CLASSES[name](**doc), Numbers(11), Digest()
    for _ in range(100_000):
        n, h, w = 1 + numbers.below(60), 1 + numbers.below(1500), 1 + numbers.below(1500)
        captured.clear()
        try:
            p.resize(videos=torch.empty(1, n, 3, h, w, device="meta"), size=p.size if isinstance(p.size, SizeDict) else SizeDict(**p.size), resample=3, factor=p.patch_size * p.merge_size,
                     temporal_factor=p.temporal_patch_size, cap_pixels_per_frame=p.cap_pixels_per_frame)
            d.add(*captured[0])
        except ValueError:
            d.add(-1, -1)
    sizes.append({"class": name, "document": doc, "digest": d.text()})
TorchvisionBackend.resize = real_resize

# 3. pixels
PIXELS = [("qwen2", "Qwen2VL", {"min_pixels": 28 * 28 * 4, "max_pixels": 28 * 28 * 6}, 5, 45, 70), ("qwen3", "Qwen3VL", {"do_sample_frames": False, "size": {"shortest_edge": 4096, "longest_edge": 20000}}, 4, 50, 41),
          ("onevision", "LlavaOnevision", {"size": {"height": 28, "width": 28}}, 3, 31, 40), ("internvl", "InternVL", {"size": {"height": 28, "width": 28}, "resample": 2}, 2, 60, 33),
          ("smolvlm", "SmolVLM", {"size": {"longest_edge": 60}, "max_image_size": {"longest_edge": 28}}, 3, 37, 52),
          ("gemma4", "Gemma4", {"do_sample_frames": False, "patch_size": 4}, 2, 60, 90)]
tensors = {}
pixels = []
for name, cls, doc, n, h, w in PIXELS:
    out = CLASSES[cls](**doc)([video(n, h, w)], return_tensors="pt")
    values = out["pixel_values_videos" if "pixel_values_videos" in out else "pixel_values"]
    values = values if torch.is_tensor(values) else torch.stack(values)
    tensors[name] = np.ascontiguousarray(values.float().numpy().reshape(-1)[::17])
    tensors[name + ".shape"] = np.array(values.shape, np.int32)
    pixels.append({"name": name, "class": cls, "document": doc, "frames": n, "height": h, "width": w})
save_file(tensors, f"{OUT}/videos.safetensors")


# 4. texts
def tokenizer(special, **more):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    f = PreTrainedTokenizerFast(tokenizer_object=t, extra_special_tokens=more)
    f.add_special_tokens({"additional_special_tokens": special})
    return f


def collapsed(ids, t, row):
    token, out, run = t.convert_tokens_to_ids(row), [], 0
    for i in ids + [None]:
        if i == token:
            run += 1
            continue
        if run:
            out.append(f"[{run}]")
        run = 0
        if i is not None:
            out.append(t.decode([i]))
    return "".join(out)


def qwen(cls, video_processor):
    t = tokenizer(["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"])
    return cls(image_processor=Qwen2VLImageProcessor(), tokenizer=t, video_processor=video_processor, chat_template="x"), t, "<|video_pad|>"


small = {"shortest_edge": 1024, "longest_edge": 20000}
FAMILIES = {
    "Qwen2VL": (lambda d: qwen(Qwen2_5_VLProcessor, Qwen2VLVideoProcessor(**d)), {"size": small}, "<|vision_start|><|video_pad|><|vision_end|>"),
    "Qwen3VL": (lambda d: qwen(Qwen3VLProcessor, Qwen3VLVideoProcessor(**d)), {"size": small, "do_sample_frames": False}, "<|vision_start|><|video_pad|><|vision_end|>"),
}


def onevision(d):
    t = tokenizer(["<image>", "<video>"], image_token="<image>", video_token="<video>")
    from transformers import LlavaOnevisionImageProcessor
    return LlavaOnevisionProcessor(image_processor=LlavaOnevisionImageProcessor(), tokenizer=t, video_processor=LlavaOnevisionVideoProcessor(**d),
                                   num_image_tokens=25, vision_feature_select_strategy="full", chat_template="x"), t, "<video>"


def internvl(d):
    names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}
    t = tokenizer(list(names.values()), **names)
    from transformers import GotOcr2ImageProcessor
    return InternVLProcessor(image_processor=GotOcr2ImageProcessor(), tokenizer=t, video_processor=InternVLVideoProcessor(**d), image_seq_length=16,
                             chat_template="x"), t, "<IMG_CONTEXT>"


def smolvlm(d):
    names = {"fake_image_token": "<fake_token_around_image>", "global_image_token": "<global-img>", "image_token": "<image>", "video_token": "<video>",
             "end_of_utterance_token": "<end_of_utterance>"}
    t = tokenizer(list(names.values()), **names)
    return SmolVLMProcessor(image_processor=SmolVLMImageProcessor(), tokenizer=t, video_processor=SmolVLMVideoProcessor(**d), image_seq_len=4,
                            chat_template="x"), t, "<image>"


FAMILIES["LlavaOnevision"] = (onevision, {"size": {"height": 35, "width": 35}}, "<video>")
FAMILIES["InternVL"] = (internvl, {"size": {"height": 32, "width": 32}}, "<video>")
FAMILIES["SmolVLM"] = (smolvlm, {"size": {"longest_edge": 60}, "max_image_size": {"longest_edge": 32}}, "<video>")
texts = []
for name, (make, doc, placeholder) in FAMILIES.items():
    for n, fps in ((5, 0.0), (4, 1.6), (23, 0.31), (112, 3.0)):
        if n > 30 and name != "SmolVLM":
            continue
        p, t, row = make(json.loads(json.dumps(doc)))
        kw = {} if fps == 0 else {"video_metadata": [{"total_num_frames": n, "fps": fps, "duration": n / fps, "frames_indices": list(range(n))}]}
        if name == "SmolVLM":
            kw = {k: [v] for k, v in kw.items()}
        o = p(text=[placeholder], videos=[[video(n, 40, 36)]] if name == "SmolVLM" else [video(n, 40, 36)], do_sample_frames=False, return_tensors="pt", **kw)
        ids = o["input_ids"]
        ids = (ids.tolist() if torch.is_tensor(ids) else ids)[0]
        grid = [float(g) for g in o["second_per_grid_ts"]][0] if "second_per_grid_ts" in o else 0
        texts.append({"class": name, "document": doc, "frames": n, "fps": fps, "text": collapsed(ids, t, row), "seconds": grid})
# 5. what LLaVA-OneVision makes of the rows of a frame
blends = []
for side in (5, 6):
    rows = torch.randn(1, 1, side, side, generator=torch.manual_seed(3))
    half = (side + 1) // 2
    out = torch.nn.functional.interpolate(rows, size=[half, half], mode="bilinear")
    blends.append({"side": side, "rows": rows.flatten().tolist(), "out": out.flatten().tolist()})
json.dump({"blends": blends, "frames": frames, "sizes": sizes, "pixels": pixels, "texts": texts}, open(f"{OUT}/videos.json", "w"), indent=1)
