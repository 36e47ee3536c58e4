"""Writes the golden data of nearest_test.go with Pillow: python3 nearest.py

nearest.json holds SHA-256 sums of what NEAREST makes of boxes of pictures that
both sides make from the same generator, in modes RGB and L, and of the indexes
of palettes in the small files beside it.
"""

import hashlib
import json
import random

import PIL
from PIL import Image


def noise(width, height, seed, mode):
    out = bytearray()
    for _ in range(width * height * len(mode)):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(seed >> 24)
    return Image.frombytes(mode, (width, height), bytes(out))


def sha(image):
    return hashlib.sha256(image.tobytes()).hexdigest()


random.seed(1)
plans = []
for seed in range(1, 161):
    mode = random.choice(["RGB", "L"])
    w, h = random.choice([(random.randint(1, 60), random.randint(1, 60)), (random.randint(1, 400), random.randint(1, 300))])
    bw, bh = (w, h) if seed % 3 == 0 else (random.randint(1, w), random.randint(1, h))
    x, y = random.randint(0, w - bw), random.randint(0, h - bh)
    full = [random.randint(1, 300), random.randint(1, 200)]
    if seed % 5 == 0:  # centres on the edges of pixels
        full = [max(1, bw * random.choice([1, 2, 4]) // random.choice([2, 4, 6])), max(1, bh // 2)]
    kw, kh = random.randint(1, full[0]), random.randint(1, full[1])
    kx, ky = random.randint(0, full[0] - kw), random.randint(0, full[1] - kh)
    mirror = seed % 4 == 0
    image = noise(w, h, seed, mode).crop((x, y, x + bw, y + bh)).resize(full, Image.NEAREST)
    image = image.crop((kx, ky, kx + kw, ky + kh))
    if mirror:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    plans.append(
        {"channels": len(mode), "width": w, "height": h, "seed": seed, "box": [x, y, bw, bh], "full": full,
         "keep": [kx, ky, kw, kh], "mirror": mirror, "sha256": sha(image)}
    )

palettes = []
for bits in (1, 2, 4, 8):
    name = "indexes-%d.png" % bits
    values = bytes(v % (1 << bits) for v in noise(21, 13, bits, "L").tobytes())
    image = Image.frombytes("P", (21, 13), values)
    # Colours as in Pascal VOC: those of several classes may be equal.
    image.putpalette([(i * 37 // 64) * 16 % 256 for i in range(3 << bits)])
    image.save(name, bits=bits)
    stored = Image.open(name)
    assert stored.mode == "P" and stored.tobytes() == values
    palettes.append({"name": name, "sha256": sha(stored), "stretch": [9, 17], "stretched": sha(stored.resize((9, 17), Image.NEAREST))})

with open("nearest.json", "w") as out:
    out.write('{"pillow": "%s"' % PIL.__version__)
    for name, entries in {"plans": plans, "palettes": palettes}.items():
        out.write(',\n"%s": [\n%s\n]' % (name, ",\n".join(json.dumps(e) for e in entries)))
    out.write("}\n")
