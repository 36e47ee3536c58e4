/* A stand-in for the CUDA driver on ordinary memory, for tests of package cuda
 * on machines without a GPU. It behaves as the driver does where the tests
 * look: a thread needs a current context, streams run beside each other (one
 * thread each) and in order, copies of pageable memory block, freeing waits,
 * device memory ends somewhere. Kernels are not there.
 *
 *   cc -shared -fPIC -pthread -o libfakecuda.so fakecuda.c
 *
 * Linux only; gcc or clang. The environment chooses what is simulated:
 *
 *   FAKECUDA_DEVICES  number of GPUs, at most 4 (1)
 *   FAKECUDA_MEMORY   memory of each in bytes (256 MiB)
 *   FAKECUDA_VERSION  version of the driver API (13000)
 *   FAKECUDA_CAPTURING  another thread captures a graph in the global mode
 *   FAKECUDA_FAIL     calls that fail, and how: "cuInit=999,cuMemAlloc_v2=2"
 *   FAKECUDA_PEERS    whether GPUs reach each other's memory, 0 or 1 (1)
 *   FAKECUDA_CONCURRENT  whether managed memory migrates by pages, 0 or 1 (1)
 *
 * Managed memory is charged to its device when it is prefetched there, as if it
 * migrated as a whole, and given back when it is prefetched to the host.
 *
 * -DFAKECUDA_WITHOUT_MEMALLOC leaves out a function that a driver must have,
 * -DFAKECUDA_WITHOUT_BATCH_13, _12, -DFAKECUDA_WITHOUT_RECORD_ALL and
 * -DFAKECUDA_WITHOUT_GRAPHS leave out those that it may lack.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int result;
typedef uint64_t address;

enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3,
	NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED, CAPTURE_MERGE, CAPTURE_UNMATCHED,
	CAPTURE_UNJOINED, CAPTURE_ISOLATION, CAPTURED_EVENT = 907,
	NOT_READY = 600, PEER_ENABLED = 704, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, NOT_SUPPORTED = 801,
	UNKNOWN = 999,
};

static const struct { result code; const char *name, *text; } errors[] = {
	{OK, "CUDA_SUCCESS", "no error"},
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{PEER_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
	{ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
		"part or all of the requested memory range is already mapped"},
	{NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
		"pointer does not correspond to a registered memory region"},
	{NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
	{CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	{CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	{CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
	{CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
	{CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
	{CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
	{CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
	{UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

/* One lock guards everything and one condition says that something changed:
 * a test waits for few things at a time. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int lock(void) { return pthread_mutex_lock(&mutex); }
static void unlock(int *held) { (void)held; pthread_mutex_unlock(&mutex); }
#define LOCKED int held __attribute__((cleanup(unlock), unused)) = lock()

enum { MAX_DEVICES = 4, GRANULARITY = 2 << 20 };

/* A device is its primary context too. */
struct device {
	int retained;
	unsigned reaches; /* bits of the devices with peer access */
	uint64_t used;
};

static struct device devices[MAX_DEVICES];
static int initialised;
static __thread struct device *current;

static int bad_context(struct device *d) {
	return d < devices || d >= devices + MAX_DEVICES || !d->retained;
}

static uint64_t setting(const char *name, uint64_t otherwise) {
	const char *s = getenv(name);
	return s ? strtoull(s, NULL, 10) : otherwise;
}

static int device_count(void) {
	uint64_t n = setting("FAKECUDA_DEVICES", 1);
	return n < MAX_DEVICES ? (int)n : MAX_DEVICES;
}

static uint64_t capacity(void) { return setting("FAKECUDA_MEMORY", 256 << 20); }

