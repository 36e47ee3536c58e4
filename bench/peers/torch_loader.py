"""Feeds a photo folder through PyTorch's DataLoader, as bench/feeding does.

    python3 torch_loader.py DIR [WORKERS ...] > torch-loader.json

Shuffled photos become 224 x 224 float32 batches of 64, normalised, on the
device, from pinned memory and from pageable. One epoch warms up (it starts the
workers); the next five of each are timed in turn. An epoch has 512 photos for
each worker, so that few workers do not take for ever. It gives two rows: the
middle of the epoch, when the pipeline is full, which is how Pinion is timed, and
the whole epoch, with its beginning and its end.
"""

import sys

import torch
import torchvision
from torchvision import transforms

import peer

BATCH = 64
EPOCHS = 5
PHOTOS = 512  # of each worker in an epoch


def way(dataset, workers, pin):
    batches = PHOTOS * max(workers, 1) // BATCH
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=BATCH, num_workers=workers, pin_memory=pin, drop_last=True,
        sampler=torch.utils.data.RandomSampler(dataset, num_samples=batches * BATCH),
        persistent_workers=workers > 0, prefetch_factor=4 if workers > 0 else None)

    def work(batch):
        images, labels = batch
        return len(images.to("cuda", non_blocking=True))

    by = f"DataLoader, {workers} workers, {'pinned' if pin else 'pageable'}"
    return by, lambda: peer.epoch_and_middle(loader, batches, work, torch.cuda.synchronize)


def main():
    folder, counts = sys.argv[1], [int(w) for w in sys.argv[2:]] or [16]
    torch.zeros(1, device="cuda")  # the context is not part of any epoch
    dataset = torchvision.datasets.ImageFolder(folder, transforms.Compose([
        transforms.Resize(224),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]))
    rows = []
    for workers in counts:
        peer.step(f"{workers} workers")
        rows += peer.epochs(f"photos to 224-px f32 batches of {BATCH}", "images/s",
                            [way(dataset, workers, pin) for pin in (True, False)], EPOCHS)
    peer.document(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}", "feeding",
                  torch.cuda.get_device_name(), rows, repeats=EPOCHS, batch=BATCH)


main()
