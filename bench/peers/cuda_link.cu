// Measures host-device copies with the raw CUDA calls, as a reference for
// `pinion bench link`:
//
//   nvcc -O2 -o /tmp/cuda_link cuda_link.cu && /tmp/cuda_link > cpp-link.json
//
// Bytes are checked first; the paths are timed in turn, one repeat of each
// after the other; the median, the least and the most of the repeats are
// printed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                              \
	do {                                                                         \
		cudaError_t e = (call);                                                  \
		if (e != cudaSuccess) {                                                  \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));           \
			exit(1);                                                             \
		}                                                                        \
	} while (0)

static const size_t size = size_t(1) << 30;
static const int repeats = 9, rounds = 200;

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

int main() {
	unsigned char *pageable = (unsigned char *)malloc(size), *back = (unsigned char *)malloc(size);
	unsigned char *up, *down, *a, *b;
	cudaStream_t s, r;
	CHECK(cudaMallocHost(&up, size));
	CHECK(cudaMallocHost(&down, size));
	CHECK(cudaMalloc(&a, size));
	CHECK(cudaMalloc(&b, size));
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&r, cudaStreamNonBlocking));
	srand(7);
	for (size_t i = 0; i < size; i += 4) *(int *)(pageable + i) = rand();
	memcpy(up, pageable, size);
	memset(back, 0, size);
	memset(down, 0, size);

	auto timed = [](std::function<void()> run) {
		return [run] {
			double start = now();
			run();
			return now() - start;
		};
	};
	auto copy = [&](void *dst, const void *src, size_t n, cudaMemcpyKind kind) {
		return [=] {
			CHECK(cudaMemcpyAsync(dst, src, n, kind, s));
			CHECK(cudaStreamSynchronize(s));
		};
	};
	auto small = [&](void *dst, const void *src, cudaMemcpyKind kind) {
		auto one = copy(dst, src, 4096, kind);
		return [=] {
			double start = now();
			for (int i = 0; i < rounds; i++) one();
			return (now() - start) / rounds;
		};
	};
	const double gb = size / 1e9;
	std::vector<Row> rows = {
		{"pageable h2d", "GB/s", gb, true, timed(copy(a, pageable, size, cudaMemcpyHostToDevice))},
		{"pageable d2h", "GB/s", gb, true, timed(copy(back, a, size, cudaMemcpyDeviceToHost))},
		{"pinned h2d", "GB/s", gb, true, timed(copy(a, up, size, cudaMemcpyHostToDevice))},
		{"pinned d2h", "GB/s", gb, true, timed(copy(down, a, size, cudaMemcpyDeviceToHost))},
		{"pinned both", "GB/s", 2 * gb, true, timed([&] {
			 CHECK(cudaMemcpyAsync(b, up, size, cudaMemcpyHostToDevice, s));
			 CHECK(cudaMemcpyAsync(down, a, size, cudaMemcpyDeviceToHost, r));
			 CHECK(cudaStreamSynchronize(s));
			 CHECK(cudaStreamSynchronize(r));
		 })},
		{"4 KiB pageable h2d", "us", 1e6, false, small(a, pageable, cudaMemcpyHostToDevice)},
		{"4 KiB pageable d2h", "us", 1e6, false, small(back, a, cudaMemcpyDeviceToHost)},
		{"4 KiB pinned h2d", "us", 1e6, false, small(a, up, cudaMemcpyHostToDevice)},
		{"4 KiB pinned d2h", "us", 1e6, false, small(down, a, cudaMemcpyDeviceToHost)},
		{"pin 1 GiB", "s", 1, false, [&] {
			 void *p;
			 double start = now();
			 CHECK(cudaHostAlloc(&p, size, cudaHostAllocMapped));
			 double t = now() - start;
			 CHECK(cudaFreeHost(p));
			 return t;
		 }},
	};
	for (auto &row : rows) row.seconds();  // warm-up, and the bytes to check
	if (memcmp(down, pageable, size) || memcmp(back, pageable, size)) {
		fprintf(stderr, "the bytes that arrived are not those that were sent\n");
		return 1;
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
	printf("{\n  \"peer\": \"C++, CUDA %d.%d\",\n  \"what\": \"link\",\n  \"device_name\": \"%s\",\n  \"measured_at\": \"%s\",\n  \"repeats\": %d,\n  \"rows\": [\n",
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
