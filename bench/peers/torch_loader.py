"""Feeds a photo folder through PyTorch's DataLoader, as `pinion feed` does.

    python3 torch_loader.py DIR [WORKERS ...] > torch-loader.json

Photos become 224 x 224 float32 batches of 64, normalised, on the device. One
epoch warms up (it starts the workers); the next three are timed.
"""

import sys

import torch
import torchvision
from torchvision import transforms

import peer

BATCH = 64
EPOCHS = 3


def measure(folder, workers, pin):
    to_device = transforms.Compose([
        transforms.Resize(224),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    dataset = torchvision.datasets.ImageFolder(folder, to_device)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=BATCH, num_workers=workers, pin_memory=pin,
        persistent_workers=True, prefetch_factor=4)

    def epoch():
        n = 0
        for images, labels in loader:
            images = images.to("cuda", non_blocking=True)
            n += len(images)
        torch.cuda.synchronize()
        assert n == len(dataset)

    epoch()
    rates = sorted(len(dataset) / peer.timed(epoch) for _ in range(EPOCHS))
    name = f"{workers} workers, {'pinned' if pin else 'pageable'}"
    return dict(name=name, value=rates[EPOCHS // 2], unit="images/s", min=rates[0], max=rates[-1])


def main():
    folder, counts = sys.argv[1], [int(w) for w in sys.argv[2:]] or [16]
    torch.zeros(1, device="cuda")  # the context is not part of any epoch
    rows = [measure(folder, workers, pin) for workers in counts for pin in (True, False)]
    peer.document(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}", "loader",
                  torch.cuda.get_device_name(), rows, epochs=EPOCHS, batch=BATCH)


main()
