#!/bin/bash
# Builds the Python package: wheels for x86_64 and aarch64.
#
#   bash python/build.sh DIR [x86_64] [aarch64]
#
# writes pinion-VERSION-py3-none-manylinux_2_17_ARCH.whl to DIR, of both or of
# those named. It needs Go, python3, gcc and, for the processor that this is not,
# Debian's gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu.
#
#   bash python/build.sh --library FILE
#
# builds the library alone, for this machine: for PINION_LIBRARY=FILE, when you
# work on the package. It is quicker, and may not load on older systems.
#
# The same sources and the same version of Go and gcc give the same bytes.
set -euo pipefail
cd "$(dirname "$0")"
export LC_ALL=C TZ=UTC
ceiling=2.17
wrapped=(dlopen dlsym dlclose dlerror pthread_create pthread_key_create pthread_setspecific pthread_sigmask
	pthread_detach pthread_attr_getstacksize pthread_attr_getstack pthread_getattr_np)

library() { # FILE [LINKER OPTION…]
	local out=$1
	shift
	CGO_ENABLED=1 go build -buildmode=c-shared -tags netgo,osusergo -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -extldflags '-Wl,--version-script=$PWD/capi/exports.map -Wl,--build-id=none $*'" \
		-o "$out" ./capi
	rm -f "${out%.so}.h"
}

check() { # LIBRARY TOOLS-PREFIX: no symbol is newer than the ceiling, and none but the ABI is visible
	local newest extra
	newest=$("$2objdump" -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -1)
	if [ "$(printf '%s\n' "$newest" "$ceiling" | sort -V | tail -1)" != "$ceiling" ]; then
		echo "build.sh: the library needs glibc $newest, but is to load on $ceiling:" >&2
		"$2objdump" -T "$1" | grep -F "GLIBC_$newest" >&2
		return 1
	fi
	extra=$("$2objdump" -T "$1" | awk '$0 !~ /\*UND\*/ && $NF !~ /^pinion_/ && $2 ~ /g/ {print $NF}')
	if [ -n "$extra" ]; then
		echo "build.sh: these symbols are visible, but are not of the ABI:" $extra >&2
		return 1
	fi
}

wheel() { # ARCH DIR
	local arch=$1 dir=$2 tools=
	[ "$arch" = "$(uname -m)" ] || tools=$arch-linux-gnu-
	export CC=${tools}gcc
	if ! command -v "$CC" >/dev/null; then
		echo "build.sh: $CC is needed for $arch: apt-get install gcc-${arch/_/-}-linux-gnu" >&2
		return 1
	fi
	case $arch in x86_64) export GOARCH=amd64 ;; aarch64) export GOARCH=arm64 ;; *) echo "build.sh: no processor: $arch" >&2; return 2 ;; esac
	CGO_CFLAGS="-O2 -g0 -DPINION_OLD_GLIBC" library "$tmp/$arch/libpinion.so" "${wrapped[@]/#/-Wl,--wrap=}"
	check "$tmp/$arch/libpinion.so" "$tools"
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o "$tmp/$arch/pinion" ../cmd/pinion
	python3 wheel.py "manylinux_2_17_$arch" "$tmp/$arch/libpinion.so" "$tmp/$arch/pinion" "$dir"
}

if [ "${1:-}" = --library ] && [ $# -eq 2 ]; then
	mkdir -p "$(dirname "$2")"
	library "$(realpath "$2")"
	exit
fi
if [ $# -eq 0 ] || [ "${1#-}" != "$1" ]; then
	sed -n '2,/^set/{/^#/{s/^# \{0,1\}//;p}}' "$(basename "$0")"
	exit 2
fi
dir=$1
shift
case $dir in /*) ;; *) dir=$OLDPWD/$dir ;; esac
mkdir -p "$dir"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ $# -gt 0 ] || set -- x86_64 aarch64
for arch; do
	(wheel "$arch" "$dir")
done
