// Measures scattered copies, queued copies and files with the raw CUDA calls,
// as a reference for `pinion bench moves`:
//
//   nvcc -O2 -o /tmp/cuda_moves cuda_moves.cu && /tmp/cuda_moves FILE > cpp-moves.json
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
	std::vector<double> times;
};

// One thread block moves one block, 16 bytes a thread at a time.
__global__ void gather(char *dst, const char *src, const size_t *to, const size_t *from, size_t bytes) {
	uint4 *d = (uint4 *)(dst + to[blockIdx.x]);
	const uint4 *s = (const uint4 *)(src + from[blockIdx.x]);
	for (size_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) d[i] = s[i];
}

int main(int argc, char **argv) {
	char *host, *dev, *mapped;
	cudaStream_t s;
	CHECK(cudaHostAlloc(&host, arena, cudaHostAllocMapped));
	CHECK(cudaMalloc(&dev, arena));
	CHECK(cudaHostGetDevicePointer((void **)&mapped, host, 0));
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	std::mt19937_64 random(7);
	for (size_t i = 0; i < arena; i += 8) *(uint64_t *)(host + i) = random();
	CHECK(cudaMemcpy(dev, host, arena, cudaMemcpyHostToDevice));

	std::vector<Row> rows;
	for (size_t bytes : {size_t(16) << 10, size_t(64) << 10, size_t(256) << 10}) {
		size_t n = (size_t(256) << 20) / bytes, places = arena / bytes;
		std::vector<size_t> to(places), from(places);
		std::iota(to.begin(), to.end(), 0);
		std::iota(from.begin(), from.end(), 0);
		std::shuffle(to.begin(), to.end(), random);
		std::shuffle(from.begin(), from.end(), random);
		to.resize(n), from.resize(n);
		for (auto &v : to) v *= bytes;
		for (auto &v : from) v *= bytes;
		size_t *dto, *dfrom;
		CHECK(cudaMalloc(&dto, n * 8));
		CHECK(cudaMalloc(&dfrom, n * 8));
		CHECK(cudaMemcpy(dto, to.data(), n * 8, cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy(dfrom, from.data(), n * 8, cudaMemcpyHostToDevice));
		for (bool up : {true, false}) {
			std::string what = std::to_string(bytes >> 10) + " KiB " + (up ? "h2d" : "d2h");
			char *d = up ? dev : host, *f = up ? host : dev;
			double gb = n * bytes / 1e9;
			rows.push_back({"scattered " + what + ", loop", "GB/s", gb, true, [=] {
				double start = now();
				for (size_t i = 0; i < n; i++)
					CHECK(cudaMemcpyAsync(d + to[i], f + from[i], bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, s));
				CHECK(cudaStreamSynchronize(s));
				return now() - start;
			}});
			rows.push_back({"scattered " + what + ", batch call", "GB/s", gb, true, [=] {
				std::vector<CUdeviceptr> ds(n), fs(n);
				std::vector<size_t> sizes(n, bytes);
				for (size_t i = 0; i < n; i++) ds[i] = (CUdeviceptr)(d + to[i]), fs[i] = (CUdeviceptr)(f + from[i]);
				CUmemcpyAttributes attr = {};
				attr.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
				size_t index = 0;
				double start = now();
				CHECK(cuMemcpyBatchAsync(ds.data(), fs.data(), sizes.data(), n, &attr, &index, 1, (CUstream)s));
				CHECK(cudaStreamSynchronize(s));
				return now() - start;
			}});
			char *kd = up ? dev : mapped, *kf = up ? mapped : dev;
			rows.push_back({"scattered " + what + ", kernel", "GB/s", gb, true, [=] {
				double start = now();
				gather<<<n, 256, 0, s>>>(kd, kf, dto, dfrom, bytes);
				CHECK(cudaGetLastError());
				CHECK(cudaStreamSynchronize(s));
				return now() - start;
			}});
		}
	}
	const int rounds = 256;
	rows.push_back({"4 KiB pinned h2d, queued", "us", 1e6, false, [=] {
		double start = now();
		for (int i = 0; i < rounds; i++) CHECK(cudaMemcpyAsync(dev, host, 4096, cudaMemcpyHostToDevice, s));
		double t = (now() - start) / rounds;
		CHECK(cudaStreamSynchronize(s));
		return t;
	}});
	if (argc > 1) {
		int fd = open(argv[1], O_RDONLY);
		struct stat st;
		if (fd < 0 || fstat(fd, &st) != 0) {
			perror(argv[1]);
			return 1;
		}
		size_t size = std::min(size_t(st.st_size), arena);
		char *map = (char *)mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
		rows.push_back({"file h2d, driver on mmap", "GB/s", size / 1e9, true, [=] {
			double start = now();
			CHECK(cudaMemcpyAsync(dev, map, size, cudaMemcpyHostToDevice, s));
			CHECK(cudaStreamSynchronize(s));
			return now() - start;
		}});
		rows.push_back({"file h2d, read and copy, 2 slots", "GB/s", size / 1e9, true, [=] {
			// What people write by hand: one thread, two pinned slots.
			const size_t slot = 16 << 20;
			cudaEvent_t done[2];
			for (auto &event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
			double start = now();
			for (size_t at = 0, k = 0; at < size; at += slot, k++) {
				size_t n = std::min(slot, size - at);
				CHECK(cudaEventSynchronize(done[k % 2]));
				if (pread(fd, host + (k % 2) * slot, n, at) != (ssize_t)n) exit(1);
				CHECK(cudaMemcpyAsync(dev + at, host + (k % 2) * slot, n, cudaMemcpyHostToDevice, s));
				CHECK(cudaEventRecord(done[k % 2], s));
			}
			CHECK(cudaStreamSynchronize(s));
			double t = now() - start;
			for (auto &event : done) CHECK(cudaEventDestroy(event));
			return t;
		}});
	}
	for (auto &row : rows) row.seconds();
	for (int i = 0; i < repeats; i++)
		for (auto &row : rows) row.times.push_back(row.seconds());

	cudaDeviceProp prop;
	CHECK(cudaGetDeviceProperties(&prop, 0));
	int version;
	CHECK(cudaRuntimeGetVersion(&version));
	char date[32];
	time_t t = time(nullptr);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	printf("{\n  \"peer\": \"C++, CUDA %d.%d\",\n  \"what\": \"moves\",\n  \"machine\": \"%s\",\n  \"measured_at\": \"%s\",\n  \"repeats\": %d,\n  \"rows\": [\n",
	       version / 1000, version % 1000 / 10, prop.name, date, repeats);
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
}