/* injected returns the failure that FAKECUDA_FAIL asks of a call. */
static result injected(const char *call) {
	const char *s = getenv("FAKECUDA_FAIL");
	size_t n = strlen(call);
	for (; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
		if (!strncmp(s, call, n) && s[n] == '=')
			return atoi(s + n + 1);
	return OK;
}

enum needs { NOTHING, INIT, CONTEXT };

static result enter(const char *call, enum needs needs) {
	result r = injected(call);
	if (r)
		return r;
	LOCKED;
	if (needs >= INIT && !initialised)
		return NOT_INITIALIZED;
	if (needs >= CONTEXT && (!current || !current->retained))
		return INVALID_CONTEXT;
	return OK;
}

/* The mode of this thread's calls while others capture. */
static _Thread_local int capture_mode;

result cuThreadExchangeStreamCaptureMode(int *mode) {
	int old = capture_mode;
	capture_mode = *mode;
	*mode = old;
	return OK;
}

/* Calls that may wait for captured work. */
#define MAY_WAIT do { if (!capture_mode && getenv("FAKECUDA_CAPTURING")) return 900; } while (0)

#define NEED(needs) do { result r_ = enter(__func__, needs); if (r_) return r_; } while (0)

/* Memory: every range that the driver knows. Reservations and the mappings in
 * them overlap, all else does not. */

enum kind { DEVICE = 1, MANAGED = 2, HOST = 4, REGISTERED = 8, RESERVED = 16, MAPPED = 32 };
enum { PINNED = HOST | REGISTERED, REACHABLE = DEVICE | MANAGED | PINNED | MAPPED };

struct chunk {
	struct chunk *next;
	struct device *device;
	int file, mappings, released;
	uint64_t bytes;
};

/* Memory that is freed in the order of a stream stays charged to the device,
 * as idle memory of its pool, until somebody synchronises. */
struct pool {
	struct pool *next;
	struct device *device;
	uint64_t idle, threshold;
};

/* Places are devices, or one of these. */
enum { ON_HOST = -1, NOWHERE = -2 };

struct advice {
	int read_mostly, preferred, prefetched;
	int by_host, by_device; /* accessed by */
};

struct range {
	struct range *next;
	enum kind kind;
	address start;
	uint64_t bytes;
	struct device *device;
	struct chunk *chunk; /* of a mapping */
	struct pool *pool;   /* that the memory came from */
	int freed;           /* in the order of a stream, which did not come to it yet */
	int accessible;      /* a mapping that cuMemSetAccess opened */
	uint64_t charged;    /* bytes of managed memory that are on the device */
	struct advice advice; /* of managed memory, always for all of it */
};

static struct range *ranges;
static struct chunk *chunks;
static struct pool *pools;

static struct range *add_range(enum kind kind, address start, uint64_t bytes) {
	struct range *r = calloc(1, sizeof *r);
	*r = (struct range){.next = ranges, .kind = kind, .start = start, .bytes = bytes, .device = current};
	return ranges = r;
}

static void drop_range(struct range *gone) {
	struct range **at = &ranges;
	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	free(gone);
}

/* find returns the range of one of the kinds that holds the address. */
static struct range *find(address p, int kinds) {
	for (struct range *r = ranges; r; r = r->next)
		if (r->kind & kinds && !r->freed && p >= r->start && p - r->start < r->bytes)
			return r;
	return NULL;
}

static struct range *find_start(address p, int kinds) {
	struct range *r = find(p, kinds);
	return r && r->start == p ? r : NULL;
}

static int overlaps(address p, uint64_t n, int kinds) {
	for (struct range *r = ranges; r; r = r->next)
		if (r->kind & kinds && p < r->start + r->bytes && r->start < p + n)
			return 1;
	return 0;
}

/* covered says whether all bytes may be touched by the device. */
static int covered(address p, uint64_t n, int kinds) {
	while (n > 0) {
		struct range *r = find(p, kinds);
		if (!r || (r->kind == MAPPED && !r->accessible))
			return 0;
		uint64_t here = r->start + r->bytes - p;
		if (here >= n)
			return 1;
		p += here;
		n -= here;
	}
	return 1;
}

static uint64_t rounded(uint64_t n) { return (n + 511) & ~511ull; }

/* trim gives idle memory of a device's pools back above their thresholds. */
static void trim(struct device *d) {
	for (struct pool *p = pools; p; p = p->next)
		if (p->device == d && p->idle > p->threshold) {
			d->used -= p->idle - p->threshold;
			p->idle = p->threshold;
		}
}

/* charge takes n bytes of the current device's memory. */
static result charge(uint64_t n) {
	uint64_t left = capacity() - current->used;
	if (n > left || rounded(n) > left)
		return OUT_OF_MEMORY;
	current->used += rounded(n);
	return OK;
}

/* Streams: a queue and a thread each. */

struct mark {
	int uses, passed;
	int left; /* streams that are still before it */
	struct timespec at;
};

/* How many operations of each stream of a capture are before a point in it. */
enum { MAX_CAPTURED = 8 };
struct progress { int of[MAX_CAPTURED]; };

struct event {
	struct event *next;
	struct device *device;
	unsigned flags;
	struct mark *newest;
	int captured; /* number of the capture that has the newest mark, and where */
	struct progress at;
};

/* One half of a three-dimensional copy, and the whole. */
struct side {
	size_t x, y, z, level;
	int memory_type;
	const void *host;
	address device;
	void *array, *context;
	size_t pitch, height;
};

struct copy3d {
	struct side src, dst;
	size_t width, rows, planes;
};

struct op {
	struct op *next;
	enum { COPY, COPY_3D, SET, RECORD, WAIT, AWAIT, FREE } kind;
	struct copy3d box;
	uint64_t ticket; /* place in the order of all operations */
	void *dst;
	const void *src;
	void *staged; /* copy of pageable memory */
	uint64_t bytes;
	unsigned char value;
	struct mark *mark;
	struct range *freed;
};

struct stream {
	struct stream *next;
	struct device *device;
	struct op *head, *tail; /* head stays until it is done */
	int destroyed;
	struct capture *capture;
	int lane; /* in the capture */
};

/* Work that is recorded, in the order in which it was queued. */
struct capture {
	int number, invalid, lanes;
	struct stream *origin, *streams[MAX_CAPTURED];
	struct progress at[MAX_CAPTURED];
	struct op *head, *tail;
};

static struct stream *streams;
static struct event *events;
static uint64_t tickets;

static void unuse(struct mark *m) {
	if (m && --m->uses == 0)
		free(m);
}

static address row(const struct side *s, size_t z, size_t y) {
	return s->device + (z * s->height + y) * s->pitch;
}

static void copy_rows(const struct copy3d *c) {
	for (size_t z = 0; z < c->planes; z++)
		for (size_t y = 0; y < c->rows; y++)
			memcpy((void *)row(&c->dst, z, y), (void *)row(&c->src, z, y), c->width);
}

/* free_range frees memory of a pool. */
static void free_range(struct range *r) {
	r->pool->idle += rounded(r->bytes);
	memset((void *)r->start, 0xDD, r->bytes); /* whoever reads it now should notice */
	free((void *)r->start);
	drop_range(r);
}

/* execute runs an operation; the lock is held. Now and then it dawdles, so
 * that work which relies on luck instead of order fails. */
static void execute(struct op *op) {
	switch (op->kind) {
	case WAIT:
		while (!op->mark->passed)
			pthread_cond_wait(&changed, &mutex);
		break;
	case AWAIT:
		while (!*(volatile uint32_t *)op->dst) {
			pthread_mutex_unlock(&mutex);
			usleep(20);
			pthread_mutex_lock(&mutex);
		}
		break;
	case FREE:
		free_range(op->freed);
		break;
	case RECORD:
		clock_gettime(CLOCK_MONOTONIC, &op->mark->at);
		op->mark->passed = --op->mark->left == 0;
		break;
	default:
		pthread_mutex_unlock(&mutex);
		if (op->ticket % 16 == 0)
			usleep(100);
		if (op->kind == COPY)
			memcpy(op->dst, op->src, op->bytes);
		else if (op->kind == COPY_3D)
			copy_rows(&op->box);
		else
			memset(op->dst, op->value, op->bytes);
		pthread_mutex_lock(&mutex);
	}
	unuse(op->mark);
	free(op->staged);
}

static void *work(void *arg) {
	struct stream *s = arg;
	LOCKED;
	for (;;) {
		while (!s->head && !s->destroyed)
			pthread_cond_wait(&changed, &mutex);
		struct op *op = s->head;
		if (!op)
			break;
		execute(op);
		if (!(s->head = op->next))
			s->tail = NULL;
		free(op);
		pthread_cond_broadcast(&changed);
	}
	struct stream **at = &streams;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
	pthread_cond_broadcast(&changed);
	return NULL;
}

/* live returns the stream when the handle is that of one. The default streams
 * are not: nothing here should use them. */
static struct stream *live(void *handle) {
	for (struct stream *s = streams; s; s = s->next)
		if (s == handle && !s->destroyed)
			return s;
	return NULL;
}

static struct event *live_event(void *handle) {
	for (struct event *e = events; e; e = e->next)
		if (e == handle)
			return e;
	return NULL;
}

static struct op *queue(struct stream *s, struct op op) {
	struct op *o = malloc(sizeof *o);
	*o = op;
	o->ticket = ++tickets;
	struct capture *c = s->capture;
	if (c) {
		if (c->tail)
			c->tail->next = o;
		else
			c->head = o;
		c->tail = o;
		c->at[s->lane].of[s->lane]++;
		return o;
	}
	if (s->tail)
		s->tail->next = o;
	else
		s->head = o;
	s->tail = o;
	pthread_cond_broadcast(&changed);
	return o;
}

/* refused ends a stream's capture because of a call that it does not allow. */
static int refused(struct stream *s) {
	if (s->capture)
		s->capture->invalid = 1;
	return s->capture != NULL;
}

/* refused_of is refused for all streams of a context. */
static int refused_of(struct device *d) {
	int any = 0;
	for (struct stream *s = streams; s; s = s->next)
		any |= s->device == d && refused(s);
	return any;
}

/* refused_event is refused for the capture that an event was recorded in. */
static int refused_event(struct event *e) {
	for (struct stream *s = streams; s; s = s->next)
		if (e->captured && s->capture && s->capture->number == e->captured)
			s->capture->invalid = 1;
	return e->captured != 0;
}

/* drain waits until what is queued now is done: on one stream, or on all of a
 * device. */
static void drain(struct stream *one, struct device *device) {
	uint64_t upto = tickets;
	for (;;) {
		int busy = 0;
		for (struct stream *s = streams; s; s = s->next)
			if ((s == one || s->device == device) && s->head && s->head->ticket <= upto)
				busy = 1;
		if (!busy)
			return;
		pthread_cond_wait(&changed, &mutex);
	}
}

/* Initialisation, devices, contexts */

result cuInit(unsigned flags) {
	NEED(NOTHING);
	if (flags)
		return INVALID_VALUE;
	if (device_count() == 0)
		return NO_DEVICE;
	LOCKED;
	initialised = 1;
	return OK;
}

result cuDriverGetVersion(int *version) {
	NEED(NOTHING);
	*version = (int)setting("FAKECUDA_VERSION", 13000);
	return OK;
}

static result error_text(result code, const char **text, int name) {
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*text = name ? errors[i].name : errors[i].text;
			return OK;
		}
	*text = NULL;
	return INVALID_VALUE;
}

