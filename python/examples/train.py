"""Trains a small ResNet on a folder of photos, fed by PyTorch's DataLoader, then by Pinion's, and prints both.

    python train.py [FOLDER] [--epochs 3] [--batch 64] [--workers 0] [--size 224] [--device cuda]

A folder has a folder of photos for each class. Without one, pictures of two classes are made. PyTorch's side needs
Pillow. Workers: of either side; 0 is one for each processor.
"""

import argparse
import os
import sys
import tempfile
import time

import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import pinion

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_photos(folder: str, count: int) -> None:
    """Fills a folder with photos of two classes: of stripes that stand, and that lie."""
    random = torch.Generator().manual_seed(0)
    x, y = torch.arange(500.0), torch.arange(375.0)[:, None]
    for i in range(count):
        kind = os.path.join(folder, ("standing", "lying")[i % 2])
        os.makedirs(kind, exist_ok=True)
        wide, colour = 8 + 40 * torch.rand((), generator=random), torch.rand(3, generator=random)
        stripes = ((x + 0 * y, y + 0 * x)[i % 2] / wide).sin()[..., None] * 60 * colour
        pixels = 120 + stripes + 25 * torch.randn(375, 500, 3, generator=random)
        image = Image.frombytes("RGB", (500, 375), bytes(pixels.clamp(0, 255).byte().flatten().tolist()))
        image.save(os.path.join(kind, f"{i:04d}.jpg"), quality=90)


class Photos(Dataset):
    """The photos of a folder, cut at random and mirrored as by "rrc:SIZE,flip"."""

    def __init__(self, folder: str, size: int) -> None:
        kinds = sorted(e.name for e in os.scandir(folder) if e.is_dir())
        self.files = [(os.path.join(folder, kind, f), label) for label, kind in enumerate(kinds) for f in sorted(os.listdir(os.path.join(folder, kind)))]
        self.size = size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        path, label = self.files[i]
        with Image.open(path) as file:
            image = file.convert("RGB")
        width, height = image.size
        area, ratio = width * height * float(torch.empty(1).uniform_(0.08, 1)), 2 ** float(torch.empty(1).uniform_(-0.4, 0.4))
        w, h = min(width, round((area * ratio) ** 0.5)), min(height, round((area / ratio) ** 0.5))
        x, y = int(torch.randint(width - w + 1, ())), int(torch.randint(height - h + 1, ()))
        image = image.resize((self.size, self.size), Image.BILINEAR, (x, y, x + w, y + h))
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(self.size, self.size, 3).permute(2, 0, 1)
        if torch.rand(()) < 0.5:
            pixels = pixels.flip(2)
        return (pixels.float() / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None], label


class Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(into, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm2(self.second(F.relu(self.norm1(self.first(x))))) + self.short(x))


def resnet(classes: int) -> nn.Module:
    widths = (32, 64, 128, 256)
    blocks = [Block(a, b, 2) for a, b in zip((32, *widths), widths)]
    return nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def progress(text: str = "") -> None:
    """Says on a terminal what goes on, in one line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def train(name: str, loader, classes: int, epochs: int, device: torch.device) -> tuple[float, float]:
    """Images a second without the first epoch, if there are more, and the part of the last epoch's that was right."""
    torch.manual_seed(0)
    model = resnet(classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    start = images = 0
    for epoch in range(epochs):
        progress(f"{name}: epoch {epoch + 1} of {epochs}")
        if epoch < 2:
            start, images = time.perf_counter(), 0
        right, seen = torch.zeros((), device=device), 0
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)  # nothing to do where they are there
            optimizer.zero_grad(set_to_none=True)
            out = model(x)
            F.cross_entropy(out, y).backward()
            optimizer.step()
            right += (out.argmax(1) == y).sum()
            seen += len(y)
        images += seen
        accuracy = float(right) / seen  # waits for the device
    progress()
    return images / (time.perf_counter() - start), accuracy


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder", nargs="?")
    for name, value in (("epochs", 3), ("batch", 64), ("workers", 0), ("size", 224)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if a.folder is None:
            a.folder = made
            progress("makes 512 photos")
            make_photos(made, 512)
        device, workers = torch.device(a.device), a.workers or len(os.sched_getaffinity(0))
        dataset = Photos(a.folder, a.size)
        classes = 1 + max(label for _, label in dataset.files)
        loaders = {
            "torch.utils.data.DataLoader": lambda: DataLoader(
                dataset, a.batch, shuffle=True, num_workers=workers, pin_memory=device.type == "cuda", persistent_workers=True
            ),
            "pinion.DataLoader": lambda: pinion.DataLoader(
                a.folder, a.batch, shuffle=True, num_workers=workers, transform=f"rrc:{a.size},flip", device=a.device
            ),
        }
        for name, make in loaders.items():
            rate, accuracy = train(name, make(), classes, a.epochs, device)
            print(f"{name:28} {rate:8.0f} images/s   {accuracy:.0%} right at last")


if __name__ == "__main__":
    main()
