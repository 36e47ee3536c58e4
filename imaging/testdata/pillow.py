"""Writes the golden data of pillow_test.go with Pillow: python3 pillow.py

pillow.json holds SHA-256 sums of RGB bytes, for resizes of pictures that both
sides make from the same generator and for the small files beside it. For
files whose decoders may differ in the last bits, NAME.png holds the pixels.
"""

import hashlib
import json

import PIL
from PIL import Image


def noise(width, height, seed):
    x, out = seed, bytearray()
    for _ in range(width * height * 3):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(x >> 24)
    return Image.frombytes("RGB", (width, height), bytes(out))


def smooth(width, height):
    pixels = [
        (x * 255 // width, y * 255 // height, 200 if (x - 20) ** 2 + (y - 12) ** 2 < 60 else 60)
        for y in range(height)
        for x in range(width)
    ]
    image = Image.new("RGB", (width, height))
    image.putdata(pixels)
    return image


def sha(image):
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def center_crop(image, size):
    # torchvision: Resize(size), then CenterCrop(size).
    width, height = image.size
    short, long = min(width, height), max(width, height)
    new_long = int(size * long / short)
    new = (size, new_long) if width <= height else (new_long, size)
    image = image.resize(new, Image.BILINEAR)
    top = int(round((new[1] - size) / 2.0))
    left = int(round((new[0] - size) / 2.0))
    return image.crop((left, top, left + size, top + size))


resizes = []
sizes = [(1, 1), (1, 7), (2, 3), (5, 5), (17, 13), (13, 17), (40, 30), (31, 64), (100, 3), (97, 89), (500, 375), (375, 500)]
for seed, (w, h) in enumerate(sizes, 1):
    image = noise(w, h, seed)
    for size in (1, 2, 7, 16, 33, 224):
        resizes.append({"width": w, "height": h, "seed": seed, "crop": size, "sha256": sha(center_crop(image, size))})
    for tw, th in ((1, 1), (3, 50), (50, 3), (w, h), (w, h + 1), (w * 2, h), (31, 29), (224, 224)):
        resized = image.resize((tw, th), Image.BILINEAR)
        resizes.append({"width": w, "height": h, "seed": seed, "stretch": [tw, th], "sha256": sha(resized)})

files = []
rgb = smooth(37, 29)
alpha = rgb.convert("L").point(lambda v: 255 - v)
rgba = rgb.copy()
rgba.putalpha(alpha)
la = rgb.convert("L")
la.putalpha(alpha)
palette = rgb.quantize(16)
for name, image, options in [
    ("rgb.png", rgb, {}),
    ("rgba.png", rgba, {}),
    ("gray.png", rgb.convert("L"), {}),
    ("gray-alpha.png", la, {}),
    ("bits.png", rgb.convert("1"), {}),
    ("palette.png", palette, {}),
    ("palette-transparent.png", palette, {"transparency": 3}),
    ("lossless.webp", rgb, {"lossless": True}),
    ("lossy.webp", rgb, {"quality": 90}),
    ("lossy-alpha.webp", rgba, {"quality": 90}),
    ("420.jpg", rgb, {"quality": 90, "subsampling": 2}),
    ("422.jpg", rgb, {"quality": 90, "subsampling": 1}),
    ("444.jpg", rgb, {"quality": 90, "subsampling": 0}),
    ("progressive.jpg", rgb, {"quality": 90, "progressive": True}),
    ("gray.jpg", rgb.convert("L"), {"quality": 90}),
    ("cmyk.jpg", rgb.convert("CMYK"), {"quality": 90}),
]:
    image.save(name, **options)
    decoded = Image.open(name).convert("RGB")
    files.append({"name": name, "width": 37, "height": 29, "sha256": sha(decoded)})
    if name.startswith("lossy") or name.endswith(".jpg"):
        decoded.save(name + ".png", optimize=True)

with open("pillow.json", "w") as out:
    entries = ",\n".join(json.dumps(e) for e in resizes)
    decodes = ",\n".join(json.dumps(e) for e in files)
    out.write('{"pillow": "%s",\n"resizes": [\n%s\n],\n"files": [\n%s\n]}\n' % (PIL.__version__, entries, decodes))
