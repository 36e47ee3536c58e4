// Measures scattered and strided copies, ordinary memory, files and copies to
// another device with the raw CUDA calls, as a reference for bench/moves:
//
//   nvcc -O2 -o /tmp/cuda_moves cuda_moves.cu -lcuda && /tmp/cuda_moves FILE > cpp-moves.json
//
// With --queued instead of FILE only queued copies are measured, with --peer
// only those to another device.
//
// FILE is read through the page cache; it should be in there. Bytes are checked
// first; the samples are timed in turn, one repeat of each after the other; the
// median, the least and the most of the repeats are printed.
#include <cuda.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                    \
	do {                                                               \
		int e = (int)(call);                                           \
		if (e != 0) {                                                  \
			fprintf(stderr, "%s: error %d\n", #call, e);               \
			exit(1);                                                   \
		}                                                              \
	} while (0)

static const size_t arena = size_t(1) << 30;
static const int repeats = 7;

static double now() {
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Row {
	std::string name, unit;
	double scale;  // value = scale / seconds, or scale * seconds for a time
	bool rate;
	std::function<double()> seconds;
	std::function<void()> wipe;   // clears where the bytes go
	std::function<bool()> right;  // whether they are there
	std::vector<double> times;
};

// One thread block moves one block, 16 bytes a thread at a time.
__global__ void gather(char *dst, const char *src, const size_t *to, const size_t *from, size_t bytes) {
	uint4 *d = (uint4 *)(dst + to[blockIdx.x]);
	const uint4 *s = (const uint4 *)(src + from[blockIdx.x]);
	for (size_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) d[i] = s[i];
}

static double timed(std::function<void()> run) {
	double start = now();
	run();
	return now() - start;
}

// What it costs to queue a copy of 4 KiB, without the copy.
static Row queued() {
	const int size = 4096, rounds = 256;
	char *from, *to;
	cudaStream_t s;
	CHECK(cudaHostAlloc(&from, size, cudaHostAllocMapped));
	CHECK(cudaMalloc(&to, size));
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < size; i++) from[i] = i % 251;
	return {"4 KiB pinned h2d, queued", "us", 1e6, false, [=] {
		double t = timed([&] {
			for (int i = 0; i < rounds; i++) CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, s));
		});
		CHECK(cudaStreamSynchronize(s));
		return t / rounds;
	}, [=] {
		CHECK(cudaMemset(to, 0, size));
		CHECK(cudaDeviceSynchronize());
	}, [=] {
		std::vector<char> got(size);
		CHECK(cudaMemcpy(got.data(), to, size, cudaMemcpyDeviceToHost));
		return memcmp(got.data(), from, size) == 0;
	}};
}

static bool has_peer() {
	int n = 0;
	CHECK(cudaGetDeviceCount(&n));
	return n > 1;
}

// From device 0 to device 1, with access to each other where they can have it.
static Row peer() {
	char *from, *to;
	cudaStream_t s;
	for (int i = 1; i >= 0; i--) {  // device 0 stays the current one
		int can = 0;
		CHECK(cudaSetDevice(i));
		CHECK(cudaDeviceCanAccessPeer(&can, i, 1 - i));
		if (can) CHECK(cudaDeviceEnablePeerAccess(1 - i, 0));
		CHECK(cudaMalloc(i ? &to : &from, arena));
	}
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	char *sent = (char *)malloc(arena), *got = (char *)malloc(arena);
	std::mt19937_64 random(8);
	for (size_t i = 0; i < arena; i += 8) *(uint64_t *)(sent + i) = random();
	CHECK(cudaMemcpy(from, sent, arena, cudaMemcpyHostToDevice));
	return {"peer copy, cudaMemcpyPeerAsync", "GB/s", arena / 1e9, true, [=] {
		return timed([&] {
			CHECK(cudaMemcpyPeerAsync(to, 1, from, 0, arena, s));
			CHECK(cudaStreamSynchronize(s));
		});
	}, [=] {
		CHECK(cudaSetDevice(1));
		CHECK(cudaMemset(to, 0, arena));
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaSetDevice(0));
	}, [=] {
		CHECK(cudaMemcpy(got, to, arena, cudaMemcpyDeviceToHost));
		return memcmp(got, sent, arena) == 0;
	}};
}

