"""Writes the golden data of pillow_test.go with Pillow: python3 pillow.py

pillow.json holds SHA-256 sums of RGB bytes, for resizes and plans (a crop, a
resize, another crop, a mirror) of pictures that both sides make from the same
generator, and for the small files beside it. For
files whose decoders may differ in the last bits, NAME.png holds the pixels.
"""

import hashlib
import json

import PIL
from PIL import Image, ImageOps


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

filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
plans = []
# width and height, box of x, y, width, height, full size, kept box of the same
for seed, (w, h, box, full, keep) in enumerate(
    [
        (500, 375, (0, 0, 500, 375), (298, 224), (37, 0, 224, 224)),
        (500, 375, (111, 42, 203, 199), (224, 224), (0, 0, 224, 224)),
        (500, 375, (3, 5, 490, 366), (64, 64), (0, 0, 64, 64)),
        (500, 375, (490, 365, 10, 10), (224, 224), (0, 0, 224, 224)),
        (97, 89, (0, 17, 97, 60), (97, 30), (10, 3, 80, 20)),
        (97, 89, (20, 20, 40, 40), (40, 40), (0, 0, 40, 40)),
        (97, 89, (96, 88, 1, 1), (5, 7), (0, 0, 5, 7)),
        (31, 64, (1, 1, 30, 62), (7, 200), (1, 50, 5, 100)),
        (640, 3, (0, 0, 640, 3), (9, 9), (0, 0, 9, 9)),
    ],
    100,
):
    for name, filter in filters.items():
        for mirror in (False, True):
            x, y, bw, bh = box
            image = noise(w, h, seed).crop((x, y, x + bw, y + bh)).resize(full, filter)
            x, y, kw, kh = keep
            image = image.crop((x, y, x + kw, y + kh))
            if mirror:
                image = image.transpose(Image.FLIP_LEFT_RIGHT)
            plans.append(
                {"width": w, "height": h, "seed": seed, "box": box, "full": full, "keep": keep,
                 "filter": name, "mirror": mirror, "sha256": sha(image)}
            )

# Turned upright, then resized and cropped.
oriented = []
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    name = "oriented-%d.png" % orientation
    noise(13, 9, orientation).save(name, exif=exif)
    image = ImageOps.exif_transpose(Image.open(name))
    oriented.append({"name": name, "crop": 7, "sha256": sha(center_crop(image, 7))})

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

sections = {"resizes": resizes, "plans": plans, "oriented": oriented, "files": files}
with open("pillow.json", "w") as out:
    out.write('{"pillow": "%s"' % PIL.__version__)
    for name, entries in sections.items():
        out.write(',\n"%s": [\n%s\n]' % (name, ",\n".join(json.dumps(e) for e in entries)))
    out.write("}\n")
