"""Makes a wheel of the package with nothing but the standard library.

usage: wheel.py PLATFORM LIBPINION COMMAND DIR    (build.sh calls it)
"""

import base64
import hashlib
import os
import re
import sys
import zipfile

MODULES = (".py", ".pyi", "py.typed")
METADATA = """\
Metadata-Version: 2.1
Name: pinion
Version: {version}
Summary: Batches from disk into GPU memory, as fast as the machine can
License: Apache-2.0
Requires-Python: >=3.10
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}"""


def read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main(platform: str, library: str, command: str, out: str) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    version = re.search(r'^__version__ = "(.+)"', read(f"{here}/pinion/__init__.py").decode(), re.M).group(1)
    info, data = f"pinion-{version}.dist-info", f"pinion-{version}.data"
    files = {}
    for folder, _, names in sorted(os.walk(f"{here}/pinion")):
        for name in sorted(names):
            if name.endswith(MODULES):
                path = os.path.join(folder, name)
                files[os.path.relpath(path, here)] = read(path)
    files["pinion/libpinion.so"] = read(library)
    files[f"{data}/scripts/pinion"] = read(command)
    files[f"{info}/METADATA"] = METADATA.format(version=version, readme=read(f"{here}/README.md").decode()).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: pinion\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode()
    files[f"{info}/LICENSE"] = read(f"{here}/../LICENSE")
    record = "".join(f"{name},{digest(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    path = f"{out}/pinion-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(path + ".part", "w") as z:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix, so that the next line counts
            entry.external_attr = (0o100755 if name.endswith((".so", "/pinion")) else 0o100644) << 16
            z.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    os.replace(path + ".part", path)
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
