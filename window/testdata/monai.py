"""Writes monai.json: what MONAI's sliding_window_inference makes of small volumes.

    PYTHONPATH=MONAI python3 monai.py > monai.json
"""

import json
import math

import torch
from monai.inferers.utils import sliding_window_inference

CASES = [
    dict(size=[9, 11], roi=[4, 5]),
    dict(size=[9, 11], roi=[4, 5], overlap=[0.5], mode="gaussian"),
    dict(size=[10, 7], roi=[4, 7], overlap=[0.5, 0.25], channels=2, batch=3),
    dict(size=[3, 12], roi=[6, 5], overlap=[0.6], mode="gaussian", sigma=[0.3]),
    dict(size=[3, 12], roi=[6, 5], padding="reflect"),
    dict(size=[4, 3], roi=[6, 6], padding="replicate", mode="gaussian"),
    dict(size=[4, 3], roi=[7, 5], padding="circular"),
    dict(size=[3, 2], roi=[6, 5], value=-1.5, mode="gaussian", sigma=[0.05]),
    dict(size=[13, 5], roi=[0, 2], overlap=[0.9]),
    dict(size=[7, 8, 9], roi=[4, 4, 4], overlap=[0.5], mode="gaussian", batch=4),
    dict(size=[7, 5, 6], roi=[4, -1, 3], overlap=[0.25, 0.5, 0.1], mode="gaussian", sigma=[0.1, 0.2, 0.4], channels=2),
    dict(size=[2, 9, 5], roi=[4, 4, 4], overlap=[0.75], batch=5),
]


def values(n):
    return [((i * 7919 + 13) % 1000) / 1000 - 0.5 for i in range(n)]


def predict(x):
    inside = math.prod(x.shape[2:])
    ramp = (torch.arange(inside, dtype=torch.float32) / inside).reshape(x.shape[2:])
    first = x[:, :1]
    return torch.cat([first * 2 + ramp, first * first], 1)


for c in CASES:
    channels = c.get("channels", 1)
    n = channels * math.prod(c["size"])
    x = torch.tensor(values(n), dtype=torch.float32).reshape(1, channels, *c["size"])
    dims = len(c["size"])
    many = lambda l: l * dims if len(l) == 1 else l
    y = sliding_window_inference(
        x, c["roi"], c.get("batch", 1), predict, overlap=many(c.get("overlap", [0.25])), mode=c.get("mode", "constant"),
        sigma_scale=many(c.get("sigma", [0.125])), padding_mode=c.get("padding", "constant"), cval=c.get("value", 0.0))
    c["want"] = [round(v, 7) for v in y.flatten().tolist()]
print("[\n" + ",\n".join(json.dumps(c) for c in CASES) + "\n]")
