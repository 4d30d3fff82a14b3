#!/usr/bin/env python3
"""Write media/: small sounds and videos in the formats that people bring, and media.safetensors, what libsndfile (through
soundfile) and ffmpeg (through PyAV) make of them. They are also where fuzzing starts.

    python3 tests/golden/make_media.py tests/golden      needs numpy, soundfile, av, safetensors

FILE: float32 samples (n, channels), or uint8 frames (n, height, width, 3); FILE.rate: [samples a second], or
[numerator, denominator] of frames a second."""
import io
import os
import sys
from fractions import Fraction

import av
import numpy as np
import soundfile as sf
from safetensors.numpy import save_file

OUT = sys.argv[1]
os.makedirs(f"{OUT}/media", exist_ok=True)
rng = np.random.default_rng(5)
tensors = {}

SOUNDS = {"mono.flac": ("FLAC", "PCM_24", 16000, 1), "stereo.ogg": ("OGG", "VORBIS", 16000, 2), "voice.opus": ("OGG", "OPUS", 16000, 1),
          "stereo.mp3": ("MP3", "MPEG_LAYER_III", 22050, 2), "ulaw.wav": ("WAV", "ULAW", 8000, 1), "float.wav": ("WAV", "FLOAT", 11025, 2),
          "six.wav": ("WAVEX", "PCM_16", 8000, 6)}
for name, (format, kind, rate, channels) in SOUNDS.items():
    t = np.arange(rate // 8) / rate
    x = np.stack([0.4 * np.sin(2 * np.pi * (220 + 110 * c + 900 * t) * t) for c in range(channels)], -1) + rng.normal(0, 0.01, (len(t), channels))
    path = f"{OUT}/media/{name}"
    sf.write(path, x, rate, format=format, subtype=kind)
    y, r = sf.read(path, dtype="float32", always_2d=True)
    tensors[name], tensors[name + ".rate"] = y, np.array([r], np.int32)

CLIPS = {"h264.mp4": ("libx264", "yuv420p", 25, 1), "vp9.webm": ("libvpx-vp9", "yuv420p", 24, 1), "mpeg4.avi": ("mpeg4", "yuv420p", 10, 1),
         "h264.mkv": ("libx264", "yuv444p", 30000, 1001)}
for name, (codec, pixels, num, den) in CLIPS.items():
    path = f"{OUT}/media/{name}"
    out = av.open(path, "w")
    stream = out.add_stream(codec, rate=Fraction(num, den))
    stream.width, stream.height, stream.pix_fmt = 32, 24, pixels
    y, x = np.mgrid[0:24, 0:32]
    for k in range(7):
        rgb = np.stack([(x * 6 + k * 9) % 256, (y * 8 + k * 5) % 256, (x * 3 + y * 4) % 256], -1).astype(np.uint8)
        out.mux(stream.encode(av.VideoFrame.from_ndarray(rgb, format="rgb24")))
    out.mux(stream.encode())
    out.close()
    tensors[name] = np.stack([f.to_ndarray(format="rgb24") for f in av.open(path).decode(video=0)])
    tensors[name + ".rate"] = np.array([num, den], np.int32)
save_file(tensors, f"{OUT}/media.safetensors")
