"""Writes the golden data of pixels_test.go with Pillow: python3 pixels.py

pixels.json holds SHA-256 sums of samples of 16 bits (little-endian) and of grey
bytes, for pictures that both sides make from the same generator and for small
files beside it. Samples of 16 bits are resized in mode I, which every version
of Pillow has: those of mode I;16 (since 11.0) are the same as long as no sum
leaves 0 to 65535.
"""

import hashlib
import json
import struct

import PIL
from PIL import Image, ImageOps


def draws(n, seed):
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        yield seed


def noise(width, height, seed):
    return Image.frombytes("RGB", (width, height), bytes(x >> 24 for x in draws(width * height * 3, seed)))


def noise16(width, height, seed, low, high):
    out = [low + (x >> 16) * (high - low) // 65535 for x in draws(width * height, seed)]
    return Image.frombytes("I", (width, height), struct.pack("<%di" % len(out), *out))


def center_crop(image, size):
    # torchvision: Resize(size), then CenterCrop(size).
    width, height = image.size
    long = int(size * max(width, height) / min(width, height))
    new = (size, long) if width <= height else (long, size)
    image = image.resize(new, Image.BILINEAR)
    left, top = (int(round((side - size) / 2.0)) for side in new)
    return image.crop((left, top, left + size, top + size))


def sha(image):
    data = image.tobytes()
    if image.mode == "I":
        data = struct.pack("<%dH" % (len(data) // 4), *struct.unpack("<%di" % (len(data) // 4), data))
    return hashlib.sha256(data).hexdigest()


# Bicubic sums of these stay within 16 bits.
ranges = {"bilinear": (0, 65535), "bicubic": (16384, 49151)}
filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
deep = []
sizes = [(1, 1), (2, 3), (5, 5), (17, 13), (40, 30), (31, 64), (100, 3), (97, 89), (500, 375)]
for seed, (w, h) in enumerate(sizes, 1):
    for name, (low, high) in ranges.items():
        image = noise16(w, h, seed, low, high)
        for tw, th in ((1, 1), (3, 50), (50, 3), (w, h + 1), (w * 2, h), (31, 29), (224, 224)):
            deep.append(
                {"width": w, "height": h, "seed": seed, "low": low, "high": high,
                 "stretch": [tw, th], "filter": name, "sha256": sha(image.resize((tw, th), filters[name]))}
            )

grey = []
for seed, (w, h) in enumerate(sizes, 1):
    image = noise(w, h, seed).convert("L")
    for size in (1, 7, 33, 224):
        grey.append({"width": w, "height": h, "seed": seed, "crop": size, "sha256": sha(center_crop(image, size))})

# 16 bits in a file: as stored, and turned upright and cropped.
files = []
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    name = "deep-%d.png" % orientation
    noise16(13, 9, orientation, 0, 65535).convert("I;16").save(name, exif=exif)
    image = Image.open(name)
    turned = ImageOps.exif_transpose(image.convert("I"))
    files.append(
        {"name": name, "stored": sha(image.convert("I")), "upright": sha(turned),
         "crop": 7, "cropped": sha(center_crop(turned, 7))}
    )

converted = []
for name in ("rgb.png", "rgba.png", "gray.png", "gray-alpha.png", "palette.png", "420.jpg", "gray.jpg"):
    converted.append({"name": name, "sha256": sha(Image.open(name).convert("L"))})

sections = {"deep": deep, "grey": grey, "files": files, "converted": converted}
with open("pixels.json", "w") as out:
    out.write('{"pillow": "%s"' % PIL.__version__)
    for name, entries in sections.items():
        out.write(',\n"%s": [\n%s\n]' % (name, ",\n".join(json.dumps(e) for e in entries)))
    out.write("}\n")