result cuGetErrorName(result code, const char **name) { return error_text(code, name, 1); }
result cuGetErrorString(result code, const char **text) { return error_text(code, text, 0); }

result cuDeviceGetCount(int *n) {
	NEED(INIT);
	*n = device_count();
	return OK;
}

static int bad_device(int device) { return device < 0 || device >= device_count(); }

result cuDeviceGet(int *device, int ordinal) {
	NEED(INIT);
	if (bad_device(ordinal))
		return INVALID_DEVICE;
	*device = ordinal;
	return OK;
}

result cuDeviceGetName(char *name, int n, int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	snprintf(name, n, "Fake GPU %d", device);
	return OK;
}

result cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	memset(uuid, 0xFA, 15);
	uuid[15] = (unsigned char)device;
	return OK;
}

result cuDeviceGetAttribute(int *value, int attribute, int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	switch (attribute) {
	case 11: *value = 0x7FFFFFFF; break; /* widest pitch */
	case 16: *value = 4; break;  /* multiprocessors */
	case 40: *value = 2; break;  /* copy engines */
	case 75: *value = 9; break;  /* compute capability */
	case 19:                     /* can map host memory */
	case 41:                     /* unified addressing */
	case 83:                     /* managed memory */
	case 102:                    /* virtual memory */
	case 115: *value = 1; break; /* memory pools */
	case 89: *value = (int)setting("FAKECUDA_CONCURRENT", 1); break; /* managed access */
	default: *value = 0;
	}
	return OK;
}

result cuDeviceTotalMem_v2(size_t *bytes, int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	*bytes = capacity();
	return OK;
}

result cuDeviceGetPCIBusId(char *id, int n, int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	snprintf(id, n, "FA4E:%02X:00.0", device + 1);
	return OK;
}

result cuDevicePrimaryCtxRetain(struct device **context, int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	LOCKED;
	*context = &devices[device];
	devices[device].retained++;
	return OK;
}

/* Graphs, executable or not, that were not destroyed. */
static int graphs;

/* leftovers counts what still lives on a device, and names it. */
static int leftovers(struct device *d) {
	int memory = 0, physical = 0, queues = 0, marks = 0, kept = 0;
	for (struct range *r = ranges; r; r = r->next)
		memory += r->device == d;
	for (struct chunk *c = chunks; c; c = c->next)
		physical += c->device == d;
	for (struct stream *s = streams; s; s = s->next)
		queues += s->device == d && !s->destroyed;
	for (struct event *e = events; e; e = e->next)
		marks += e->device == d;
	for (struct pool *p = pools; p; p = p->next)
		kept += p->device == d;
	if (memory + physical + queues + marks + kept + graphs)
		fprintf(stderr, "fakecuda: context released with %d memory ranges, %d chunks, %d streams, %d events, %d pools left, and %d graphs anywhere\n",
			memory, physical, queues, marks, kept, graphs);
	return memory + physical + queues + marks + kept + graphs;
}

/* The driver destroys what is left in a context with its last user. A process
 * may have other users, so what a backend leaves is a leak, and here the last
 * release fails. */
result cuDevicePrimaryCtxRelease_v2(int device) {
	NEED(INIT);
	if (bad_device(device))
		return INVALID_DEVICE;
	LOCKED;
	struct device *d = &devices[device];
	if (!d->retained)
		return INVALID_CONTEXT;
	if (--d->retained)
		return OK;
	drain(NULL, d);
	d->reaches = 0;
	for (int i = 0; i < MAX_DEVICES; i++)
		devices[i].reaches &= ~(1u << device);
	return leftovers(d) ? UNKNOWN : OK;
}

result cuCtxSetCurrent(struct device *context) {
	NEED(INIT);
	LOCKED;
	if (context && bad_context(context))
		return INVALID_CONTEXT;
	current = context;
	return OK;
}

result cuCtxGetCurrent(struct device **context) {
	NEED(INIT);
	*context = current;
	return OK;
}

result cuCtxSynchronize(void) {
	NEED(CONTEXT);
	LOCKED;
	if (refused_of(current))
		return CAPTURE_UNSUPPORTED;
	drain(NULL, current);
	trim(current);
	return OK;
}

/* Memory */

result cuMemGetInfo_v2(size_t *unused, size_t *total) {
	NEED(CONTEXT);
	LOCKED;
	*total = capacity();
	*unused = *total - current->used;
	return OK;
}

static result allocate(address *p, size_t n, enum kind kind) {
	void *memory;
	if (n == 0)
		return INVALID_VALUE;
	LOCKED;
	result r = kind == MANAGED ? OK : charge(n);
	if (r)
		return r;
	if (posix_memalign(&memory, kind == MANAGED ? 4096 : 512, rounded(n))) {
		current->used -= kind == MANAGED ? 0 : rounded(n);
		return OUT_OF_MEMORY;
	}
	memset(memory, 0xCD, n < 65536 ? n : 65536); /* undefined is not zero */
	*p = (address)memory;
	add_range(kind, *p, n)->advice = (struct advice){.preferred = NOWHERE, .prefetched = NOWHERE, .by_host = NOWHERE, .by_device = NOWHERE};
	return OK;
}

#ifndef FAKECUDA_WITHOUT_MEMALLOC
result cuMemAlloc_v2(address *p, size_t n) {
	NEED(CONTEXT);
	MAY_WAIT;
	return allocate(p, n, DEVICE);
}
#endif