// Checks the rows, times them in turn, and prints what is about them.
static int measure(const char *what, std::vector<Row> rows) {
	for (auto &row : rows) {
		row.wipe();
		row.seconds();  // warms up, too
		if (!row.right()) {
			fprintf(stderr, "%s: the bytes that arrived are not those that were sent\n", row.name.c_str());
			return 1;
		}
	}
	for (int i = 0; i < repeats; i++)
		for (auto &row : rows) row.times.push_back(row.seconds());

	cudaDeviceProp prop;
	CHECK(cudaGetDeviceProperties(&prop, 0));
	int version;
	CHECK(cudaRuntimeGetVersion(&version));
	char date[32];
	time_t t = time(nullptr);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	printf("{\n  \"peer\": \"C++, CUDA %d.%d\",\n  \"what\": \"%s\",\n  \"device_name\": \"%s\",\n  \"measured_at\": \"%s\",\n  \"repeats\": %d,\n  \"rows\": [\n",
	       version / 1000, version % 1000 / 10, what, prop.name, date, repeats);
	for (size_t i = 0; i < rows.size(); i++) {
		Row &row = rows[i];
		std::sort(row.times.begin(), row.times.end());
		auto value = [&](double seconds) { return row.rate ? row.scale / seconds : row.scale * seconds; };
		double least = value(row.times.front()), most = value(row.times.back());
		printf("    {\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"min\": %.4g, \"max\": %.4g}%s\n",
		       row.name.c_str(), value(row.times[repeats / 2]), row.unit.c_str(),
		       std::min(least, most), std::max(least, most), i + 1 < rows.size() ? "," : "");
	}
	printf("  ]\n}\n");
	return 0;
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "--queued")) return measure("queued", {queued()});
	if (argc > 1 && !strcmp(argv[1], "--peer")) {
		if (has_peer()) return measure("moves", {peer()});
		fprintf(stderr, "there is no second device\n");
		return 1;
	}

	// up and from hold the same random bytes; down and to take what is copied.
	char *up, *down, *to, *from, *mapped_up, *mapped_down;
	cudaStream_t s, r;
	CHECK(cudaHostAlloc(&up, arena, cudaHostAllocMapped));
	CHECK(cudaHostAlloc(&down, arena, cudaHostAllocMapped));
	CHECK(cudaHostGetDevicePointer((void **)&mapped_up, up, 0));
	CHECK(cudaHostGetDevicePointer((void **)&mapped_down, down, 0));
	CHECK(cudaMalloc(&to, arena));
	CHECK(cudaMalloc(&from, arena));
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&r, cudaStreamNonBlocking));
	char *ordinary = (char *)malloc(arena), *back = (char *)malloc(arena);
	std::mt19937_64 random(7);
	for (size_t i = 0; i < arena; i += 8) *(uint64_t *)(up + i) = random();
	memcpy(ordinary, up, arena);
	memset(back, 0, arena);
	CHECK(cudaMemcpy(from, up, arena, cudaMemcpyHostToDevice));

	auto wipe_to = [=] {
		CHECK(cudaMemset(to, 0, arena));
		CHECK(cudaDeviceSynchronize());
	};
	auto wipe_down = [=] { memset(down, 0, arena); };
	auto wipe_back = [=] { memset(back, 0, arena); };
	auto fetch = [=] { CHECK(cudaMemcpy(down, to, arena, cudaMemcpyDeviceToHost)); };

	std::vector<Row> rows;
	for (size_t bytes : {size_t(16) << 10, size_t(64) << 10, size_t(256) << 10}) {
		size_t n = (size_t(256) << 20) / bytes, places = arena / bytes;
		std::vector<size_t> tos(places), froms(places);
		std::iota(tos.begin(), tos.end(), 0);
		std::iota(froms.begin(), froms.end(), 0);
		std::shuffle(tos.begin(), tos.end(), random);
		std::shuffle(froms.begin(), froms.end(), random);
		tos.resize(n), froms.resize(n);
		for (auto &v : tos) v *= bytes;
		for (auto &v : froms) v *= bytes;
		size_t *dto, *dfrom;
		CHECK(cudaMalloc(&dto, n * 8));
		CHECK(cudaMalloc(&dfrom, n * 8));
		CHECK(cudaMemcpy(dto, tos.data(), n * 8, cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy(dfrom, froms.data(), n * 8, cudaMemcpyHostToDevice));
		auto right = [=] {
			for (size_t i = 0; i < n; i++)
				if (memcmp(down + tos[i], up + froms[i], bytes)) return false;
			return true;
		};
		for (std::string direction : {"h2d", "d2h", "d2d"}) {
			std::string what = "scattered " + std::to_string(bytes >> 10) + " KiB " + direction;
			bool out = direction == "d2h", in = direction == "h2d";
			char *d = out ? down : to, *f = in ? up : from;
			cudaMemcpyKind kind = in ? cudaMemcpyHostToDevice : out ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
			double gb = n * bytes / 1e9;
			std::function<void()> wipe = wipe_to;
			std::function<bool()> check = [=] { return fetch(), right(); };
			if (out) wipe = wipe_down, check = right;
			rows.push_back({what + ", loop", "GB/s", gb, true, [=] {
				return timed([&] {
					for (size_t i = 0; i < n; i++) CHECK(cudaMemcpyAsync(d + tos[i], f + froms[i], bytes, kind, s));
					CHECK(cudaStreamSynchronize(s));
				});
			}, wipe, check});
			rows.push_back({what + ", batch call", "GB/s", gb, true, [=] {
				std::vector<CUdeviceptr> ds(n), fs(n);
				std::vector<size_t> sizes(n, bytes);
				for (size_t i = 0; i < n; i++) ds[i] = (CUdeviceptr)(d + tos[i]), fs[i] = (CUdeviceptr)(f + froms[i]);
				CUmemcpyAttributes attr = {};
				attr.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
				size_t index = 0;
				return timed([&] {
					CHECK(cuMemcpyBatchAsync(ds.data(), fs.data(), sizes.data(), n, &attr, &index, 1, (CUstream)s));
					CHECK(cudaStreamSynchronize(s));
				});
			}, wipe, check});
			char *kd = out ? mapped_down : to, *kf = in ? mapped_up : from;
			rows.push_back({what + ", kernel", "GB/s", gb, true, [=] {
				return timed([&] {
					gather<<<n, 256, 0, s>>>(kd, kf, dto, dfrom, bytes);
					CHECK(cudaGetLastError());
					CHECK(cudaStreamSynchronize(s));
				});
			}, wipe, check});
		}
	}
	{
		const size_t row = 16 << 10, n = (size_t(256) << 20) / row, apart = arena / n;
		rows.push_back({"strided rows 16 KiB h2d, cudaMemcpy2DAsync", "GB/s", n * row / 1e9, true, [=] {
			return timed([&] {
				CHECK(cudaMemcpy2DAsync(to, row, up, apart, row, n, cudaMemcpyHostToDevice, s));
				CHECK(cudaStreamSynchronize(s));
			});
		}, wipe_to, [=] {
			fetch();
			for (size_t i = 0; i < n; i++)
				if (memcmp(down + i * row, up + i * apart, row)) return false;
			return true;
		}});
	}
	// The calls return when ordinary memory is read or written, so that both
	// directions at once take two threads.
	auto ordinary_up = [=] {
		CHECK(cudaMemcpyAsync(to, ordinary, arena, cudaMemcpyHostToDevice, s));
		CHECK(cudaStreamSynchronize(s));
	};
	auto ordinary_down = [=] {
		CHECK(cudaMemcpyAsync(back, from, arena, cudaMemcpyDeviceToHost, r));
		CHECK(cudaStreamSynchronize(r));
	};
	auto arrived = [=] { return fetch(), memcmp(down, up, arena) == 0; };
	auto returned = [=] { return memcmp(back, up, arena) == 0; };
	rows.push_back({"pageable h2d", "GB/s", arena / 1e9, true, [=] { return timed(ordinary_up); }, wipe_to, arrived});
	rows.push_back({"pageable d2h", "GB/s", arena / 1e9, true, [=] { return timed(ordinary_down); }, wipe_back, returned});
	rows.push_back({"pageable both, two threads", "GB/s", 2 * arena / 1e9, true, [=] {
		return timed([&] {
			std::thread other(ordinary_down);
			ordinary_up();
			other.join();
		});
	}, [=] { wipe_to(), wipe_back(); }, [=] { return arrived() && returned(); }});

	if (argc > 1) {
		int fd = open(argv[1], O_RDONLY);
		struct stat st;
		if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
			perror(argv[1]);
			return 1;
		}
		size_t size = std::min(size_t(st.st_size), arena);
		char *map = (char *)mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED) {
			perror(argv[1]);
			return 1;
		}
		auto right = [=] { return fetch(), memcmp(down, map, size) == 0; };
		rows.push_back({"file in page cache h2d, driver on mmap", "GB/s", size / 1e9, true, [=] {
			return timed([&] {
				CHECK(cudaMemcpyAsync(to, map, size, cudaMemcpyHostToDevice, s));
				CHECK(cudaStreamSynchronize(s));
			});
		}, wipe_to, right});
		rows.push_back({"file in page cache h2d, read and copy, 2 slots", "GB/s", size / 1e9, true, [=] {
			// What people write by hand: one thread, two pinned slots, for which
			// down serves here.
			const size_t slot = 16 << 20;
			cudaEvent_t done[2];
			for (auto &event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
			double t = timed([&] {
				for (size_t at = 0, k = 0; at < size; at += slot, k++) {
					size_t n = std::min(slot, size - at);
					CHECK(cudaEventSynchronize(done[k % 2]));
					if (pread(fd, down + (k % 2) * slot, n, at) != (ssize_t)n) exit(1);
					CHECK(cudaMemcpyAsync(to + at, down + (k % 2) * slot, n, cudaMemcpyHostToDevice, s));
					CHECK(cudaEventRecord(done[k % 2], s));
				}
				CHECK(cudaStreamSynchronize(s));
			});
			for (auto &event : done) CHECK(cudaEventDestroy(event));
			return t;
		}, wipe_to, right});
	}
	if (has_peer()) rows.push_back(peer());
	return measure("moves", rows);
}
