"""Our decoders and resize against Pillow: every PNG mode, JPEG, WebP and GIF in random settings, 100 random sizes under every filter;
0 bytes may differ.

  python3 oracle_resize.py TOOL DIR      TOOL: tool_image; DIR: scratch
"""
import os, random, subprocess, sys, zlib, struct
import numpy as np
from PIL import Image

TOOL, DIR = sys.argv[1], sys.argv[2]
rng, nrng = random.Random(11), np.random.default_rng(11)


def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(name, w, h, depth, ctype, raw, extra=b"", interlace=0):
    """A PNG written by hand, for the modes Pillow cannot write. raw: filtered lines."""
    b = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, ctype, 0, 0, interlace)) + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    path = os.path.join(DIR, name)
    open(path, "wb").write(b)
    return path


def lines(w, h, bits):
    return b"".join(b"\0" + nrng.integers(0, 256, (w * bits + 7) // 8, dtype=np.uint8).tobytes() for _ in range(h))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def interlaced(w, h, bits):
    out = b""
    for x0, y0, dx, dy in ADAM7:
        pw, ph = (w - x0 + dx - 1) // dx, (h - y0 + dy - 1) // dy
        if pw > 0 and ph > 0: out += lines(pw, ph, bits)
    return out


def modes():
    out = []
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    for ctype, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            for inter in (0, 1):
                for trns in (0, 1):
                    w, h = rng.randrange(1, 40), rng.randrange(1, 40)
                    bits, extra = depth * channels[ctype], b""
                    if ctype == 3:
                        n = 1 << depth
                        extra = chunk(b"PLTE", nrng.integers(0, 256, n * 3, dtype=np.uint8).tobytes())
                    if trns and ctype in (0, 2, 3):
                        extra += chunk(b"tRNS", nrng.integers(0, 256, 5 if ctype == 3 else 0, dtype=np.uint8).tobytes()[: 1 << depth] if ctype == 3 else struct.pack(">H" if ctype == 0 else ">HHH", *([1] if ctype == 0 else [1, 1, 1])))
                    elif trns: continue
                    raw = interlaced(w, h, bits) if inter else lines(w, h, bits)
                    out.append(png(f"t{ctype}d{depth}i{inter}a{trns}.png", w, h, depth, ctype, raw, extra, inter))
    return out


def soft(w, h):
    """Something like a photo: slopes, an edge, some noise."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([127 + 120 * np.sin(x * rng.uniform(.01, .4) + y * rng.uniform(.01, .4) + c) for c in range(3)], -1) + nrng.normal(0, 9, (h, w, 3))
    a[h // 3: h // 2, w // 4: w // 2] = nrng.integers(0, 256, 3)
    return Image.fromarray(np.clip(a, 0, 255).astype(np.uint8))


def photos(n):
    out = []
    for i in range(n):
        im, path = soft(rng.randrange(1, 90), rng.randrange(1, 90)), os.path.join(DIR, f"p{i}")
        kind = ("JPEG", "JPEG", "WEBP", "GIF")[i % 4]
        if kind == "JPEG":
            more = dict(quality=rng.randrange(1, 101), subsampling=rng.choice((0, 1, 2, "4:1:1")), progressive=rng.random() < .5, optimize=rng.random() < .5,
                        restart_marker_blocks=rng.choice((0, 0, 1, 3)))
            im = im.convert(rng.choice(("RGB", "RGB", "RGB", "L", "CMYK")))
        elif kind == "WEBP":
            more = dict(quality=rng.randrange(0, 101), lossless=rng.random() < .4, method=rng.randrange(0, 7), exact=rng.random() < .5)
            if rng.random() < .5: im.putalpha(soft(*im.size).convert("L"))
            if rng.random() < .3: more.update(save_all=True, append_images=[soft(*im.size)], duration=40)
        else:
            more = dict(interlace=rng.randrange(2), optimize=rng.random() < .5)
            im = im.quantize(rng.choice((2, 5, 16, 255, 256))) if rng.random() < .8 else im.convert("L")
            if rng.random() < .3: more.update(transparency=1)
        im.save(path, kind, **more)
        out.append(path)
    return out


def jobs_run(jobs):
    text = "".join(f"{f} {w} {h} {k} {o}\n" for f, w, h, k, o in jobs)
    r = subprocess.run([TOOL], input=text.encode(), capture_output=True)
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout.decode().splitlines()


def main():
    bad, jobs, want = 0, [], []
    for path in modes() + photos(200):
        want.append(np.asarray(Image.open(path).convert("RGB")))
        jobs.append((path, 0, 0, -1, path + ".raw"))
    n_modes = len(jobs)
    for i in range(100):
        w, h = (rng.choice([rng.randrange(1, 30), rng.randrange(1, 400)]) for _ in range(2))
        W, H = (rng.choice([rng.randrange(1, 30), rng.randrange(1, 400)]) for _ in range(2))
        if i % 10 == 0: W = w
        if i % 10 == 5: H = h
        noise = nrng.integers(0, 256, (h, w, 3), dtype=np.uint8) if i % 2 else np.repeat(nrng.integers(0, 2, (h, w, 1), dtype=np.uint8) * 255, 3, -1)
        im, path = Image.fromarray(noise), os.path.join(DIR, f"r{i}.png")
        im.save(path)
        for k, f in ((0, Image.NEAREST), (1, Image.LANCZOS), (2, Image.BILINEAR), (3, Image.BICUBIC), (4, Image.BOX), (5, Image.HAMMING)):
            jobs.append((path, W, H, k, f"{path}.{k}.raw"))
            want.append(np.asarray(im.resize((W, H), f)))
    for job, line, w in zip(jobs, jobs_run(jobs), want):
        if not line.startswith("ok "):
            bad += 1; print(job, line); continue
        got = np.fromfile(job[4], np.uint8)
        if got.size != w.size or int((got != w.reshape(-1)).sum()) != 0:
            bad += 1; print(job[:4], "differs in", int((got != w.reshape(-1)).sum()) if got.size == w.size else "size", w.shape)
    print(f"{n_modes} files decoded, {len(jobs) - n_modes} resizes, {bad} differ")
    return 1 if bad else 0


sys.exit(main())