result cuMemAllocManaged(address *p, size_t n, unsigned flags) {
	NEED(CONTEXT);
	return flags == 1 ? allocate(p, n, MANAGED) : INVALID_VALUE;
}

result cuMemFree_v2(address p) {
	NEED(CONTEXT);
	LOCKED;
	struct range *r = find_start(p, DEVICE | MANAGED);
	if (!r)
		return INVALID_VALUE;
	struct device *d = r->device;
	uint64_t n = r->kind == MANAGED ? r->charged : r->bytes;
	struct pool *pool = r->pool;
	drop_range(r); /* first, so that nobody queues more work on it */
	if (!pool) /* for memory of a pool it does not wait */
		drain(NULL, d);
	if (pool)
		pool->idle += rounded(n);
	else
		d->used -= rounded(n);
	free((void *)p);
	return OK;
}

result cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	NEED(CONTEXT);
	if (n == 0 || flags > 7)
		return INVALID_VALUE;
	if (n > (size_t)1 << 40 || posix_memalign(p, 4096, n))
		return OUT_OF_MEMORY;
	LOCKED;
	add_range(HOST, (address)*p, n);
	return OK;
}

/* forget ends the pinning of host memory when no copy uses it any more. */
static result forget(void *p, enum kind kind, result unknown) {
	struct range *r = find_start((address)p, kind);
	if (!r)
		return unknown;
	struct device *d = r->device;
	drop_range(r);
	drain(NULL, d);
	return OK;
}

result cuMemFreeHost(void *p) {
	NEED(CONTEXT);
	LOCKED;
	result r = forget(p, HOST, INVALID_VALUE);
	if (!r)
		free(p);
	return r;
}

result cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	NEED(CONTEXT);
	MAY_WAIT;
	if (!p || n == 0 || flags > 15)
		return INVALID_VALUE;
	LOCKED;
	if (overlaps((address)p, n, PINNED))
		return ALREADY_REGISTERED;
	add_range(REGISTERED, (address)p, n);
	return OK;
}

result cuMemHostUnregister(void *p) {
	NEED(CONTEXT);
	LOCKED;
	return forget(p, REGISTERED, NOT_REGISTERED);
}

result cuMemHostGetDevicePointer_v2(address *p, void *host, unsigned flags) {
	NEED(CONTEXT);
	LOCKED;
	if (flags || !find((address)host, PINNED))
		return INVALID_VALUE;
	*p = (address)host;
	return OK;
}

result cuPointerGetAttribute(void *value, int attribute, address p) {
	NEED(CONTEXT);
	LOCKED;
	struct range *r = find(p, REACHABLE);
	if (!r)
		return INVALID_VALUE;
	switch (attribute) {
	case 2: /* memory type: 1 host, 2 device */
		*(unsigned *)value = r->kind & PINNED ? 1 : 2;
		return OK;
	case 9: /* device ordinal */
		*(int *)value = (int)(r->device - devices);
		return OK;
	case 11: /* start of the range */
		*(address *)value = r->start;
		return OK;
	case 12: /* size of the range */
		*(size_t *)value = r->bytes;
		return OK;
	}
	return NOT_SUPPORTED;
}

/* Copies */

/* in_part says whether host memory is pinned in part, which copies refuse. */
static int in_part(address p, uint64_t n) {
	return overlaps(p, n, PINNED) && !covered(p, n, PINNED);
}

result cuMemcpyHtoDAsync_v2(address dst, const void *src, size_t n, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (!src || !covered(dst, n, REACHABLE) || in_part((address)src, n))
		return INVALID_VALUE;
	struct op op = {.kind = COPY, .dst = (void *)dst, .src = src, .bytes = n};
	if (!covered((address)src, n, PINNED | MANAGED) && refused(s))
		return CAPTURE_UNSUPPORTED;
	if (!covered((address)src, n, PINNED | MANAGED))
		op.src = op.staged = memcpy(malloc(n), src, n);
	queue(s, op);
	return OK;
}

result cuMemcpyDtoHAsync_v2(void *dst, address src, size_t n, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (!dst || !covered(src, n, REACHABLE) || in_part((address)dst, n))
		return INVALID_VALUE;
	if (!covered((address)dst, n, PINNED | MANAGED) && refused(s))
		return CAPTURE_UNSUPPORTED;
	queue(s, (struct op){.kind = COPY, .dst = dst, .src = (void *)src, .bytes = n});
	if (!covered((address)dst, n, PINNED | MANAGED))
		drain(s, NULL);
	return OK;
}

result cuMemcpyDtoDAsync_v2(address dst, address src, size_t n, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (!covered(dst, n, REACHABLE) || !covered(src, n, REACHABLE))
		return INVALID_VALUE;
	queue(s, (struct op){.kind = COPY, .dst = (void *)dst, .src = (void *)src, .bytes = n});
	return OK;
}

/* CUstreamBatchMemOpParams, of 32-bit words. */
struct mem_op {
	unsigned kind;
	address word;
	uint64_t value;
	unsigned flags;
	uint64_t alias, pad;
};

result cuStreamBatchMemOp_v2(void *stream, unsigned n, const struct mem_op *ops, unsigned flags) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	for (unsigned i = 0; i < n; i++)
		if ((ops[i].kind != 1 && ops[i].kind != 2) || flags || ops[i].flags || ops[i].value != (ops[i].kind == 1) || !covered(ops[i].word, 4, REACHABLE))
			return INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		if (ops[i].kind == 1)
			queue(s, (struct op){.kind = AWAIT, .dst = (void *)ops[i].word});
		else
			queue(s, (struct op){.kind = SET, .dst = (void *)ops[i].word, .bytes = 4});
	return OK;
}

/* A handle of memory names it in this process alone: what another opens is where it is here. */
struct ipc {
	uint64_t words[8];
};

result cuIpcGetMemHandle(struct ipc *h, address p) {
	NEED(CONTEXT);
	LOCKED;
	if (!covered(p, 1, REACHABLE))
		return INVALID_VALUE;
	for (int i = 0; i < 8; i++)
		h->words[i] = p + i;
	return OK;
}

result cuIpcOpenMemHandle_v2(address *p, struct ipc h, unsigned flags) {
	NEED(CONTEXT);
	LOCKED;
	for (int i = 1; i < 8; i++)
		if (h.words[i] != h.words[0] + i)
			return INVALID_VALUE;
	if (flags != 1 || !covered(h.words[0], 1, REACHABLE))
		return INVALID_VALUE;
	*p = h.words[0];
	return OK;
}

result cuIpcCloseMemHandle(address p) {
	NEED(CONTEXT);
	LOCKED;
	return covered(p, 1, REACHABLE) ? OK : INVALID_VALUE;
}

