package top

import "os"

var proc = os.DirFS("/proc")
