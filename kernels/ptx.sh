#!/bin/sh
# Compiles a .cu file to a .ptx file beside it, for go generate:
#
#   sh ptx.sh [/path/to/nvcc [FILE.cu [COMPUTE_CAPABILITY]]]
#
# By default kernels.cu beside this script, for 7.5.
#
# The code asks for nothing that its compute capability and PTX ISA 7.0 lack,
# but nvcc stamps its own ISA version on it (CUDA 13.0: 9.0), which older
# drivers refuse. So the stamp is lowered to 7.0, and ptxas, where it is
# installed, has to accept the result.
set -eu
nvcc=$(command -v "${1:-nvcc}") || {
	echo "ptx.sh: no ${1:-nvcc}; give the path of nvcc" >&2
	exit 1
}
source=${2:-$(dirname "$0")/kernels.cu}
result=${source%.cu}.ptx
arch=$(echo "${3:-7.5}" | tr -d .)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$nvcc" -ptx "-arch=compute_$arch" -std=c++17 -O3 -o "$tmp/nvcc.ptx" "$source"
# Comments name the compiler's build; they would change the file for nothing.
sed -e '/^\/\//d' -e 's/^\.version .*/.version 7.0/' "$tmp/nvcc.ptx" >"$tmp/kernels.ptx"
for line in '.version 7.0' ".target sm_$arch"; do
	grep -q -x -F -e "$line" "$tmp/kernels.ptx" || {
		echo "ptx.sh: the result has no line \"$line\"" >&2
		exit 1
	}
done

ptxas=$(dirname "$nvcc")/ptxas
[ -x "$ptxas" ] || ptxas=$(command -v ptxas) || ptxas=
if [ -n "$ptxas" ]; then
	"$ptxas" -v "-arch=sm_$arch" -o "$tmp/kernels.cubin" "$tmp/kernels.ptx" >"$tmp/ptxas.log" 2>&1 || {
		cat "$tmp/ptxas.log" >&2
		echo "ptx.sh: ptxas refuses the PTX at ISA 7.0" >&2
		exit 1
	}
	if grep -E '[1-9][0-9]* bytes (stack frame|spill)' "$tmp/ptxas.log" >&2; then
		echo "ptx.sh: note: a kernel uses local memory" >&2
	fi
else
	echo "ptx.sh: no ptxas: the result is not verified" >&2
fi
cp "$tmp/kernels.ptx" "$result"