static int in_order(const struct side *s, const struct copy3d *c) {
	return !s->x && !s->y && !s->z && !s->level && s->memory_type == 4 && /* unified */
		s->pitch >= c->width && s->pitch <= 0x7FFFFFFF && s->height >= c->rows;
}

static int rows_covered(const struct side *s, const struct copy3d *c) {
	for (size_t z = 0; z < c->planes; z++)
		for (size_t y = 0; y < c->rows; y++)
			if (!covered(row(s, z, y), c->width, REACHABLE))
				return 0;
	return 1;
}

result cuMemcpy3DAsync_v2(const struct copy3d *c, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (!in_order(&c->src, c) || !in_order(&c->dst, c) || !rows_covered(&c->src, c) || !rows_covered(&c->dst, c))
		return INVALID_VALUE;
	queue(s, (struct op){.kind = COPY_3D, .box = *c});
	return OK;
}

struct location { int kind, id; };

struct attributes {
	int order;
	struct location src, dst;
	unsigned flags;
};

/* copy_batch queues the last copy first: a batch has no order. */
__attribute__((unused))
static result copy_batch(const address *dsts, const address *srcs, const size_t *sizes, size_t count,
	const struct attributes *a, const size_t *indices, size_t kinds, size_t *failed, void *stream) {
	LOCKED;
	*failed = SIZE_MAX;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (count == 0 || kinds != 1 || indices[0] != 0 || a->order != 1 || a->flags || a->src.kind || a->src.id || a->dst.kind || a->dst.id)
		return INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (sizes[i] == 0 || !covered(dsts[i], sizes[i], REACHABLE) || !covered(srcs[i], sizes[i], REACHABLE)) {
			*failed = i;
			return INVALID_VALUE;
		}
	while (count-- > 0)
		queue(s, (struct op){.kind = COPY, .dst = (void *)dsts[count], .src = (void *)srcs[count], .bytes = sizes[count]});
	return OK;
}

#ifndef FAKECUDA_WITHOUT_BATCH_13
result cuMemcpyBatchAsync_v2(const address *dsts, const address *srcs, const size_t *sizes, size_t count,
	const struct attributes *a, const size_t *indices, size_t kinds, void *stream) {
	size_t failed;
	NEED(CONTEXT);
	return copy_batch(dsts, srcs, sizes, count, a, indices, kinds, &failed, stream);
}
#endif

#ifndef FAKECUDA_WITHOUT_BATCH_12
result cuMemcpyBatchAsync(const address *dsts, const address *srcs, const size_t *sizes, size_t count,
	const struct attributes *a, const size_t *indices, size_t kinds, size_t *failed, void *stream) {
	NEED(CONTEXT);
	return copy_batch(dsts, srcs, sizes, count, a, indices, kinds, failed, stream);
}
#endif

/* Peers */

static int reachable(int from, int to) { return from != to && setting("FAKECUDA_PEERS", 1); }

result cuDeviceCanAccessPeer(int *can, int device, int peer) {
	NEED(INIT);
	if (bad_device(device) || bad_device(peer))
		return INVALID_DEVICE;
	*can = reachable(device, peer);
	return OK;
}

result cuCtxEnablePeerAccess(struct device *peer, unsigned flags) {
	NEED(CONTEXT);
	LOCKED;
	if (bad_context(peer) || !reachable(current - devices, peer - devices))
		return INVALID_DEVICE;
	if (flags)
		return INVALID_VALUE;
	unsigned bit = 1u << (peer - devices);
	if (current->reaches & bit)
		return PEER_ENABLED;
	current->reaches |= bit;
	return OK;
}

/* on says whether all bytes are memory of that device. */
static int on(struct device *d, address p, uint64_t n) {
	struct range *r = find(p, DEVICE | MANAGED | MAPPED);
	return r && r->device == d && covered(p, n, DEVICE | MANAGED | MAPPED);
}

result cuMemcpyPeerAsync(address dst, struct device *to, address src, struct device *from, size_t n, struct stream *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s || s->device != current)
		return INVALID_HANDLE;
	if (bad_context(to) || bad_context(from))
		return INVALID_CONTEXT;
	if (!on(to, dst, n) || !on(from, src, n))
		return INVALID_VALUE;
	queue(s, (struct op){.kind = COPY, .dst = (void *)dst, .src = (void *)src, .bytes = n});
	return OK;
}

result cuMemsetD8Async(address dst, unsigned char value, size_t n, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (!covered(dst, n, REACHABLE))
		return INVALID_VALUE;
	queue(s, (struct op){.kind = SET, .dst = (void *)dst, .value = value, .bytes = n});
	return OK;
}

result cuMemPrefetchAsync_v2(address p, size_t n, struct location to, unsigned flags, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	int known = to.kind == 1 ? !bad_device(to.id) : to.kind == 2;
	if (flags || n == 0 || !known || !covered(p, n, MANAGED))
		return INVALID_VALUE;
	if (!setting("FAKECUDA_CONCURRENT", 1))
		return INVALID_DEVICE;
	struct range *r = find(p, MANAGED);
	r->advice.prefetched = to.kind == 1 ? to.id : ON_HOST;
	r->device->used -= rounded(r->charged);
	r->charged = 0;
	if (to.kind == 1 && !charge(r->bytes))
		r->charged = r->bytes;
	queue(s, (struct op){.kind = SET, .dst = (void *)p});
	return OK;
}

result cuMemAdvise_v2(address p, size_t n, unsigned advice, struct location where) {
	NEED(CONTEXT);
	LOCKED;
	int known = where.kind == 1 ? !bad_device(where.id) : where.kind == 2;
	if (n == 0 || !known || !covered(p, n, MANAGED))
		return INVALID_VALUE;
	struct advice *a = &find(p, MANAGED)->advice;
	int place = where.kind == 1 ? where.id : ON_HOST;
	int *by = where.kind == 1 ? &a->by_device : &a->by_host;
	switch (advice) {
	case 1: a->read_mostly = 1; return OK;
	case 2: a->read_mostly = 0; return OK;
	case 3: a->preferred = place; return OK;
	case 4: a->preferred = NOWHERE; return OK;
	case 5: *by = place; return OK;
	case 6: *by = NOWHERE; return OK;
	}
	return INVALID_VALUE;
}

result cuMemRangeGetAttribute(int *data, size_t size, int attribute, address p, size_t n) {
	NEED(CONTEXT);
	LOCKED;
	if (!data || size == 0 || size % 4 || n == 0 || !covered(p, n, MANAGED))
		return INVALID_VALUE;
	if (attribute != 3 && size != 4)
		return INVALID_VALUE;
	const struct advice *a = &find(p, MANAGED)->advice;
	switch (attribute) {
	case 1: *data = a->read_mostly; return OK;
	case 2: *data = a->preferred; return OK;
	case 3:
		for (size_t i = 0; i < size / 4; i++)
			data[i] = i == 0 ? a->by_device : i == 1 ? a->by_host : NOWHERE;
		return OK;
	case 4: *data = a->prefetched; return OK;
	}
	return INVALID_VALUE;
}

