"""Decodes a photo folder with torchvision, as bench/feeding does with Pinion.

    python3 torch_decode.py DIR [THREADS] > torch-decode.json

One thread on the CPU, from memory; batches of 64 on the device, from memory;
and files, read by THREADS threads (default 16) some batches ahead, that become
224 x 224 float32 batches, normalised, on the device, where they are decoded and
resized. Photos of one size can be resized all at once, those of a folder of any
photos only one by one.
"""

import collections
import concurrent.futures
import pathlib
import random
import sys

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms.v2 import functional

import peer

BATCH = 64
AHEAD = 4  # batches that are read before they are decoded
PHOTOS = 256  # of a repeat on one core
REPEATS = 5

MEAN = [255 * v for v in (0.485, 0.456, 0.406)]
STD = [255 * v for v in (0.229, 0.224, 0.225)]


def crop(images):
    """The middle 224 x 224 of one image or of a batch, as floats up to 255."""
    return functional.center_crop(functional.resize(images.to(torch.float32), [224], antialias=True), [224, 224])


def one_by_one(images):
    return torch.stack([crop(image) for image in images])


def at_once(images):
    return crop(torch.stack(images))


def batches(paths, threads):
    """Contents of files, shuffled, in batches."""
    paths = random.sample(paths, len(paths))
    groups = [paths[i:i + BATCH] for i in range(0, len(paths) - BATCH + 1, BATCH)]
    under_way = collections.deque()
    for group in groups + [None] * AHEAD:
        if group:
            under_way.append([threads.submit(read_file, path) for path in group])
        if len(under_way) > AHEAD or not group and under_way:
            yield [future.result() for future in under_way.popleft()]


def on_device(files):
    return decode_jpeg(files, mode=ImageReadMode.RGB, device="cuda")


def check(files, resize):
    """What comes from the device is what comes from the CPU, nearly."""
    want = one_by_one([decode_jpeg(file, mode=ImageReadMode.RGB) for file in files])
    off = (resize(on_device(files)).cpu() - want).abs().mean().item()
    if not off < 3:
        raise SystemExit(f"images from the device are off by {off:.2f} steps of a byte in the mean")


def end_to_end(paths, threads, resize):
    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1)
    std = torch.tensor(STD, device="cuda").view(1, 3, 1, 1)

    def epoch():
        for files in batches(paths, threads):
            images = resize(on_device(files)).sub_(mean).div_(std)
            assert images.shape == (BATCH, 3, 224, 224)
        torch.cuda.synchronize()

    return len(paths) // BATCH * BATCH / peer.timed(epoch)


def main():
    paths = [str(p) for p in sorted(pathlib.Path(sys.argv[1]).glob("*/*.jpg"))]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    files = [read_file(path) for path in paths]
    groups = [files[i:i + BATCH] for i in range(0, len(files) - BATCH + 1, BATCH)][:16]

    def one_core():
        some = random.sample(files, min(PHOTOS, len(files)))
        return len(some) / peer.timed(lambda: [decode_jpeg(file, mode=ImageReadMode.RGB) for file in some])

    def alone():
        def run():
            for group in groups:
                on_device(group)
            torch.cuda.synchronize()
        return BATCH * len(groups) / peer.timed(run)

    peer.step("decode, one core")
    own = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = peer.compare("decode photos", "images/s", [("torchvision.io.decode_jpeg, 1 thread", one_core)], REPEATS)
    torch.set_num_threads(own)

    peer.step("decode on the device")
    for resize in (one_by_one, at_once):
        check(groups[0], resize)
    rows += peer.compare(f"decode photos on the device, batches of {BATCH}", "images/s",
                         [("torchvision.io.decode_jpeg", alone)], REPEATS)
    peer.step("files, decoded on the device")
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        by = f"torchvision.io.decode_jpeg, {count} threads read, resized "
        rows += peer.compare(f"photos to 224-px f32 batches of {BATCH}, decoded on the device", "images/s", [
            (by + "one by one", lambda: end_to_end(paths, threads, one_by_one)),
            (by + "at once", lambda: end_to_end(paths, threads, at_once)),
        ], REPEATS)
    peer.document(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}", "feeding",
                  torch.cuda.get_device_name(), rows, repeats=REPEATS, batch=BATCH)


main()
