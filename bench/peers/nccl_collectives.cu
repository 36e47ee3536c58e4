// Measures collectives of NCCL called from C++, as a reference for
// `pinion bench collectives`: one thread for each GPU.
//
//   nvcc -O2 -std=c++17 -o /tmp/nccl nccl_collectives.cu -lnccl && /tmp/nccl > cpp-collectives.json
//
// Results are checked first. A call's time is the mean over calls one behind the other,
// and for 8 bytes also the median of calls that are waited for; the slowest rank counts.
// Bandwidth is size over time, the size being that of the whole, as nccl-tests has it.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#define CUDA(call)                                                             \
	do {                                                                       \
		cudaError_t e = (call);                                                \
		if (e != cudaSuccess) {                                                \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));         \
			exit(1);                                                           \
		}                                                                      \
	} while (0)
#define NCCL(call)                                                             \
	do {                                                                       \
		ncclResult_t code = (call);                                            \
		if (code != ncclSuccess) {                                             \
			fprintf(stderr, "%s: %s\n", #call, ncclGetErrorString(code));      \
			exit(1);                                                           \
		}                                                                      \
	} while (0)

static double now() {
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static int ranks;

// meet waits for all ranks.
static void meet() {
	static std::atomic<int> come{0};
	static std::atomic<int> round{0};
	int before = round;
	if (++come == ranks) {
		come = 0;
		round++;
	} else {
		while (round == before) std::this_thread::yield();
	}
}

struct Row {
	std::string name, unit;
	double scale;  // value = scale / seconds, or scale * seconds for a time
	bool rate;
	std::vector<std::vector<double>> seconds;  // by rank and repeat
};

static const int repeats = 9;
static const size_t most = size_t(1) << 30;

struct Rank {
	int number;
	ncclComm_t comm;
	cudaStream_t s;
	float *send, *recv;

	void call(const std::string &op, size_t bytes) {
		size_t n = bytes / 4;
		if (op == "all-reduce")
			NCCL(ncclAllReduce(send, recv, n, ncclFloat, ncclSum, comm, s));
		else if (op == "reduce-scatter")
			NCCL(ncclReduceScatter(send, recv, n / ranks, ncclFloat, ncclSum, comm, s));
		else
			NCCL(ncclAllGather(send, recv, n / ranks, ncclFloat, comm, s));
	}

	void check() {
		std::vector<float> x(1024, float(number + 1)), y(1024);
		CUDA(cudaMemcpy(send, x.data(), 4096, cudaMemcpyHostToDevice));
		call("all-reduce", 4096);
		CUDA(cudaStreamSynchronize(s));
		CUDA(cudaMemcpy(y.data(), recv, 4096, cudaMemcpyDeviceToHost));
		for (float v : y)
			if (v != ranks * (ranks + 1) / 2) {
				fprintf(stderr, "rank %d: a sum of %g\n", number, v);
				exit(1);
			}
	}

	// many is the mean of calls one behind the other.
	double many(const std::string &op, size_t bytes, int calls) {
		CUDA(cudaStreamSynchronize(s));
		meet();
		double start = now();
		for (int i = 0; i < calls; i++) call(op, bytes);
		CUDA(cudaStreamSynchronize(s));
		return (now() - start) / calls;
	}

	// single is the median of calls that are waited for.
	double single(const std::string &op, size_t bytes) {
		std::vector<double> t;
		for (int i = 0; i < 101; i++) t.push_back(many(op, bytes, 1));
		std::sort(t.begin(), t.end());
		return t[50];
	}
};

int main(int argc, char **argv) {
	CUDA(cudaGetDeviceCount(&ranks));
	if (argc > 1) ranks = std::min(ranks, atoi(argv[1]));
	std::vector<Row> rows;
	const std::vector<std::string> ops = {"all-reduce", "reduce-scatter", "all-gather"};
	for (auto &op : ops) rows.push_back({op + " 1 GiB", "GB/s", most / 1e9, true, {}});
	rows.push_back({"all-reduce 8 B", "us", 1e6, false, {}});
	rows.push_back({"all-reduce 8 B, waited for", "us", 1e6, false, {}});
	for (auto &row : rows) row.seconds.resize(ranks);

	ncclUniqueId id;
	NCCL(ncclGetUniqueId(&id));
	std::vector<std::thread> threads;
	for (int r = 0; r < ranks; r++)
		threads.emplace_back([&, r] {
			CUDA(cudaSetDevice(r));
			Rank rank{r};
			CUDA(cudaStreamCreateWithFlags(&rank.s, cudaStreamNonBlocking));
			CUDA(cudaMalloc(&rank.send, most));
			CUDA(cudaMalloc(&rank.recv, most));
			CUDA(cudaMemset(rank.send, 0, most));
			NCCL(ncclCommInitRank(&rank.comm, ranks, id, r));
			rank.check();
			for (int k = -1; k < repeats; k++) {  // the first warms up
				std::vector<double> t;
				for (auto &op : ops) t.push_back(rank.many(op, most, 10));
				t.push_back(rank.many("all-reduce", 8, 200));
				t.push_back(rank.single("all-reduce", 8));
				for (size_t i = 0; k >= 0 && i < t.size(); i++) rows[i].seconds[r].push_back(t[i]);
			}
			NCCL(ncclCommDestroy(rank.comm));
		});
	for (auto &t : threads) t.join();

	cudaDeviceProp prop;
	CUDA(cudaGetDeviceProperties(&prop, 0));
	int version;
	NCCL(ncclGetVersion(&version));
	char date[32];
	time_t t = time(nullptr);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	printf("{\n  \"peer\": \"C++, NCCL %d.%d.%d\",\n  \"what\": \"collectives\",\n  \"ranks\": %d,\n  \"device_name\": \"%s\",\n  \"measured_at\": \"%s\",\n  \"repeats\": %d,\n  \"rows\": [\n",
	       version / 10000, version / 100 % 100, version % 100, ranks, prop.name, date, repeats);
	for (size_t i = 0; i < rows.size(); i++) {
		Row &row = rows[i];
		std::vector<double> slowest;
		for (int k = 0; k < repeats; k++) {
			double s = 0;
			for (auto &of : row.seconds) s = std::max(s, of[k]);
			slowest.push_back(s);
		}
		std::sort(slowest.begin(), slowest.end());
		auto value = [&](double seconds) { return row.rate ? row.scale / seconds : row.scale * seconds; };
		double least = value(slowest.front()), greatest = value(slowest.back());
		printf("    {\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"min\": %.4g, \"max\": %.4g}%s\n",
		       row.name.c_str(), value(slowest[repeats / 2]), row.unit.c_str(),
		       std::min(least, greatest), std::max(least, greatest), i + 1 < rows.size() ? "," : "");
	}
	printf("  ]\n}\n");
}
