// Decodes a folder of JPEGs on the GPU's engines with nvJPEG's own calls, and does nothing else, as a
// reference for the loaders that decode there:
//
//   nvcc -O2 -std=c++17 -o /tmp/nvjpeg_decode nvjpeg_decode.cpp -lnvjpeg
//   /tmp/nvjpeg_decode FOLDER [BATCH [SECONDS]] > nvjpeg-decode.json
//
// The photos are read before. Batches follow one another, each waited for, in passes over all photos. Printed are the
// middle, the least and the most of the passes, and of the batches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <nvjpeg.h>

#define CHECK(call)                                              \
	do {                                                         \
		int e = int(call);                                       \
		if (e != 0) {                                            \
			fprintf(stderr, "%s: status %d\n", #call, e);        \
			exit(1);                                             \
		}                                                        \
	} while (0)

static double now() {
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void row(const char *name, std::vector<double> v, const char *unit, double low, double high, const char *end) {
	std::sort(v.begin(), v.end());
	auto at = [&](double part) { return v[std::min(v.size() - 1, size_t(part * v.size()))]; };
	printf("    {\"name\": \"%s\", \"by\": \"nvJPEG in C++\", \"value\": %.6g, \"unit\": \"%s\", \"min\": %.6g, \"max\": %.6g}%s\n", name,
	       at(0.5), unit, at(low), at(high), end);
}

int main(int argc, char **argv) {
	if (argc < 2) {
		fprintf(stderr, "usage: nvjpeg_decode FOLDER [BATCH [SECONDS]]\n");
		return 2;
	}
	size_t batch = argc > 2 ? atoi(argv[2]) : 64;
	double seconds = argc > 3 ? atof(argv[3]) : 5;
	std::vector<std::string> files;
	for (auto &e : std::filesystem::recursive_directory_iterator(argv[1])) {
		if (e.path().extension() != ".jpg" && e.path().extension() != ".jpeg") continue;
		std::ifstream f(e.path(), std::ios::binary);
		files.emplace_back(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
	}
	if (batch == 0 || files.size() < batch) {
		fprintf(stderr, "%zu photos are no batch of %zu\n", files.size(), batch);
		return 1;
	}

	nvjpegHandle_t handle;
	nvjpegJpegState_t state;
	cudaStream_t stream;
	CHECK(nvjpegCreateEx(NVJPEG_BACKEND_HARDWARE, nullptr, nullptr, 0, &handle));
	CHECK(nvjpegJpegStateCreate(handle, &state));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(nvjpegDecodeBatchedInitialize(handle, state, int(batch), 1, NVJPEG_OUTPUT_RGBI));
	std::vector<size_t> widths, room(batch, 0);
	for (size_t i = 0; i < files.size(); i++) {
		int components, w[NVJPEG_MAX_COMPONENT], h[NVJPEG_MAX_COMPONENT];
		nvjpegChromaSubsampling_t subsampling;
		CHECK(nvjpegGetImageInfo(handle, (const unsigned char *)files[i].data(), files[i].size(), &components, &subsampling, w, h));
		widths.push_back(w[0]);
		room[i % batch] = std::max(room[i % batch], size_t(3) * w[0] * h[0]);
	}
	std::vector<nvjpegImage_t> images(batch);
	for (size_t i = 0; i < batch; i++) {
		images[i] = {};
		CHECK(cudaMalloc(&images[i].channel[0], room[i]));
	}

	std::vector<const unsigned char *> data(batch);
	std::vector<size_t> lengths(batch);
	std::vector<double> passes, times, calls;
	double end = now() + 1 + seconds;  // the first second is a warm-up
	while (now() < end) {
		double start = now();
		size_t n = 0;
		for (; n + batch <= files.size(); n += batch) {
			for (size_t i = 0; i < batch; i++) {
				data[i] = (const unsigned char *)files[n + i].data();
				lengths[i] = files[n + i].size();
				images[i].pitch[0] = 3 * widths[n + i];
			}
			double begin = now();
			CHECK(nvjpegDecodeBatched(handle, state, data.data(), lengths.data(), images.data(), stream));
			double called = now();
			CHECK(cudaStreamSynchronize(stream));
			if (start > end - seconds) {
				times.push_back((now() - begin) * 1e3);
				calls.push_back((called - begin) * 1e3);
			}
		}
		if (start > end - seconds) passes.push_back(n / (now() - start));
	}

	cudaDeviceProp properties;
	CHECK(cudaGetDeviceProperties(&properties, 0));
	char at[32];
	time_t t = time(nullptr);
	strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	printf("{\n  \"peer\": \"C++\",\n  \"what\": \"feeding\",\n  \"device_name\": \"%s\",\n  \"measured_at\": \"%s\",\n", properties.name, at);
	printf("  \"repeats\": %zu,\n  \"batch\": %zu,\n  \"rows\": [\n", passes.size(), batch);
	row("photos decoded on the GPU, and no more", passes, "images/s", 0, 1, ",");
	row("a batch decoded on the GPU (tenths of batches: least and most)", times, "ms", 0.1, 0.9, ",");
	row("of it, nvjpegDecodeBatched", calls, "ms", 0.1, 0.9, "");
	printf("  ]\n}\n");
}
