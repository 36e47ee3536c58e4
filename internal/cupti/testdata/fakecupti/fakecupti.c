/* A stand-in for libcupti that makes up what GPUs did.
 *
 *   cc -shared -fPIC -pthread -o libfakecupti.so fakecupti.c
 *
 * Environment variables, with their defaults:
 *
 *   FAKECUPTI_VERSION  what cuptiGetVersion tells (130001); records are as large as there
 *   FAKECUPTI_BUSY     1: somebody else has subscribed (0)
 *   FAKECUPTI_FAIL     calls that fail, and how: "cuptiSubscribe=1,…=3"
 *
 * fake_work adds a record, as if the calling thread had queued the work; each thread
 * fills a buffer of its own, as with CUPTI. Buffers are given back on a thread of the
 * library. fake_storm queues kernels on threads of its own, which end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int result;
enum { OK, INVALID_PARAMETER, END = 12, INVALID_KIND = 21, MULTIPLE = 39 };
enum { MEMCPY = 1, MEMSET = 2, KERNEL = 10, MEMCPY2 = 22, KINDS = 64 };

typedef void (*requested)(uint8_t **, size_t *, size_t *);
typedef void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);

static uint64_t setting(const char *name, uint64_t fallback) {
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 0) : fallback;
}

static result injected(const char *call) {
	const char *s = getenv("FAKECUPTI_FAIL");
	size_t n = strlen(call);
	for (; s && *s; s = strchr(s, ','), s = s ? s + 1 : NULL)
		if (!strncmp(s, call, n) && s[n] == '=')
			return atoi(s + n + 1);
	return OK;
}

#define ENTER do { result r = injected(__func__); if (r) return r; } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int subscribed, enabled[KINDS];
static requested want;
static completed give;
static size_t dropped;

/* A thread's buffer. They stay in the list when their thread has ended. */
struct buffer {
	struct buffer *next;
	uint8_t *at;
	size_t size, used;
	pthread_mutex_t lock;
};
static struct buffer *list;
static __thread struct buffer *own;

static size_t size_of(uint32_t kind) {
	int old = setting("FAKECUPTI_VERSION", 130001) < 100, newest = setting("FAKECUPTI_VERSION", 130001) >= 130200;
	switch (kind) {
	case KERNEL: return old ? 208 : newest ? 224 : 216;
	case MEMCPY: return old ? 88 : newest ? 112 : 96;
	case MEMCPY2: return 96;
	case MEMSET: return newest ? 104 : 88;
	}
	return 0;
}

result cuptiGetVersion(uint32_t *version) {
	ENTER;
	*version = setting("FAKECUPTI_VERSION", 130001);
	return OK;
}

result cuptiGetResultString(result r, const char **text) {
	*text = r == MULTIPLE ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_FAKE";
	return OK;
}

result cuptiSubscribe(void **subscriber, void *callback, void *user) {
	ENTER;
	(void)user;
	if (!callback || !subscriber)
		return INVALID_PARAMETER;
	if (subscribed || setting("FAKECUPTI_BUSY", 0))
		return MULTIPLE;
	subscribed = 1;
	*subscriber = &subscribed;
	return OK;
}

result cuptiUnsubscribe(void *subscriber) {
	ENTER;
	if (subscriber != &subscribed || !subscribed)
		return INVALID_PARAMETER;
	subscribed = 0;
	return OK;
}

result cuptiActivityRegisterCallbacks(requested r, completed c) {
	ENTER;
	want = r;
	give = c;
	return OK;
}

static result set(uint32_t kind, int on) {
	if (kind >= KINDS || !size_of(kind))
		return INVALID_KIND;
	enabled[kind] = on;
	return OK;
}

result cuptiActivityEnable(uint32_t kind) {
	ENTER;
	return set(kind, 1);
}

result cuptiActivityDisable(uint32_t kind) {
	ENTER;
	return set(kind, 0);
}

result cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n) {
	ENTER;
	(void)context, (void)stream;
	pthread_mutex_lock(&lock);
	*n = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return OK;
}

result cuptiGetTimestamp(uint64_t *now) {
	ENTER;
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	*now = t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
	return OK;
}

result cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id) {
	ENTER;
	(void)context, (void)per_thread;
	*id = (uint32_t)((uintptr_t)stream >> 4);
	return OK;
}

struct returned {
	uint8_t *at;
	size_t size, used;
};

static void *give_back(void *p) {
	struct returned *b = p;
	give(NULL, 0, b->at, b->size, b->used);
	return NULL;
}

/* flush gives a buffer back, on another thread. The caller holds its lock. */
static void flush(struct buffer *b) {
	if (!b->at)
		return;
	struct returned r = {b->at, b->size, b->used};
	b->at = NULL;
	pthread_t thread;
	pthread_create(&thread, NULL, give_back, &r);
	pthread_join(thread, NULL);
}

result cuptiActivityFlushAll(uint32_t flag) {
	ENTER;
	(void)flag;
	pthread_mutex_lock(&lock);
	struct buffer *b = list;
	pthread_mutex_unlock(&lock);
	for (; b; b = b->next) {
		pthread_mutex_lock(&b->lock);
		flush(b);
		pthread_mutex_unlock(&b->lock);
	}
	return OK;
}

result cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
	ENTER;
	size_t at = 0;
	uint32_t kind;
	if (*record) {
		memcpy(&kind, *record, 4);
		at = *record - buffer + size_of(kind);
	}
	if (at + 4 > valid)
		return END;
	memcpy(&kind, buffer + at, 4);
	if (!size_of(kind))
		return INVALID_KIND;
	*record = buffer + at;
	return OK;
}

/* fake_raw adds a record as it is. */
void fake_raw(const uint8_t *record, size_t n) {
	if (!want)
		return;
	if (!own) {
		own = calloc(1, sizeof *own);
		pthread_mutex_init(&own->lock, NULL);
		pthread_mutex_lock(&lock);
		own->next = list;
		list = own;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&own->lock);
	if (own->at && own->used + n > own->size)
		flush(own);
	if (!own->at) {
		size_t most = 1;
		own->used = own->size = 0;
		want(&own->at, &own->size, &most);
	}
	if (own->at && n <= own->size) {
		memcpy(own->at + own->used, record, n);
		own->used += n;
	} else {
		pthread_mutex_lock(&lock);
		dropped++;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_unlock(&own->lock);
}

/* fake_work adds a record. Copy is the direction of a copy; start 0 is now, and end then
 * says how long it took. */
void fake_work(uint32_t kind, uint32_t copy, uint32_t device, uint32_t stream, uint64_t start, uint64_t end, uint64_t bytes, const char *name) {
	uint8_t record[256];
	if (kind >= KINDS || !enabled[kind])
		return;
	if (!start) {
		uint64_t took = end;
		cuptiGetTimestamp(&end);
		start = end - took;
	}
	memset(record, 0xee, sizeof record); /* nothing that is not written below may be read */
	memcpy(record, &kind, 4);
	memcpy(record + 16, &start, 8);
	memcpy(record + 24, &end, 8);
	if (kind == KERNEL) {
		memcpy(record + 40, &device, 4);
		memcpy(record + 48, &stream, 4);
		memcpy(record + 104, &name, 8);
	} else {
		if (kind != MEMSET)
			record[4] = (uint8_t)copy;
		memcpy(record + 8, &bytes, 8);
		memcpy(record + 32, &device, 4);
		memcpy(record + 40, &stream, 4);
	}
	fake_raw(record, size_of(kind));
}

static void *queue(void *p) {
	for (uint64_t n = *(uint64_t *)p; n > 0; n--)
		fake_work(KERNEL, 0, 0, 7, 0, 100, 0, "storm");
	return NULL;
}

/* fake_storm queues so many kernels on each of so many threads. */
void fake_storm(uint64_t threads, uint64_t kernels) {
	pthread_t all[64];
	for (uint64_t i = 0; i < threads && i < 64; i++)
		pthread_create(&all[i], NULL, queue, &kernels);
	for (uint64_t i = 0; i < threads && i < 64; i++)
		pthread_join(all[i], NULL);
}
