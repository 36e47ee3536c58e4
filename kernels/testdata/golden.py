"""Writes golden.json: what Pillow and torchvision make of what the tests make.

    python3 golden.py > golden.json
"""
import hashlib
import itertools
import json
import random

import numpy as np
import PIL
import torch
import torchvision
import torchvision.transforms.functional as F
from PIL import Image, ImageOps


def noise(width, height, seed):
    """The generator of golden_test.go."""
    pix = bytearray()
    for _ in range(3 * width * height):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        pix.append(seed >> 24)
    return np.frombuffer(bytes(pix), np.uint8).reshape(height, width, 3)


def resamples():
    rng = random.Random(1)
    sides = [1, 2, 7, 31, 64, 90, 200]
    for seed in range(1, 65):
        width, height = rng.choice(sides), rng.choice(sides)
        orientation = rng.randint(1, 8)
        bicubic, mirror = rng.random() < 0.6, rng.random() < 0.5
        m = Image.fromarray(noise(width, height, seed))
        m.getexif()[0x0112] = orientation
        m = ImageOps.exif_transpose(m)
        axes = []
        for side, n in zip(m.size, (rng.choice([1, 9, 32, 40]), rng.choice([1, 5, 33]))):
            length = rng.randint(1, side)
            out = n + rng.choice([0, 0, 3, 50])
            axes.append((rng.randint(0, side - length), length, out, rng.randint(0, out - n), n))
        (x, w, ow, fx, nx), (y, h, oh, fy, ny) = axes
        m = m.crop((x, y, x + w, y + h))
        m = m.resize((ow, oh), Image.BICUBIC if bicubic else Image.BILINEAR)
        m = m.crop((fx, fy, fx + nx, fy + ny))
        m = ImageOps.mirror(m) if mirror else m
        yield {
            "Width": width, "Height": height, "Seed": seed, "Orientation": orientation,
            "Bicubic": bicubic, "Mirror": mirror, "X": axes[0], "Y": axes[1],
            "SHA256": hashlib.sha256(m.tobytes()).hexdigest(),
        }


def colours():
    rng = random.Random(2)
    apply = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for seed, order in enumerate(itertools.permutations(range(4)), 1):
        factors = [float(np.float32(rng.uniform(0, 2))) for _ in range(3)] + [float(np.float32(rng.uniform(-0.5, 0.5)))]
        x = torch.from_numpy(noise(4, 3, seed).copy()).permute(2, 0, 1).float().div(255)
        for k in order:
            x = apply[k](x, factors[k])
        yield {"Seed": seed, "Factors": factors, "Order": order, "Values": [float(f"{v:.9g}") for v in x.flatten().tolist()]}


print(json.dumps({
    "Made": f"Pillow {PIL.__version__}, torch {torch.__version__}, torchvision {torchvision.__version__}",
    "Resamples": list(resamples()),
    "Colours": list(colours()),
}, separators=(",", ":")))
