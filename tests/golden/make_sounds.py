#!/usr/bin/env python3
"""Write sounds.safetensors and sounds.json: what transformers makes of sounds, as oracles.

    python3 tests/golden/make_sounds.py tests/golden      needs transformers, torch, numpy, soxr, safetensors

The sounds are not stored: signal() here and in tests/unit/test_input_sound.c make the same integers.
NAME.MELS.at: frames that are kept, NAME.MELS: their log-mel (frames, mels) of WhisperFeatureExtractor.
voxtral.*: of all chunks, as VoxtralProcessor calls it. resampled.NAME: what librosa.load returns (mean over the
channels, soxr at its high quality, fitted to ceil(n * ratio)): the first, middle and last samples.
sounds.json: digests of token counts of 100,000 lengths."""
import json
import math
import sys

import numpy as np
import soxr
import torch
from safetensors.numpy import save_file
from transformers import WhisperFeatureExtractor
from transformers.models.qwen2_audio.modeling_qwen2_audio import Qwen2AudioEncoder

OUT = sys.argv[1]
MASK = 0xFFFFFFFF


def signal(n, seed, step, sweep, loud, noise):
    """16-bit: a triangle whose frequency rises, and noise; `noise` 0 to 16 bits are shifted away."""
    out, x, phase = np.zeros(n, np.int64), seed, 0
    for i in range(n):
        x = (x * 1664525 + 1013904223) & MASK
        phase = (phase + step + (i * sweep >> 16)) & 0xFFFF
        out[i] = (abs(phase - 32768) - 16384) * loud // 256 + (((x >> 16) - 32768) >> noise)
    return np.clip(out, -32768, 32767)


#        samples  seed step sweep loud noise
CLIPS = {
    "sweep": (32037, 1, 900, 3000, 200, 6),
    "noise": (8000, 2, 0, 0, 0, 2),
    "quiet": (16000, 3, 1802, 0, 1, 15),
    "zeros": (1600, 4, 0, 0, 0, 16),
    "tiny": (160, 5, 700, 0, 128, 4),
    "short": (399, 6, 700, 0, 128, 4),
    "one": (1, 7, 700, 0, 255, 4),
    "long": (31 * 16000, 8, 500, 90, 160, 5),
}
STEREO = {  # two or more channels: seed + channel
    "stereo44": (44100, 2, 30011, 11), "eight": (8000, 1, 9001, 12), "six48": (48000, 6, 20000, 13),
    "same16": (16000, 2, 5000, 14), "eleven": (11025, 1, 300, 15),
}


def log_mel(extractor, x, **more):
    return extractor(x, sampling_rate=extractor.sampling_rate, return_tensors="np", **more).input_features


tensors = {}


def keep(name, frames):  # (frames, mels): some at the start and around the end of the sound, the rest far apart
    at = np.unique(np.concatenate([np.arange(0, 6), np.linspace(0, len(frames) - 1, 18).astype(int)])).astype(np.int32)
    tensors[name + ".at"], tensors[name] = at, np.ascontiguousarray(frames[at])


for name, (n, *args) in CLIPS.items():
    x = signal(n, *args).astype(np.float32) / np.float32(32768)
    for mels in (80, 128):
        keep(f"{name}.{mels}", log_mel(WhisperFeatureExtractor(feature_size=mels), x)[0].T)
other = WhisperFeatureExtractor(feature_size=40, sampling_rate=12000, hop_length=120, chunk_length=5, n_fft=330,
                                padding_value=0.25)
keep("other.40", log_mel(other, signal(20000, 9, 700, 500, 100, 5).astype(np.float32) / np.float32(32768))[0].T)
x = signal(31 * 16000, 8, 500, 90, 160, 5).astype(np.float32) / np.float32(32768)
keep("voxtral.128", log_mel(WhisperFeatureExtractor(feature_size=128), x, padding=True, truncation=False,
                            pad_to_multiple_of=480000)[0].T)
for name, (rate, channels, n, seed) in STEREO.items():
    q = np.stack([signal(n, seed + c, 700 + 100 * c, 2000, 150, 5) for c in range(channels)], -1)
    y = np.mean((q.astype(np.float32) / np.float32(32768)).T, axis=0) if channels > 1 else q[:, 0].astype(np.float32) / np.float32(32768)
    if rate != 16000:
        want = int(np.ceil(n * (float(16000) / rate)))
        y = soxr.resample(y, rate, 16000, quality="HQ")
        y = y[:want] if len(y) >= want else np.pad(y, (0, want - len(y)))
    m = len(y) // 2
    tensors[f"resampled.{name}"] = np.concatenate([y[:200], y[m:m + 200], y[-200:]]).astype(np.float32)
    tensors[f"resampled.{name}.n"] = np.array([len(y)], np.int32)
save_file(tensors, f"{OUT}/sounds.safetensors")


def digest(counts):
    h = 0xCBF29CE484222325
    for b in np.asarray(counts, "<i4").tobytes():
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def lengths():
    x, out = 99, []
    for i in range(100_000):
        x = (x * 1664525 + 1013904223) & MASK
        out.append(1 + (x >> 8) % (5000 if i % 4 == 0 else 2_000_000))
    return out


def qwen_rows(frames):
    return Qwen2AudioEncoder._get_feat_extract_output_lengths(None, torch.tensor(frames))[1].tolist()


all_lengths = lengths()
frames = [math.ceil(min(n, 480000) / 160) for n in all_lengths]
extractor = WhisperFeatureExtractor(feature_size=8)
for n in all_lengths[:60]:  # the formula of the frames is what the mask says
    mask = extractor(np.zeros(n, np.float32), sampling_rate=16000, return_attention_mask=True)["attention_mask"]
    assert int(mask.sum()) == math.ceil(min(n, 480000) / 160), n
json.dump({"qwen2_audio": digest(qwen_rows(frames)), "whisper": digest([1500] * len(frames)),
           "voxtral": digest([math.ceil(n / 480000) * 375 for n in all_lengths])}, open(f"{OUT}/sounds.json", "w"), indent=1)