/* Streams and events */

result cuStreamCreate(struct stream **stream, unsigned flags) {
	NEED(CONTEXT);
	if (flags > 1)
		return INVALID_VALUE;
	struct stream *s = calloc(1, sizeof *s);
	s->device = current;
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	LOCKED;
	pthread_t thread;
	if (pthread_create(&thread, &detached, work, s)) {
		free(s);
		return OUT_OF_MEMORY;
	}
	s->next = streams;
	*stream = streams = s;
	return OK;
}

/* Work that is queued still runs; the thread clears away. */
result cuStreamDestroy_v2(void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	s->destroyed = 1;
	pthread_cond_broadcast(&changed);
	return OK;
}

result cuStreamSynchronize(void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (refused(s))
		return CAPTURE_UNSUPPORTED;
	drain(s, NULL);
	trim(s->device);
	return OK;
}

result cuStreamGetCtx(void *stream, struct device **context) {
	NEED(INIT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	*context = s->device;
	return OK;
}

result cuStreamQuery(void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (refused(s))
		return CAPTURE_UNSUPPORTED;
	return s->head ? NOT_READY : OK;
}

/* wait_captured makes a stream join the capture that an event was recorded in. */
static result wait_captured(struct stream *s, struct event *e) {
	struct capture *c = NULL;
	for (struct stream *o = streams; o; o = o->next)
		if (o->capture && o->capture->number == e->captured)
			c = o->capture;
	if (!c) {
		refused(s);
		return CAPTURED_EVENT;
	}
	if (s->capture && s->capture != c) {
		refused(s);
		c->invalid = 1;
		return CAPTURE_MERGE;
	}
	if (!s->capture) {
		if (c->lanes == MAX_CAPTURED)
			return UNKNOWN;
		s->capture = c;
		s->lane = c->lanes++;
		c->streams[s->lane] = s;
	}
	for (int i = 0; i < MAX_CAPTURED; i++)
		if (c->at[s->lane].of[i] < e->at.of[i])
			c->at[s->lane].of[i] = e->at.of[i];
	return OK;
}

result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	struct event *e = live_event(event);
	if (!s || !e)
		return INVALID_HANDLE;
	if (flags)
		return INVALID_VALUE;
	if (e->captured)
		return wait_captured(s, e);
	if (refused(s))
		return CAPTURE_ISOLATION;
	if (e->newest) {
		e->newest->uses++;
		queue(s, (struct op){.kind = WAIT, .mark = e->newest});
	}
	return OK;
}

enum { BLOCKING_SYNC = 1, DISABLE_TIMING = 2 };

result cuEventCreate(struct event **event, unsigned flags) {
	NEED(CONTEXT);
	if (flags > (BLOCKING_SYNC | DISABLE_TIMING))
		return INVALID_VALUE;
	LOCKED;
	struct event *e = calloc(1, sizeof *e);
	*e = (struct event){.next = events, .device = current, .flags = flags};
	*event = events = e;
	return OK;
}

result cuEventDestroy_v2(void *event) {
	NEED(CONTEXT);
	LOCKED;
	struct event *e = live_event(event);
	if (!e)
		return INVALID_HANDLE;
	struct event **at = &events;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	unuse(e->newest);
	free(e);
	return OK;
}

/* new_mark makes the newest mark of an event, which so many streams pass. */
static struct mark *new_mark(struct event *e, int streams) {
	struct mark *m = calloc(1, sizeof *m);
	m->uses = 1 + streams; /* the event and the operations */
	m->left = streams;
	m->passed = streams == 0;
	unuse(e->newest);
	return e->newest = m;
}

result cuEventRecord(void *event, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	struct event *e = live_event(event);
	if (!s || !e || s->device != e->device)
		return INVALID_HANDLE;
	e->captured = 0;
	if (s->capture) {
		e->captured = s->capture->number;
		e->at = s->capture->at[s->lane];
		return OK;
	}
	struct mark *m = new_mark(e, 1);
	queue(s, (struct op){.kind = RECORD, .mark = m});
	return OK;
}

#ifndef FAKECUDA_WITHOUT_RECORD_ALL
result cuCtxRecordEvent(void *context, void *event) {
	NEED(INIT);
	LOCKED;
	struct event *e = live_event(event);
	if (bad_context(context))
		return INVALID_CONTEXT;
	if (!e || e->device != context)
		return INVALID_HANDLE;
	if (refused_of(context))
		return CAPTURE_UNSUPPORTED;
	e->captured = 0;
	int n = 0;
	for (struct stream *s = streams; s; s = s->next)
		n += s->device == context;
	struct mark *m = new_mark(e, n);
	for (struct stream *s = streams; s; s = s->next)
		if (s->device == context)
			queue(s, (struct op){.kind = RECORD, .mark = m});
	return OK;
}
#endif

result cuEventQuery(void *event) {
	NEED(CONTEXT);
	MAY_WAIT;
	LOCKED;
	struct event *e = live_event(event);
	if (!e)
		return INVALID_HANDLE;
	if (refused_event(e))
		return CAPTURED_EVENT;
	return e->newest && !e->newest->passed ? NOT_READY : OK;
}

result cuEventSynchronize(void *event) {
	NEED(CONTEXT);
	LOCKED;
	struct event *e = live_event(event);
	if (!e)
		return INVALID_HANDLE;
	if (refused_event(e))
		return CAPTURED_EVENT;
	struct mark *m = e->newest;
	if (!m)
		return OK;
	m->uses++;
	while (!m->passed)
		pthread_cond_wait(&changed, &mutex);
	unuse(m);
	return OK;
}

