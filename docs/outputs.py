#!/usr/bin/env python3
"""Runs the commands that README.md and pages of docs begin with, and
puts what they print behind the lines <!-- output NAME -->:

    python3 docs/outputs.py [NAME …]

It builds the command, and makes its datasets in a temporary home folder, so that
paths read ~/photos. Where there is no GPU the output is that of the host backend.
"""
import glob, json, math, os, random, re, shutil, struct, subprocess, sys, tempfile, zipfile, zlib

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
home = tempfile.mkdtemp()
env = dict(os.environ, HOME=home, XDG_CACHE_HOME=home + "/.cache", PINION_TOP=home + "/top", COLUMNS="100",
           GOPATH=subprocess.check_output(["go", "env", "GOPATH"], text=True).strip(),
           GOCACHE=subprocess.check_output(["go", "env", "GOCACHE"], text=True).strip())


def png(width, height):
    """A mask: one class in each quarter, as a grey PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(2 * (y > height // 2) + (x > width // 2) for x in range(width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def size(jpeg):
    """Width and height by the frame header of a JPEG."""
    at = 2
    while True:
        marker, length = jpeg[at + 1], struct.unpack(">H", jpeg[at + 2:at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", jpeg[at + 5:at + 9])
            return width, height
        at += 2 + length


def npy(dtype, shape, data):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + data


def shard(path, tensors, draw):
    """A .safetensors file of bfloat16 tensors: names and shapes."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + draw.randbytes(at))


