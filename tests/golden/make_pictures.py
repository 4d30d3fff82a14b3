#!/usr/bin/env python3
"""Write pictures.tsv: small PNG files in every form that changes pixels, and what transformers makes of
them, ImageOps.exif_transpose(Image.open(..)).convert("RGB") of Pillow 12.

    python3 tests/golden/make_pictures.py > tests/golden/pictures.tsv

A row: name, file in hexadecimal, width, height, pixels in hexadecimal; or "-", "-" and a word of the
reason where the file is refused here."""
import io
import struct
import warnings
import zlib

from PIL import Image, ImageOps


def chunk(kind, data, damage=0):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ damage)


def png(width, height, depth, colour, rows, before=b"", after=b"", interlace=0):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", zlib.compress(rows)) +
            after + chunk(b"IEND", b""))


def exif(orientation, kind=3, order="<", count=1, tag=0x112):
    value = {1: "B3x", 3: "H2x", 4: "I", 6: "b3x", 8: "h2x", 9: "i"}[kind]
    return ({"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IH", 8, 1) +
            struct.pack(order + "HHI", tag, kind, count) + struct.pack(order + value, orientation) + bytes(4))


def profile(block):
    digits = (b"Exif\0\0" + block).hex().encode()
    return b"\nexif\n%8d\n" % (len(block) + 6) + b"\n".join(
        digits[i:i + 72] for i in range(0, len(digits), 72)) + b"\n"


def itxt(key, value, packed=0):
    return chunk(b"iTXt", key + b"\0" + bytes([packed, 0]) + b"\0\0" +
                 (zlib.compress(value) if packed else value))


def expected(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    return image.width, image.height, image.tobytes()


def adam7(width, height, pixel):
    """Filtered rows of the seven passes; pixel(x, y) -> bytes."""
    out = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                           (0, 1, 1, 2)):
        for y in range(y0, height, dy):
            row = b"".join(pixel(x, y) for x in range(x0, width, dx))
            out += b"\0" + row if row else b""
    return out