result cuEventElapsedTime(float *milliseconds, void *start, void *end) {
	NEED(CONTEXT);
	LOCKED;
	struct event *a = live_event(start), *b = live_event(end);
	if (!a || !b || (a->flags | b->flags) & DISABLE_TIMING || !a->newest || !b->newest)
		return INVALID_HANDLE;
	if (!a->newest->passed || !b->newest->passed)
		return NOT_READY;
	struct timespec from = a->newest->at, to = b->newest->at;
	*milliseconds = (float)((double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6);
	return OK;
}

#ifndef FAKECUDA_WITHOUT_GRAPHS
/* Captures and graphs */

struct graph {
	struct op *ops;
	struct mark *last; /* of an executable one: end of the newest launch */
};

result cuStreamBeginCapture_v2(void *stream, int mode) {
	NEED(CONTEXT);
	LOCKED;
	static int number;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (s->capture)
		return ILLEGAL_STATE;
	if (mode != 2) /* threads are not told apart here */
		return NOT_SUPPORTED;
	struct capture *c = calloc(1, sizeof *c);
	*c = (struct capture){.number = ++number, .origin = s, .lanes = 1, .streams = {s}};
	s->capture = c;
	s->lane = 0;
	return OK;
}

static void free_ops(struct op *o) {
	while (o) {
		struct op *next = o->next;
		free(o);
		o = next;
	}
}

result cuStreamEndCapture(void *stream, struct graph **graph) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	*graph = NULL;
	if (!s)
		return INVALID_HANDLE;
	struct capture *c = s->capture;
	if (!c)
		return ILLEGAL_STATE;
	if (c->origin != s) {
		c->invalid = 1;
		return CAPTURE_UNMATCHED;
	}
	result r = c->invalid ? CAPTURE_INVALIDATED : OK;
	for (int i = 0; i < c->lanes; i++) {
		if (!r && c->at[i].of[i] > c->at[0].of[i])
			r = CAPTURE_UNJOINED;
		c->streams[i]->capture = NULL;
	}
	if (r)
		free_ops(c->head);
	else {
		*graph = calloc(1, sizeof **graph);
		(*graph)->ops = c->head;
		graphs++;
	}
	free(c);
	return r;
}

result cuStreamIsCapturing(void *stream, int *status) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	*status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
	return OK;
}

result cuGraphInstantiateWithFlags(struct graph **exec, const struct graph *graph, unsigned long long flags) {
	NEED(CONTEXT);
	if (flags)
		return INVALID_VALUE;
	LOCKED;
	struct graph *g = *exec = calloc(1, sizeof *g);
	struct op **end = &g->ops;
	for (struct op *o = graph->ops; o; o = o->next) {
		*end = malloc(sizeof **end);
		**end = *o;
		(*end)->next = NULL;
		end = &(*end)->next;
	}
	graphs++;
	return OK;
}

result cuGraphUpload(struct graph *exec, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	return exec && live(stream) ? OK : INVALID_VALUE;
}

result cuGraphLaunch(struct graph *exec, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	if (refused(s)) /* the driver would put it into the other */
		return CAPTURE_UNSUPPORTED;
	if (exec->last)
		queue(s, (struct op){.kind = WAIT, .mark = exec->last}); /* whose use goes to it */
	for (struct op *o = exec->ops; o; o = o->next) {
		struct op again = *o;
		again.next = NULL;
		queue(s, again);
	}
	struct mark *m = exec->last = calloc(1, sizeof *m);
	m->uses = 2;
	m->left = 1;
	queue(s, (struct op){.kind = RECORD, .mark = m});
	return OK;
}

static result destroy_graph(struct graph *g) {
	LOCKED;
	free_ops(g->ops);
	unuse(g->last);
	free(g);
	graphs--;
	pthread_cond_broadcast(&changed);
	return OK;
}

result cuGraphDestroy(struct graph *g) { NEED(CONTEXT); return destroy_graph(g); }
result cuGraphExecDestroy(struct graph *g) { NEED(CONTEXT); return destroy_graph(g); }
#endif

/* Virtual memory: reservations are inaccessible mappings, chunks are files in
 * memory. */

struct properties {
	int kind, handles;
	struct location location;
	void *windows;
	unsigned char flags[8];
};

struct access {
	struct location location;
	int flags;
};

static int whole(uint64_t n) { return n > 0 && n % GRANULARITY == 0; }

static int bad_properties(const struct properties *p) {
	return p->kind != 1 || p->handles || p->location.kind != 1 || bad_device(p->location.id);
}

result cuMemGetAllocationGranularity(size_t *n, const struct properties *properties, int option) {
	NEED(INIT);
	if (bad_properties(properties) || option < 0 || option > 1)
		return INVALID_VALUE;
	*n = GRANULARITY;
	return OK;
}

static int inaccessible(address p, uint64_t n) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
	return mmap((void *)p, n, PROT_NONE, flags, -1, 0) == MAP_FAILED;
}

result cuMemAddressReserve(address *p, size_t n, size_t alignment, address at, unsigned long long flags) {
	NEED(CONTEXT);
	if (!whole(n) || alignment || at || flags)
		return INVALID_VALUE;
	void *memory = mmap(NULL, n + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return OUT_OF_MEMORY;
	address start = ((address)memory + GRANULARITY - 1) & ~(address)(GRANULARITY - 1);
	uint64_t before = start - (address)memory;
	if (before)
		munmap(memory, before);
	munmap((void *)(start + n), GRANULARITY - before);
	LOCKED;
	add_range(RESERVED, start, n);
	*p = start;
	return OK;
}

result cuMemAddressFree(address p, size_t n) {
	NEED(CONTEXT);
	LOCKED;
	struct range *r = find_start(p, RESERVED);
	if (!r || r->bytes != n || overlaps(p, n, MAPPED))
		return INVALID_VALUE;
	drop_range(r);
	munmap((void *)p, n);
	return OK;
}

result cuMemCreate(struct chunk **chunk, size_t n, const struct properties *properties, unsigned long long flags) {
	NEED(CONTEXT);
	if (!whole(n) || bad_properties(properties) || flags)
		return INVALID_VALUE;
	LOCKED;
	result r = charge(n);
	if (r)
		return r;
	int file = memfd_create("fakecuda", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)n)) {
		current->used -= n;
		return OUT_OF_MEMORY;
	}
	struct chunk *c = calloc(1, sizeof *c);
	*c = (struct chunk){.next = chunks, .device = current, .file = file, .bytes = n};
	*chunk = chunks = c;
	return OK;
}

/* clear_away frees a chunk that has neither a handle nor a mapping. */
static void clear_away(struct chunk *c) {
	if (!c->released || c->mappings)
		return;
	struct chunk **at = &chunks;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->device->used -= c->bytes;
	close(c->file);
	free(c);
}

static struct chunk *live_chunk(void *handle) {
	for (struct chunk *c = chunks; c; c = c->next)
		if (c == handle && !c->released)
			return c;
	return NULL;
}

result cuMemRelease(void *chunk) {
	NEED(CONTEXT);
	LOCKED;
	struct chunk *c = live_chunk(chunk);
	if (!c)
		return INVALID_VALUE;
	c->released = 1;
	clear_away(c);
	return OK;
}

result cuMemMap(address p, size_t n, size_t offset, void *chunk, unsigned long long flags) {
	NEED(CONTEXT);
	LOCKED;
	struct chunk *c = live_chunk(chunk);
	struct range *r = find(p, RESERVED);
	if (!c || !r || offset || flags || p % GRANULARITY || n == 0)
		return INVALID_VALUE;
	if (n != c->bytes) /* a part of a chunk, or a size that is not whole */
		return NOT_SUPPORTED;
	if (r->start + r->bytes - p < n || overlaps(p, n, MAPPED))
		return INVALID_VALUE;
	if (mmap((void *)p, n, PROT_NONE, MAP_SHARED | MAP_FIXED, c->file, 0) == MAP_FAILED)
		return OUT_OF_MEMORY;
	c->mappings++;
	add_range(MAPPED, p, n)->chunk = c;
	return OK;
}

