// Measures what O_DIRECT reads of a file give, as fio's psync engine does
// them: threads that each read the next block of 2 MiB into memory of their
// own, and nothing else.
//
//   cc -O2 -pthread -o /tmp/direct_read direct_read.c && /tmp/direct_read FILE 12 > direct-read.json
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { block = 2 << 20, repeats = 3 };
static int fd;
static long long size;
static atomic_llong next_block;

static void *reader(void *unused) {
	void *buffer;
	if (posix_memalign(&buffer, 4096, block)) exit(1);
	for (;;) {
		long long at = atomic_fetch_add(&next_block, 1) * block;
		if (at >= size) break;
		long long want = size - at < block ? size - at : block;
		if (pread(fd, buffer, block, at) < want) {
			perror("pread");
			exit(1);
		}
	}
	free(buffer);
	return unused;
}

static double run(int threads) {
	pthread_t t[64];
	struct timespec a, b;
	atomic_store(&next_block, 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < threads; i++) pthread_create(&t[i], NULL, reader, NULL);
	for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return size / 1e9 / (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9);
}

static int ascending(const void *a, const void *b) {
	double d = *(const double *)a - *(const double *)b;
	return d < 0 ? -1 : d > 0;
}

int main(int argc, char **argv) {
	if (argc < 3) return 2;
	struct stat st;
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	if (fd < 0 || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	size = st.st_size;
	int threads = atoi(argv[2]);
	if (threads < 1 || threads > 64) return 2;
	double v[repeats];
	for (int i = 0; i < repeats; i++) v[i] = run(threads);
	qsort(v, repeats, sizeof *v, ascending);
	struct utsname u;
	uname(&u);
	char date[32];
	time_t t = time(NULL);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	printf("{\n  \"peer\": \"O_DIRECT reads, %d threads\",\n  \"what\": \"moves\",\n  \"machine\": \"%s %s\",\n  \"measured_at\": \"%s\",\n  \"repeats\": %d,\n"
	       "  \"rows\": [\n    {\"name\": \"disk h2d, O_DIRECT reads without a copy\", \"value\": %.4g, \"unit\": \"GB/s\", \"min\": %.4g, \"max\": %.4g}\n  ]\n}\n",
	       threads, u.sysname, u.release, date, repeats, v[repeats / 2], v[0], v[repeats - 1]);
}
