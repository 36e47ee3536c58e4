// Measures what O_DIRECT reads of a file give, as fio's psync engine does
// them: threads that each read the next block of 2 MiB into memory of their
// own, and nothing else. Each number of threads is a row; they are timed in
// turn, on one part of the file after the other.
//
//   cc -O2 -pthread -o /tmp/direct_read direct_read.c && /tmp/direct_read FILE 4,8,16 > disk.json
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { block = 2 << 20, repeats = 2 /* their mean is the median */, most_threads = 64, most_rows = 16 };
static const long long part = 2ll << 30;
static int fd;
static long long end;
static atomic_llong next;

static void *reader(void *unused) {
	void *buffer;
	// Huge pages: the kernel is several times slower at handing small ones to
	// the disk one by one.
	if (posix_memalign(&buffer, block, block)) exit(1);
	madvise(buffer, block, MADV_HUGEPAGE);
	memset(buffer, 1, block);
	for (;;) {
		long long at = atomic_fetch_add(&next, block);
		if (at >= end) break;
		long long want = end - at < block ? end - at : block;
		if (pread(fd, buffer, block, at) < want) {
			perror("pread");
			exit(1);
		}
	}
	free(buffer);
	return unused;
}

static double run(int threads, long long from, long long bytes) {
	pthread_t t[most_threads];
	struct timespec a, b;
	atomic_store(&next, from);
	end = from + bytes;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < threads; i++) pthread_create(&t[i], NULL, reader, NULL);
	for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return bytes / 1e9 / (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9);
}

int main(int argc, char **argv) {
	if (argc < 3) return 2;
	int threads[most_rows], rows = 0;
	for (char *list = argv[2]; *list && rows < most_rows; list += *list == ',') {
		threads[rows] = strtol(list, &list, 10);
		if (threads[rows] < 1 || threads[rows] > most_threads || (*list && *list != ',')) return 2;
		rows++;
	}
	struct stat st;
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	if (fd < 0 || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	double v[most_rows][repeats];
	for (int k = 0; k < repeats; k++) {
		// Another part each time, if the file has one: a cache below may have this.
		long long from = (k + 1) * part <= st.st_size ? k * part : 0;
		long long bytes = st.st_size - from < part ? st.st_size - from : part;
		for (int i = 0; i < rows; i++) v[i][k] = run(threads[i], from, bytes);
	}
	struct utsname u;
	uname(&u);
	char date[32];
	time_t t = time(NULL);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	printf("{\n  \"peer\": \"C\",\n  \"what\": \"disk\",\n  \"device_name\": \"%s %s\",\n  \"measured_at\": \"%s\",\n  \"repeats\": %d,\n  \"rows\": [\n",
	       u.sysname, u.release, date, repeats);
	for (int i = 0; i < rows; i++) {
		double a = v[i][0], b = v[i][repeats - 1];
		printf("    {\"name\": \"disk h2d, O_DIRECT reads without a copy, %d thread%s\", \"value\": %.4g, \"unit\": \"GB/s\", \"min\": %.4g, \"max\": %.4g}%s\n",
		       threads[i], threads[i] > 1 ? "s" : "", (a + b) / 2, a < b ? a : b, a < b ? b : a, i + 1 < rows ? "," : "");
	}
	printf("  ]\n}\n");
	return 0;
}