colours = b"".join(b"\0" + bytes(10 * (y * 3 + x) + c for x in range(3) for c in range(3)) for y in range(2))
gray16 = b"".join(b"\0" + struct.pack(">4H", *row) for row in ((0, 100, 255, 256), (300, 4096, 65535, 254)))
palette = chunk(b"PLTE", bytes([10, 20, 30, 40, 50, 60]))
packet = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'
xmp = b"XML:com.adobe.xmp"
rgb = lambda **more: png(3, 2, 8, 2, colours, **more)
plain = rgb()
good = {
    "gray-16": png(4, 2, 16, 0, gray16),
    "gray-16-trns": png(4, 2, 16, 0, gray16, chunk(b"tRNS", b"\0\x64")),
    "gray-16-interlaced": png(3, 3, 16, 0, adam7(3, 3, lambda x, y: struct.pack(">H", x * 100 + y * 80)), interlace=1),
    "gray-16-alpha": png(2, 1, 16, 4, b"\0" + struct.pack(">4H", 300, 65535, 65535, 0)),
    "rgb-16": png(2, 1, 16, 2, b"\0" + struct.pack(">6H", 0, 100, 255, 256, 4096, 65535)),
    "rgba-16": png(1, 1, 16, 6, b"\0" + struct.pack(">4H", 300, 4096, 65535, 0)),
    "gray-1": png(4, 1, 1, 0, b"\0\xa0"),
    "gray-2": png(4, 1, 2, 0, b"\0\x1b"),
    "gray-4": png(2, 1, 4, 0, b"\0\x3f"),
    "gray-1-trns": png(4, 1, 1, 0, b"\0\xa0", chunk(b"tRNS", b"\0\1")),
    "gray-2-trns": png(4, 1, 2, 0, b"\0\x1b", chunk(b"tRNS", b"\0\1")),
    "gray-8-alpha": png(2, 1, 8, 4, b"\0\x40\0\x80\xff"),
    "gray-8-interlaced": png(5, 5, 8, 0, adam7(5, 5, lambda x, y: bytes([x * 9 + y * 5])), interlace=1),
    "rgba-8": png(2, 1, 8, 6, b"\0\1\2\3\0\4\5\6\xff"),
    "rgb-8-trns": png(1, 1, 8, 2, b"\0\1\2\3", chunk(b"tRNS", struct.pack(">3H", 1, 2, 3))),
    "palette-8": png(2, 1, 8, 3, b"\0\0\1", palette),
    "palette-1-trns": png(4, 1, 1, 3, b"\0\xa0", palette + chunk(b"tRNS", b"\0")),
    "palette-interlaced": png(3, 3, 8, 3, adam7(3, 3, lambda x, y: bytes([(x + y) % 2])), palette, interlace=1),
    "gamma": png(2, 1, 8, 0, b"\0\x40\x80", chunk(b"gAMA", struct.pack(">I", 100000))),
    "significant-bits": png(2, 1, 8, 0, b"\0\x40\x80", chunk(b"sBIT", b"\4")),
    "srgb": png(2, 1, 8, 0, b"\0\x40\x80", chunk(b"sRGB", b"\0")),
    "profile": png(2, 1, 8, 2, b"\0\1\2\3\4\5\6", chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(132)))),
    "background": png(2, 1, 8, 4, b"\0\x40\0\x80\xff", chunk(b"bKGD", b"\0\xff")),
    "exif-big-endian": rgb(before=chunk(b"eXIf", exif(6, order=">"))),
    "exif-after-pixels": rgb(after=chunk(b"eXIf", exif(6))),
    "exif-prefix": rgb(before=chunk(b"eXIf", b"Exif\0\0" + exif(6))),
    "exif-twice": rgb(before=chunk(b"eXIf", exif(6)) + chunk(b"eXIf", exif(3))),
    "exif-other-tag": rgb(before=chunk(b"eXIf", exif(6, tag=0x113))),
    "exif-two-values": rgb(before=chunk(b"eXIf", exif(6, count=2))),
    "exif-four-values": rgb(before=chunk(b"eXIf", exif(26, kind=4, count=4) + struct.pack("<4I", 6, 3, 3, 3))),
    "exif-cut": rgb(before=chunk(b"eXIf", exif(6)[:14])),
    "exif-empty": rgb(before=chunk(b"eXIf", b"")),
    "exif-palette": png(2, 1, 8, 3, b"\0\0\1", palette + chunk(b"eXIf", exif(8))),
    "exif-gray-16": png(4, 2, 16, 0, gray16, chunk(b"eXIf", exif(5))),
    "exif-one-and-xmp": rgb(before=chunk(b"eXIf", exif(1)) + itxt(xmp, packet % 6)),
    "exif-nine-and-xmp": rgb(before=chunk(b"eXIf", exif(9)) + itxt(xmp, packet % 6)),
    "exif-without-and-xmp": rgb(before=chunk(b"eXIf", exif(6, tag=0x113)) + itxt(xmp, packet % 6)),
    "xmp": rgb(before=itxt(xmp, packet % 6)),
    "xmp-zero": rgb(before=itxt(xmp, packet % 0)),
    "xmp-element": rgb(before=itxt(xmp, b"<tiff:Orientation>8</tiff:Orientation>")),
    "xmp-packed": rgb(before=itxt(xmp, packet % 6, 1)),
    "xmp-after-pixels": rgb(after=itxt(xmp, packet % 6)),
    "xmp-as-text": rgb(before=chunk(b"tEXt", xmp + b"\0" + packet % 6)),
    "xmp-twice": rgb(before=itxt(xmp, packet % 6) + itxt(xmp, packet % 3)),
    "xmp-without": rgb(before=itxt(xmp, b"<rdf/>")),
    "text-profile": rgb(before=chunk(b"tEXt", b"Raw profile type exif\0" + profile(exif(6)))),
    "text-profile-packed": rgb(before=chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(exif(6))))),
    "text-profile-and-exif": rgb(before=chunk(b"tEXt", b"Raw profile type exif\0" + profile(exif(6))) +
                                 chunk(b"eXIf", exif(3))),
    "text-profile-app1": rgb(before=chunk(b"tEXt", b"Raw profile type APP1\0" + profile(exif(6)))),
    "no-end": plain[:-12],
    "half-an-end": plain[:-4],
    "cut-in-checksum": plain[:-14],
    "cut-before-checksum": plain[:-16],
    "cut-in-adler": plain[:-18],
    "cut-before-adler": plain[:-20],
    "no-end-palette": png(2, 1, 8, 3, b"\0\0\1", palette)[:-12],
    "no-end-interlaced": png(5, 5, 8, 0, adam7(5, 5, lambda x, y: bytes([x * 9 + y * 5])), interlace=1)[:-20],
    "no-end-exif": rgb(before=chunk(b"eXIf", exif(6)))[:-12],
    "no-end-exif-after": rgb(after=chunk(b"eXIf", exif(6)))[:-12],
}
good.update({"exif-%d" % i: rgb(before=chunk(b"eXIf", exif(i))) for i in range(10)})
good.update({"exif-type-%d" % i: rgb(before=chunk(b"eXIf", exif(6, kind=i))) for i in (1, 4, 6, 8, 9)})
# noise does not compress: a cut takes pixels with it
noise = bytes(1 + (i * i * 7919 + i * 104729) % 251 for i in range(30 * 30))
noise = png(30, 30, 8, 0, b"".join(b"\0" + noise[y * 30:y * 30 + 30] for y in range(30)))
bad = {
    "palette-beyond": (png(4, 1, 8, 3, b"\0\0\1\2\7", palette), "colour 2 of a palette of 2"),
    "palette-beyond-2-bits": (png(4, 1, 2, 3, b"\0\x1b", palette), "colour 2 of a palette of 2"),
    "palette-missing": (png(2, 1, 8, 3, b"\0\0\1"), "PLTE"),
    "cut-in-pixels": (noise[:-24], "ends too early"),
    "cut-in-the-middle": (noise[:len(noise) // 2], "ends too early"),
    "cut-in-exif": (rgb(after=chunk(b"eXIf", exif(6)))[:-22], "ends too early"),
    "exif-checksum": (rgb(before=chunk(b"eXIf", exif(6), damage=1)), "CRC"),
    "exif-checksum-after": (rgb(after=chunk(b"eXIf", exif(6), damage=1)), "CRC"),
    "exif-junk": (rgb(before=chunk(b"eXIf", b"junk")), "Exif"),
    "text-profile-junk": (rgb(before=chunk(b"tEXt", b"Raw profile type exif\0\nexif\n 2\nzz\n")), "hexadecimal"),
}
for name, data in good.items():
    width, height, pixels = expected(data)
    print(name, data.hex(), width, height, pixels.hex(), sep="\t")
for name, (data, reason) in bad.items():
    print(name, data.hex(), "-", "-", reason, sep="\t")
