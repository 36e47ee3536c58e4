package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// diskChecks are about where data lies, and where Pinion writes.
var diskChecks = []Check{
	{Name: "file-system", Family: "disk", Asks: "on what kind of file system does the data lie (--path)?", run: checkFileSystem},
	{Name: "disk-read", Family: "disk", Asks: "how fast does the disk of the data read?", needs: []string{"disk"}, run: checkDiskRead},
	{Name: "disk-room", Family: "disk", Asks: "is there room where the data lies?", run: checkDiskRoom},
	{Name: "cufile", Family: "disk", Asks: "do files move straight between disk and GPU?", gpu: true, needs: []string{"libraries", "files"}, run: checkCuFile},
	{Name: "temp-folder", Family: "disk", Asks: "can temporary files be written?", run: checkTemp},
	{Name: "cache-folder", Family: "disk", Asks: "can results be kept, such as the model of the link?", run: checkCache},
}

// Kinds of file systems, as mountinfo names them.
var (
	networks = map[string]bool{"nfs": true, "nfs4": true, "cifs": true, "smb3": true, "smbfs": true, "9p": true,
		"ceph": true, "glusterfs": true, "afs": true, "virtiofs": true, "drvfs": true, "fuse.sshfs": true, "fuse.s3fs": true,
		"fuse.gcsfuse": true, "fuse.rclone": true, "fuse.goofys": true, "fuse.mount-s3": true, "fuse.blobfuse2": true}
	memories  = map[string]bool{"tmpfs": true, "devtmpfs": true, "ramfs": true, "hugetlbfs": true}
	parallels = map[string]bool{"lustre": true, "gpfs": true, "beegfs": true, "wekafs": true}
)

func checkFileSystem(m *machine) Result {
	if m.goos != "linux" {
		return skipped("only Linux tells")
	}
	name, err := m.abs(m.request.Path)
	if err == nil {
		err = m.read(name)
	}
	if err != nil {
		return fail(oneLine(err.Error()), "What cannot be reached cannot be read.", "Name a file or folder of the data that this user may read: --path.")
	}
	mounted, found := m.mountOf(name)
	if !found {
		return skipped("the system does not tell its mounts")
	}
	measured := fmt.Sprintf("%s at %s", mounted.kind, oneLine(mounted.point))
	switch {
	case networks[mounted.kind] || strings.HasPrefix(mounted.kind, "fuse"):
		return warn(measured, "Each file that is opened is a round trip or more, and none is read past the page cache on most of them.",
			"Copy the data to a local disk, or `pinion pack DATA LOCAL`: shards of many samples read in long runs.")
	case mounted.kind == "overlay":
		return warn(measured, "In the layers of a container's image, the first write to a file copies all of it, and reads pass one more layer.",
			"Put data on a volume of the host: `docker run -v /data:/data`.")
	case memories[mounted.kind]:
		return ok(measured, "Its files are in memory, which is then not there for anything else.")
	case parallels[mounted.kind]:
		return ok(measured, "A parallel file system reads large files fast, and many small ones slowly: `pinion pack` makes shards of them.")
	}
	return ok(measured, "A local file system is read past the page cache, straight into pinned memory, where it allows that.")
}

func checkDiskRead(m *machine) Result {
	f := m.disk.facts
	if f.Seconds <= 0 {
		return skipped("nothing was read")
	}
	speed := float64(f.Bytes) / f.Seconds
	measured := fmt.Sprintf("%s past the page cache (%s were read)", rate(speed), units.Bytes(f.Bytes))
	const photo = 110e3 // bytes
	why := fmt.Sprintf("That is %s photos of 110 kB a second, for data that the page cache does not hold.", units.Grouped(int64(speed/photo)))
	const slow = 500e6 // what a SATA SSD gives
	if speed < slow {
		return warn(measured, why, "Keep data on a local NVMe drive, pack small files into shards (`pinion pack`), or raise the throughput that the volume was given (cloud). What fits into memory is read once.")
	}
	return ok(measured, why)
}

func checkDiskRoom(m *machine) Result {
	path, err := m.abs(m.request.Path)
	if err != nil {
		return m.see("file-system", err.Error())
	}
	total, free, err := m.space(path)
	if err != nil || total == 0 {
		return skipped("the system does not tell")
	}
	measured := fmt.Sprintf("%s of %s free", units.Bytes(free), units.Bytes(total))
	const why = "Checkpoints, shards and spilled arrays need room, and file systems that are nearly full write slowly."
	if free < 5*gib || free < total/50 {
		return warn(measured, why, "`du -xh --max-depth=2 FOLDER | sort -h | tail` shows what takes it.")
	}
	return ok(measured, why)
}

// noNVMe are the names of drives that cuFile cannot reach. What is made of several
// drives, or mapped, may be NVMe below.
var noNVMe = []string{"vd", "xvd", "sd", "hd", "mmcblk", "zram", "loop"}

func checkCuFile(m *machine) Result {
	const why = "Where cuFile does not move files straight it copies them through host memory, slower than Pinion's own path, which is then taken."
	f := m.files.facts.Straight
	if f.Value {
		return ok("straight", why)
	}
	for _, l := range m.libraries.facts {
		if l.Name == "cuFile" && l.File == "" {
			return skipped("cuFile is not installed: Pinion reads past the page cache into pinned memory")
		}
	}
	if drive := m.drive(); slices.ContainsFunc(noNVMe, func(kind string) bool { return strings.HasPrefix(drive, kind) }) {
		return ok("not used: "+drive+" is no NVMe drive", why)
	}
	reason := f.Reason
	if _, after, found := strings.Cut(reason, device.ErrNotSupported.Error()+": "); found {
		reason = after // without who says it
	}
	return warn("not used: "+reason, why,
		"If the drive is NVMe: `sudo modprobe nvidia-fs` (package nvidia-gds), then `/usr/local/cuda/gds/tools/gdscheck -p` says what is missing. Nothing has to be done for Pinion's own path.")
}

func checkTemp(m *machine) Result {
	const why = "Files are written beside and renamed, and sockets and samples are made here."
	if !m.exists(m.temp) {
		return fail(oneLine(m.temp)+" does not exist", why, "`mkdir -p "+shellWord(m.temp)+"`, or name a folder that can be written: TMPDIR=/path.")
	}
	if err := m.write(m.temp); err != nil {
		return fail("no file can be written: "+oneLine(err.Error()), why, "Name a folder that can be written: TMPDIR=/path. If it is full: `du -xh "+shellWord(m.temp)+" | sort -h | tail`.")
	}
	measured := "writable"
	if _, free, err := m.space(m.temp); err == nil {
		measured += ", " + units.Bytes(free) + " free"
		if free < 256<<20 {
			return warn(measured, why, "Make room in "+m.temp+", or name another folder: TMPDIR=/path.")
		}
	}
	return ok(measured, why)
}

func checkCache(m *machine) Result {
	const why = "The model of the link and what `pinion tune` found are kept there; without it each run starts anew."
	folder, err := m.cache()
	if err != nil {
		return warn(oneLine(err.Error()), why, "Set HOME, or XDG_CACHE_HOME=/path to a folder that can be written.")
	}
	folder = m.nearest(filepath.Join(folder, "pinion")) // it is made when it is needed
	if err := m.write(folder); err != nil {
		return warn("no file can be written: "+oneLine(err.Error()), why, "Name a folder that can be written: XDG_CACHE_HOME=/path.")
	}
	return ok("writable", why)
}

// shellWord is text as one word of a shell.
func shellWord(text string) string {
	special := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+:@,=", r))
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