/* The driver takes away what is mapped in the range, and finds no fault with
 * a size that is not whole or with a range where nothing is mapped. */
result cuMemUnmap(address p, size_t n) {
	NEED(CONTEXT);
	if (n < GRANULARITY)
		return INVALID_VALUE;
	LOCKED;
	struct range *r = find(p, RESERVED);
	if (!r)
		return INVALID_VALUE;
	address end = r->start + r->bytes;
	if (n < end - p)
		end = p + n;
	for (; p < end; p += GRANULARITY) {
		r = find_start(p, MAPPED);
		if (!r || r->bytes > end - p)
			continue;
		inaccessible(p, r->bytes);
		r->chunk->mappings--;
		clear_away(r->chunk);
		drop_range(r);
	}
	return OK;
}

/* mappings_fill says whether whole mappings make up the range exactly. */
static int mappings_fill(address p, uint64_t n) {
	while (n > 0) {
		struct range *r = find_start(p, MAPPED);
		if (!r || r->bytes > n)
			return 0;
		p += r->bytes;
		n -= r->bytes;
	}
	return 1;
}

result cuMemSetAccess(address p, size_t n, const struct access *access, size_t count) {
	NEED(CONTEXT);
	LOCKED;
	if (count != 1 || access->location.kind != 1 || bad_device(access->location.id) || access->flags != 3 ||
		!whole(n) || !mappings_fill(p, n))
		return INVALID_VALUE;
	if (mprotect((void *)p, n, PROT_READ | PROT_WRITE))
		return OUT_OF_MEMORY;
	for (address end = p + n; p < end;) {
		struct range *r = find_start(p, MAPPED);
		r->accessible = 1;
		p += r->bytes;
	}
	return OK;
}

/* Allocation in the order of streams */

struct pool_properties {
	int kind, handles;
	struct location location;
	void *windows;
	size_t most;
	unsigned char reserved[56];
};

result cuMemPoolCreate(struct pool **pool, const struct pool_properties *p) {
	NEED(CONTEXT);
	if (p->kind != 1 || p->handles || p->location.kind != 1 || bad_device(p->location.id) || p->windows || p->most)
		return INVALID_VALUE;
	for (size_t i = 0; i < sizeof p->reserved; i++)
		if (p->reserved[i])
			return INVALID_VALUE;
	LOCKED;
	*pool = calloc(1, sizeof **pool);
	**pool = (struct pool){.next = pools, .device = &devices[p->location.id]};
	pools = *pool;
	return OK;
}

static struct pool *live_pool(void *handle) {
	for (struct pool *p = pools; p; p = p->next)
		if (p == handle)
			return p;
	return NULL;
}

/* A pool lives on in the driver until its memory is freed; a backend that
 * leaves some has a leak. */
result cuMemPoolDestroy(void *pool) {
	NEED(CONTEXT);
	LOCKED;
	struct pool *p = live_pool(pool);
	if (!p)
		return INVALID_VALUE;
	for (struct range *r = ranges; r; r = r->next)
		if (r->pool == p)
			return UNKNOWN;
	p->device->used -= p->idle;
	struct pool **at = &pools;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
	return OK;
}

result cuMemPoolSetAttribute(void *pool, int attribute, const uint64_t *value) {
	NEED(CONTEXT);
	LOCKED;
	struct pool *p = live_pool(pool);
	if (!p || attribute != 4)
		return INVALID_VALUE;
	p->threshold = *value;
	return OK;
}

result cuMemPoolTrimTo(void *pool, size_t keep) {
	NEED(CONTEXT);
	LOCKED;
	struct pool *p = live_pool(pool);
	if (!p)
		return INVALID_VALUE;
	uint64_t all = p->idle;
	for (struct range *r = ranges; r; r = r->next)
		if (r->pool == p)
			all += rounded(r->bytes);
	uint64_t back = all > keep ? all - keep : 0;
	back = back < p->idle ? back : p->idle;
	p->idle -= back;
	p->device->used -= back;
	return OK;
}

/* idle memory of the pool has no addresses here: any of it fits. */
static result pool_charge(struct pool *p, uint64_t n) {
	uint64_t idle = p->idle < n ? p->idle : n;
	if (n > capacity() || (n > idle && charge(n - idle)))
		return OUT_OF_MEMORY;
	p->idle -= idle;
	return OK;
}

result cuMemAllocFromPoolAsync(address *at, size_t n, void *pool, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	struct pool *p = live_pool(pool);
	if (!s || !p || s->device != p->device)
		return INVALID_HANDLE;
	if (refused(s))
		return CAPTURE_UNSUPPORTED;
	if (n == 0)
		return INVALID_VALUE;
	if (n > capacity())
		return OUT_OF_MEMORY;
	void *memory;
	result r = pool_charge(p, rounded(n));
	if (r) {
		drain(s, NULL); /* what it frees can be used */
		r = pool_charge(p, rounded(n));
	}
	if (r)
		return r;
	if (posix_memalign(&memory, 512, rounded(n))) {
		p->idle += rounded(n);
		return OUT_OF_MEMORY;
	}
	*at = (address)memory;
	add_range(DEVICE, *at, n)->pool = p;
	queue(s, (struct op){.kind = SET, .dst = memory, .value = 0xCD, .bytes = n < 65536 ? n : 65536});
	return OK;
}

result cuMemFreeAsync(address p, void *stream) {
	NEED(CONTEXT);
	LOCKED;
	struct stream *s = live(stream);
	if (!s)
		return INVALID_HANDLE;
	struct range *r = find_start(p, DEVICE);
	if (!r || !r->pool)
		return INVALID_VALUE;
	if (refused(s))
		return CAPTURE_UNSUPPORTED;
	r->freed = 1;
	queue(s, (struct op){.kind = FREE, .freed = r});
	return OK;
}

/* Kernels: none */

result cuModuleLoadData(void **module, const void *image) { (void)module; (void)image; NEED(CONTEXT); return NOT_SUPPORTED; }
result cuModuleUnload(void *module) { (void)module; NEED(CONTEXT); return NOT_SUPPORTED; }
result cuModuleGetFunction(void **function, void *module, const char *name) {
	(void)function; (void)module; (void)name;
	NEED(CONTEXT);
	return NOT_SUPPORTED;
}
result cuFuncSetAttribute(void *function, int attribute, int value) {
	(void)function; (void)attribute; (void)value;
	NEED(CONTEXT);
	return NOT_SUPPORTED;
}
result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *stream, void **params, void **extra) {
	(void)function; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz;
	(void)shared; (void)stream; (void)params; (void)extra;
	NEED(CONTEXT);
	return NOT_SUPPORTED;
}