def model(folder):
    """A small language model in two shards with an index."""
    draw, shards = random.Random(2), [{"model.embed_tokens.weight": [8192, 1024]}, {"model.norm.weight": [1024], "lm_head.weight": [8192, 1024]}]
    for i in range(4):
        layer = f"model.layers.{i}."
        shards[i // 2] |= {layer + "self_attn.qkv_proj.weight": [3072, 1024], layer + "self_attn.o_proj.weight": [1024, 1024],
                           layer + "mlp.up_proj.weight": [4096, 1024], layer + "mlp.down_proj.weight": [1024, 4096], layer + "norm.weight": [1024]}
    os.mkdir(folder)
    names = [f"model-{i + 1:05}-of-00002.safetensors" for i in range(2)]
    for name, tensors in zip(names, shards):
        shard(f"{folder}/{name}", tensors, draw)
    with open(folder + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": {t: name for name, tensors in zip(names, shards) for t in tensors}}, f)


def prepare():
    subprocess.run(["go", "build", "-o", home + "/bin/", "./cmd/pinion"], cwd=root, check=True)
    env["PATH"] = home + "/bin:" + env["PATH"]
    subprocess.run(["pinion", "feed", "--json"], env=env, stdout=subprocess.DEVNULL, check=True)
    shutil.copytree(glob.glob(home + "/.cache/pinion/sample-photos-*")[0], home + "/photos")
    shutil.copytree(home + "/photos", home + "/scraped")
    files = sorted(glob.glob(home + "/photos/*/*.jpg"))
    for name in files:
        mask = name.replace("/photos/", "/masks/")[:-3] + "png"
        os.makedirs(os.path.dirname(mask), exist_ok=True)
        with open(name, "rb") as f, open(mask, "wb") as m:
            m.write(png(*size(f.read())))
    for name in files[::300]:
        bad = name.replace("/photos/", "/scraped/")
        os.truncate(bad, os.path.getsize(bad) // 2)
    for arguments in ["make", home + "/scans"], ["shrink", home + "/scans", home + "/scans-256"]:
        subprocess.run(["go", "run", "./examples/slow"] + arguments, cwd=root, env=env, check=True)
    draw = random.Random(1)
    model(home + "/model")
    with zipfile.ZipFile(home + "/train.npz", "w") as z:
        z.writestr("images.npy", npy("|u1", (2000, 32, 32, 3), draw.randbytes(2000 * 32 * 32 * 3)))
        z.writestr("labels.npy", npy("<i4", (2000,), struct.pack("<2000i", *(draw.randrange(10) for _ in range(2000)))))


def shell(command):
    done = subprocess.run(["bash", "-c", command], cwd=home, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = [l for l in done.stdout.replace(home, "~").splitlines() if not l.startswith(("Using the host backend", "go: "))]
    return "\n".join(l.rstrip() for l in lines).strip("\n")


def example(path):
    return shell(f"cd {root} && go run {path}")


outputs = {
    "feed": lambda: shell("pinion feed ~/photos --batch 64 --shuffle"),
    "slow": lambda: shell("pinion feed ~/scans --batch 8"),
    "slow-trace": lambda: shell("pinion feed ~/scans --batch 8 --trace scans.json | sed -n '/^Timeline/,$p'"),
    "slow-top": lambda: shell("pinion feed ~/scans --batch 8 --epochs 3 >feed.txt 2>&1 & sleep 8; pinion top --once --interval 5s; kill -INT $!; wait"),
    "slow-shrunk": lambda: shell("pinion feed ~/scans-256 --batch 8 --epochs 30"),
    "images": lambda: shell("pinion feed ~/photos --transform rrc:224,flip,jitter --decode auto"),
    "npz": lambda: shell("pinion feed train.npz --field images --label labels"),
    "targets": lambda: shell("pinion feed ~/photos --targets ~/masks --transform rrc:224,flip,jitter"),
    "order": lambda: shell("pinion feed ~/photos --shuffle --rank 0 --world 4 --stop-after 3 --save-state feed.json >/dev/null;"
                           "pinion feed ~/photos --shuffle --rank 0 --world 4 --resume feed.json --digests batches.jsonl | head -5;"
                           "head -1 batches.jsonl | cut -c1-90"),
    "skip": lambda: shell("pinion feed ~/scraped --on-error skip | head -13"),
    "inspect": lambda: shell("pinion inspect ~/model | head -12; echo …; pinion inspect ~/model | tail -3"),
    "load": lambda: shell("pinion load ~/model"),
    "link": lambda: shell("pinion bench link --size 64MiB"),
    "chunks": lambda: example("./examples/chunks"),
    "outofcore": lambda: example("./examples/outofcore"),
    "layers": lambda: example("./examples/layers"),
    "processes": lambda: shell("pinion bench processes --size 16MiB"),
    "managed": lambda: shell("pinion bench managed --size 16MiB"),
    "devices": lambda: shell("pinion devices"),
    "doctor": lambda: shell("pinion doctor"),
    "error": lambda: shell("pinion feed ~/photo; echo \"exit status $?\""),
    "oom": lambda: example("./examples/oom"),
    "leak": lambda: example("./examples/leak"),
    "replay": lambda: shell("pinion replay --generate growing -o growing.jsonl && pinion replay growing.jsonl"),
    "tune": lambda: shell("pinion tune ~/photos --budget 20s"),
    "step": lambda: shell("pinion bench step --device host --layers 4 --width 64 --heads 4 --batch 4 --length 64 --vocabulary 256"
                          f" --budget 2.5MiB --no-link --plan {root}/docs/img/plan-again.svg"),
    "timeline": lambda: shell("pinion feed ~/photos --shuffle --trace trace.json"),
}


def main():
    names = sys.argv[1:] or list(outputs)
    prepare()
    texts = {name: outputs[name]() for name in names}
    for path in [root + "/README.md", root + "/docs/tune.md", root + "/docs/timeline.md", root + "/docs/doctor.md", root + "/docs/step.md"] + glob.glob(root + "/docs/guide/*.md"):
        with open(path) as f:
            text = old = f.read()
        for name, output in texts.items():
            mark = f"<!-- output {name} -->\n"
            text = re.sub(re.escape(mark) + r"(```\n(?:.*?\n)??```\n)?", lambda _: f"{mark}```\n{output}\n```\n", text, flags=re.S)
        if text != old:
            with open(path, "w") as f:
                f.write(text)
            print("wrote", os.path.relpath(path, root))
    shutil.rmtree(home)


main()
