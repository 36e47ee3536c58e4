"""Makes a folder of photos (or takes one) and reads it for three epochs.

    python photos.py [FOLDER]
"""

import os
import struct
import sys
import tempfile
import time
import zlib

import pinion


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_picture(path: str, width: int, height: int, seed: int) -> None:
    """Writes a PNG of coloured stripes."""
    row = bytes((x * (seed % 7 + 1) + 80 * c + seed) % 256 for x in range(width) for c in range(3))
    rows = b"".join(b"\0" + row[y % 32 * 3 :] + row[: y % 32 * 3] for y in range(height))
    with open(path, "wb") as f:
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_pictures(folder: str, count: int) -> None:
    """Fills a folder with pictures of two classes: its folders cat and dog."""
    for i in range(count):
        kind = os.path.join(folder, ("cat", "dog")[i % 2])
        os.makedirs(kind, exist_ok=True)
        write_picture(os.path.join(kind, f"{i:04d}.png"), 500, 375, i)


def main(folder: str) -> None:
    with pinion.DataLoader(folder, batch_size=64, shuffle=True, transform="rrc:224,flip") as loader:
        for epoch in range(3):
            start, samples = time.perf_counter(), 0
            for images, *labels in loader:
                samples += len(images)
            print(f"epoch {epoch}: {samples} samples, {samples / (time.perf_counter() - start):.0f} a second; the last batch is {type(images).__name__} {tuple(images.shape)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            make_pictures(folder, 256)
            main(folder)
