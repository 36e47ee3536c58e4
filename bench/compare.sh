#!/bin/bash
# Runs the benchmarks of two builds in turn on a GPU host, to show that a change
# makes nothing slower:
#
#   git worktree add /tmp/base COMMIT && (cd /tmp/base && bench/build.sh)
#   cp -r /tmp/base/.build .build-base && bench/build.sh
#   bench/compare.sh OUT [link] [hold] [feed] [moves]
#
# A build is a folder with pinion, moves, loop and feeding; BASE and NEW name
# the two (.build-base and .build). Every part runs at least once with each build.
# After that parts are repeated, the build that goes first changing every time,
# for as long as another round fits into LIMIT seconds (460). FEED names the groups
# of bench/feeding. A part that fails is said and left out.
#
# The results are OUT/base/PART-ROUND.json and OUT/new/…; bench/compare.py OUT
# prints them as a table. The host needs no Go, only Python.
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: bench/compare.sh OUT [link] [hold] [feed] [moves]"
out=${1:?$usage}
shift
parts=(${@:-link hold feed moves})
for part in "${parts[@]}"; do
	case $part in link | hold | feed | moves) ;; *) echo "$usage" >&2 && exit 2 ;; esac
done
declare -A build=([base]=$(realpath "${BASE:-.build-base}") [new]=$(realpath "${NEW:-.build}"))
limit=${LIMIT:-460}
device=${DEVICE:-cuda:0}
quick=()
[ -z "${QUICK:-}" ] || quick=(--quick) # to see that everything works
mkdir -p "$out/base" "$out/new"
out=$(realpath "$out")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# What each build measures, with flags that both know.
run() { # BUILD NAME PROGRAM FLAGS…: writes NAME.json
	local file=$out/$1/$2.json
	# A build keeps its own models of the link: their form may have changed.
	XDG_CACHE_HOME=$tmp/$1 timeout 150 "${build[$1]}/$3" "${@:4}" >"$file" 2>"$tmp/log" || {
		echo "   failed: $1 $2: $(tail -1 "$tmp/log")"
		rm -f "$file"
	}
}
link() { run "$1" "link-$2" pinion bench link --device "$device" --size "${SIZE:-256MiB}" --copiers 12 --curves --json; }
moves() { run "$1" "moves-$2" moves --device "$device" --copiers 16 --only scattered,pageable,pipeline,file --file "$tmp/random" "${quick[@]}"; }
hold() {
	run "$1" "loop-$2" loop --device "$device" "${quick[@]}"
	local trace
	for trace in random cycles; do
		run "$1" "replay-$trace-$2" pinion replay "$tmp/$trace.jsonl" --device "$device" --json
	done
}
feed() {
	run "$1" "feeding-$2" feeding --device "$device" --copiers 16 --only "${FEED:-cpu,memory,mapped,gpu}" --photos "$tmp/photos" --images "$tmp/images.raw" --json "${quick[@]}"
}

# What they measure it on.
prepare() {
	case $1 in
	moves) [ -e "$tmp/random" ] || head -c "${FILE_BYTES:-2G}" /dev/urandom >"$tmp/random" ;;
	hold)
		local count=(--count 1000)
		[ -z "${QUICK:-}" ] || count=(--count 100)
		"${build[base]}/pinion" replay --generate random "${count[@]}" --max 4GiB --live 16GiB --seed 1 >"$tmp/random.jsonl"
		"${build[base]}/pinion" replay --generate cycles --seed 1 >"$tmp/cycles.jsonl"
		;;
	esac
}

declare -A took=()
order=(base new)
for round in 1 2 3 4 5 6 7 8 9; do
	ran=
	for part in "${parts[@]}"; do
		[ $round -eq 1 ] || [ $((SECONDS + ${took[$part]})) -lt "$limit" ] || continue
		[ $round -ne 1 ] || prepare "$part"
		start=$SECONDS
		for which in "${order[@]}"; do "$part" "$which" "$round"; done
		took[$part]=$((SECONDS - start))
		echo "== $part, round $round: ${took[$part]} s, ${SECONDS} s in all"
		ran=1
	done
	[ -n "$ran" ] || break
	order=("${order[1]}" "${order[0]}")
done
python3 bench/compare.py "$out"
