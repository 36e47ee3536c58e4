"""Feeds arrays through PyTorch, as bench/feeding does through Pinion.

    python3 torch_arrays.py FILE [WORKERS ...] > torch-arrays.json

A small array in memory, by TensorDataset and DataLoader, and by what is fastest:
rows gathered into pinned memory by index_select. A large FILE of 256 x 256 x 3
bytes an image, mapped by numpy, by DataLoader with so many workers (default 0, 8
and 16) and by index_select. Samples are shuffled; everything ends in device
memory, images as NCHW. Bytes are checked before a row is timed. Rows of the large
file are timed in the middle of an epoch, when the pipeline is full, as Pinion's
are; those of whole epochs have its beginning and its end too.
"""

import sys

import numpy
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import peer

SAMPLES, LENGTH, ARRAY_BATCH = 10_000, 256, 128
SHAPE = (256, 256, 3)
BATCHES = (64, 256)
IMAGES = 4096  # of a repeat
EPOCHS = 5  # of the small array in a repeat
REPEATS = 5


def same_rows(got, want):
    """Rows are the same but for their order."""
    key = lambda rows: rows[rows[:, 0].argsort()]
    if not torch.equal(key(got.cpu()), key(want)):
        raise SystemExit("the samples that arrived are not those that were sent")


def small():
    data = torch.rand(SAMPLES, LENGTH)
    data[:, 0] = torch.arange(SAMPLES)  # tells them apart
    dataset = TensorDataset(data)

    def by_loader(pin):
        loader = DataLoader(dataset, batch_size=ARRAY_BATCH, shuffle=True, pin_memory=pin)
        return lambda: [rows.to("cuda", non_blocking=True) for rows, in loader]

    # The dataset is indexed with a list of all rows of a batch at once.
    whole = DataLoader(dataset, batch_size=None, pin_memory=True,
                       sampler=BatchSampler(RandomSampler(dataset), ARRAY_BATCH, drop_last=False))

    gathered = torch.empty(SAMPLES, LENGTH, pin_memory=True)

    def by_hand():
        torch.index_select(data, 0, torch.randperm(SAMPLES), out=gathered)
        return [rows.to("cuda", non_blocking=True) for rows in gathered.split(ARRAY_BATCH)]

    ways = []
    for by, epoch in (
        ("DataLoader, pageable", by_loader(False)),
        ("DataLoader, pinned", by_loader(True)),
        ("DataLoader, sampler of batches, pinned", lambda: [rows.to("cuda", non_blocking=True) for rows, in whole]),
        ("index_select into pinned memory", by_hand),
    ):
        same_rows(torch.cat(epoch()), data)

        def run(epoch=epoch):
            for _ in range(EPOCHS):
                epoch()
                torch.cuda.synchronize()  # the next epoch gathers into the same memory

        ways.append((by, lambda run=run: 1e3 * peer.timed(run) / EPOCHS))
    return peer.compare(f"epoch of {SAMPLES:,} x {LENGTH} f32 in memory, batches of {ARRAY_BATCH}", "ms", ways, REPEATS)


class Images(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i]


def to_device(images):
    return images.to("cuda", non_blocking=True).permute(0, 3, 1, 2).contiguous()


def rates(batches, batch, work):
    """What gives the GB/s of an epoch of batches() and of its middle."""
    gb = numpy.prod(SHAPE).item() / 1e9

    def run():
        return [gb * r for r in peer.epoch_and_middle(batches(), IMAGES // batch, work, torch.cuda.synchronize)]
    return run


def by_loader(images, batch, workers):
    dataset = Images(images)
    loader = DataLoader(
        dataset, batch_size=batch, num_workers=workers, pin_memory=True,
        sampler=RandomSampler(dataset, num_samples=IMAGES),
        persistent_workers=workers > 0, prefetch_factor=4 if workers > 0 else None)
    return rates(lambda: loader, batch, lambda part: len(to_device(part)))


def by_hand(images, batch):
    """Images gathered by all threads of PyTorch into two pinned buffers in turn."""
    buffers = [torch.empty(batch, *SHAPE, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    done = [torch.cuda.Event() for _ in buffers]

    def work(numbered):
        k, part = numbered
        buffer, free = buffers[k % 2], done[k % 2]
        free.synchronize()
        torch.index_select(images, 0, part, out=buffer)
        n = len(to_device(buffer))
        free.record()
        return n

    torch.index_select(images, 0, torch.arange(batch), out=buffers[0])
    if not torch.equal(to_device(buffers[0]).cpu(), images[:batch].permute(0, 3, 1, 2)):
        raise SystemExit("the images that arrived are not those that were sent")
    return rates(lambda: enumerate(torch.randperm(len(images))[:IMAGES].split(batch)), batch, work)


def large(path, counts):
    # Copied on write: PyTorch wants memory that it might write to.
    mapped = torch.from_numpy(numpy.memmap(path, dtype=numpy.uint8, mode="c").reshape(-1, *SHAPE))
    rows = []
    for source, images in (("a file", mapped), ("memory", mapped.clone())):
        for batch in BATCHES:
            peer.step(f"images in {source}, batches of {batch}")
            ways = [("index_select into pinned memory", by_hand(images, batch))]
            if source == "a file":
                ways += [(f"DataLoader, {workers} workers, pinned", by_loader(images, batch, workers)) for workers in counts]
            rows += peer.epochs(f"images in {source} to u8 batches of {batch}", "GB/s", ways, REPEATS)
    return rows


def main():
    path, counts = sys.argv[1], [int(w) for w in sys.argv[2:]] or [0, 8, 16]
    torch.zeros(1, device="cuda")  # the context is no part of any row
    peer.step("a small array")
    rows = small() + large(path, counts)
    peer.document("PyTorch " + torch.__version__, "feeding", torch.cuda.get_device_name(), rows, repeats=REPEATS)


main()
