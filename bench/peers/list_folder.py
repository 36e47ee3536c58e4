"""Lists a folder of photos as torchvision's ImageFolder does, without PyTorch.

    python3 list_folder.py DIR > list-folder.json

The folder is listed once for the row of memory, which also warms up, and five
times for time. ImageFolder itself takes longer: it comes after the import.
"""

import os
import platform
import resource
import sys

import peer

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
REPEATS = 5


def listed(root):
    """Returns (path, class) of every photo, and the classes by themselves."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    samples = []
    for number, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            for file in sorted(files):
                if file.lower().endswith(EXTENSIONS):
                    samples.append((os.path.join(folder, file), number))
    return samples, [number for _, number in samples]


def main():
    root = sys.argv[1]
    samples, _ = listed(root)
    count = len(samples)
    del samples
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    times = sorted(peer.timed(lambda: listed(root)) for _ in range(REPEATS))
    rows = [
        dict(name="peak memory", value=peak, unit="MiB", min=peak, max=peak),
        dict(name="list", value=times[REPEATS // 2], unit="s", min=times[0], max=times[-1]),
    ]
    peer.document(f"Python {platform.python_version()}", "folder", platform.node(), rows,
                  repeats=REPEATS, files=count)


main()
