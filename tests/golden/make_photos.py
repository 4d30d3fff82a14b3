#!/usr/bin/env python3
"""Write photos.tsv: small JPEG, WebP and GIF files in every form that changes pixels, and what transformers
makes of them, ImageOps.exif_transpose(Image.open(..)).convert("RGB") of Pillow 12.

    python3 tests/golden/make_photos.py > tests/golden/photos.tsv

Rows are those of make_pictures.py."""
import io
import random
import struct

from PIL import Image, ImageOps

rng = random.Random(5)


def expected(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    return image.width, image.height, image.tobytes()


def photo(width, height):
    """Soft colours with some noise."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            image.putpixel((x, y), tuple(min(255, max(0, int(127 + 90 * ((x * (c + 2) + y * 3) % 23 - 11) / 11 +
                                                               rng.randrange(-20, 20)))) for c in range(3)))
    return image


def save(image, kind, **more):
    out = io.BytesIO()
    image.save(out, kind, **more)
    return out.getvalue()


def tiff(orientation, order="<"):
    return ({"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IH", 8, 1) +
            struct.pack(order + "HHIH2x", 0x112, 3, 1, orientation) + bytes(4))


def app1(payload):
    return b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload


def exif(orientation, order="<"):
    return app1(b"Exif\0\0" + tiff(orientation, order))


def xmp(orientation):
    return app1(b"http://ns.adobe.com/xap/1.0/\0" + b'<r tiff:Orientation="%d"/>' % orientation)


def put(data, *segments):
    """Behind the start of a JPEG."""
    return data[:2] + b"".join(segments) + data[2:]


def adobe(data, transform):
    at = data.index(b"Adobe") + 11
    return data[:at] + bytes([transform]) + data[at + 1:]


def without_adobe(data):
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]:]


def layers(data, n):
    at = data.index(b"\xff\xc0") + 9
    return data[:at] + bytes([n]) + data[at + 1:]


def riff(chunk_name, payload, data, flag):
    """A WebP with one more chunk behind it; data is of the extended form."""
    chunk = chunk_name + struct.pack("<I", len(payload)) + payload + b"\0" * (len(payload) % 2)
    body = data[8:] + chunk
    body = body[:12] + bytes([body[12] | flag]) + body[13:]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif_screen(data, width, height):
    return data[:6] + struct.pack("<HH", width, height) + data[10:]


def gif_place(data, left, top):
    at = data.index(b",", 13 + (3 << (data[10] & 7) + 1 if data[10] & 128 else 0))
    return data[:at + 1] + struct.pack("<HH", left, top) + data[at + 5:]


p = photo(19, 13)
small = photo(9, 6)
cmyk = save(p.convert("CMYK"), "JPEG", quality=90)
base = save(small, "JPEG", quality=80)
alpha = photo(9, 7)
alpha.putalpha(photo(9, 7).convert("L"))
indexed = photo(7, 5).quantize(8)
lossless = save(small, "WEBP", lossless=True, exif=b"Exif\0\0" + tiff(1))
gif = save(indexed, "GIF", interlace=0)
good = {
    "jpeg-444": save(p, "JPEG", quality=90, subsampling=0),
    "jpeg-422": save(p, "JPEG", quality=90, subsampling=1),
    "jpeg-420": save(p, "JPEG", quality=75, subsampling=2),
    "jpeg-411": save(p, "JPEG", quality=75, subsampling="4:1:1"),
    "jpeg-rgb": save(p, "JPEG", quality=90, keep_rgb=True),
    "jpeg-gray": save(p.convert("L"), "JPEG", quality=60),
    "jpeg-gray-progressive": save(p.convert("L"), "JPEG", quality=60, progressive=True),
    "jpeg-progressive": save(p, "JPEG", quality=70, progressive=True, subsampling=2),
    "jpeg-restarts": save(p, "JPEG", quality=70, restart_marker_blocks=1),
    "jpeg-optimized": save(p, "JPEG", quality=70, optimize=True),
    "jpeg-worst": save(p, "JPEG", quality=1),
    "jpeg-best": save(p, "JPEG", quality=100),
    "jpeg-one": save(photo(1, 1), "JPEG"),
    "jpeg-line": save(photo(23, 1), "JPEG", subsampling=2),
    "jpeg-column": save(photo(1, 23), "JPEG", subsampling=2),
    "jpeg-cmyk": cmyk,
    "jpeg-cmyk-progressive": save(p.convert("CMYK"), "JPEG", quality=90, progressive=True),
    "jpeg-cmyk-no-adobe": without_adobe(cmyk),
    "jpeg-ycck": adobe(cmyk, 2),
    "jpeg-rgb-adobe": put(without_adobe(save(p, "JPEG", keep_rgb=True)), b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0"),
    "jpeg-profile": save(small, "JPEG", icc_profile=bytes(200)),
    "jpeg-comment": save(small, "JPEG", comment=b"said"),
    "jpeg-exif-big-endian": put(base, exif(6, ">")),
    "jpeg-exif-and-xmp": put(base, exif(3), xmp(6)),
    "jpeg-exif-none-and-xmp": put(base, app1(b"Exif\0\0II*\0\10\0\0\0\0\0\0\0\0\0"), xmp(6)),
    "jpeg-xmp": put(base, xmp(8)),
    "jpeg-xmp-twice": put(base, xmp(8), xmp(3)),
    "jpeg-exif-twice": put(base, exif(6), exif(3)),
    "jpeg-exif-junk": put(base, app1(b"Exif\0\0junk" + bytes(20))),
    "jpeg-exif-junk-and-xmp": put(base, app1(b"Exif\0\0junk" + bytes(20)), xmp(6)),
    "jpeg-other-app1": put(base, app1(b"http://ns.adobe.com/xmp/extension/\0" + bytes(40))),
    "jpeg-fill-bytes": base[:2] + b"\xff\xff\xff" + base[2:],
    "jpeg-trailing": base + bytes(50),
    "webp": save(p, "WEBP", quality=80),
    "webp-worst": save(p, "WEBP", quality=0),
    "webp-lossless": save(p, "WEBP", lossless=True),
    "webp-alpha": save(alpha, "WEBP", quality=80),
    "webp-alpha-lossless": save(alpha, "WEBP", lossless=True),
    "webp-alpha-exact": save(alpha, "WEBP", lossless=True, exact=True),
    "webp-animated": save(small, "WEBP", save_all=True, append_images=[photo(9, 6)], duration=40),
    "webp-animated-alpha": save(alpha, "WEBP", save_all=True, append_images=[alpha.rotate(180)], duration=40),
    "webp-exif": save(small, "WEBP", exif=b"Exif\0\0" + tiff(6)),
    "webp-exif-bare": save(small, "WEBP", lossless=True, exif=tiff(8)),
    "webp-xmp": save(small, "WEBP", xmp=b'<r tiff:Orientation="3"/>'),
    "webp-exif-and-xmp": save(small, "WEBP", exif=b"Exif\0\0" + tiff(5), xmp=b'<r tiff:Orientation="3"/>'),
    "webp-one": save(photo(1, 1), "WEBP"),
    "gif": gif,
    "gif-interlaced": save(photo(11, 19).quantize(16), "GIF", interlace=1),
    "gif-256": save(photo(16, 16).quantize(256), "GIF"),
    "gif-two-colours": save(photo(9, 4).convert("1"), "GIF"),
    "gif-gray": save(photo(9, 4).convert("L"), "GIF"),
    "gif-transparent": save(indexed, "GIF", transparency=2),
    "gif-animated": save(indexed, "GIF", save_all=True, append_images=[photo(7, 5).quantize(8)], duration=40),
    "gif-larger-screen": gif_screen(gif, 12, 9),
    "gif-placed": gif_place(gif_screen(gif, 12, 9), 3, 2),
    "gif-placed-transparent": gif_place(gif_screen(save(indexed, "GIF", transparency=2), 12, 9), 3, 2),
    "gif-outside-screen": gif_place(gif, 3, 2),
    "gif-comment": save(indexed, "GIF", comment=b"said" * 100),
    "gif-87": b"GIF87a" + gif[6:],
    "gif-no-end": gif[:-1],
    "gif-trailing": gif + bytes(20),
}
good.update({"jpeg-exif-%d" % i: put(base, exif(i)) for i in range(10)})
soft = save(p, "JPEG", quality=90)
bad = {
    "jpeg-no-end": (soft[:-2], "ends too early"),
    "jpeg-half-an-end": (soft[:-1], "ends too early"),
    "jpeg-cut": (soft[:-60], "ends too early"),
    "jpeg-cut-in-header": (soft[:100], "ends too early"),
    "jpeg-two-layers": (layers(base, 2), ""),
    "webp-cut": (save(p, "WEBP", quality=80)[:-20], "ends too early"),
    "webp-lossless-cut": (save(p, "WEBP", lossless=True)[:-20], "ends too early"),
    "gif-cut": (gif[:-12], "ends too early"),
    "gif-cut-in-header": (gif[:11], "ends too early"),
    "gif-without-picture": (gif[:13 + 24] + b";", ""),
}
if __name__ == "__main__":
    for name, data in good.items():
        width, height, pixels = expected(data)
        print(name, data.hex(), width, height, pixels.hex(), sep="\t")
    for name, (data, reason) in bad.items():
        try:
            expected(data)
            raise SystemExit(name + " is read by Pillow")
        except (OSError, SyntaxError, EOFError):
            print(name, data.hex(), "-", "-", reason, sep="\t")
