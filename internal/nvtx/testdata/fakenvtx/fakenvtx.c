/* A stand-in for a tool that NVTX loads: it counts ranges, and keeps what they say.
 *
 *   cc -shared -fPIC -pthread -o libfakenvtx.so fakenvtx.c
 *
 * FAKENVTX_REFUSE=1 makes it refuse to begin, and FAKENVTX_PARTLY=1 leaves functions out.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);
struct callbacks {
	size_t size;
	int (*get_table)(int module, function ***table, unsigned *n);
};
struct version {
	size_t size;
	uint32_t version, reserved;
	void (*set)(uint32_t);
};
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int domain;
enum { MOST = 1 << 16 };
static struct {
	const char *name;
	int open;
} ranges[MOST];
static uint64_t started, ended, wrong;
static char said[MOST];

static uint64_t start(void *d, const struct attributes *a) {
	pthread_mutex_lock(&lock);
	if (d != &domain || a->version != 3 || a->size != 48 || a->message_type != 1 || a->category || a->color_type || a->payload_type)
		wrong++;
	uint64_t id = ++started;
	if (id < MOST) {
		ranges[id].name = a->message;
		ranges[id].open = 1;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

static void end(void *d, uint64_t id) {
	pthread_mutex_lock(&lock);
	if (d != &domain || id == 0 || id > started || (id < MOST && !ranges[id].open))
		wrong++;
	else if (id < MOST)
		ranges[id].open = 0;
	ended++;
	pthread_mutex_unlock(&lock);
}

static void *create(const char *name) {
	if (strcmp(name, "Pinion"))
		wrong++;
	return &domain;
}

int InitializeInjectionNvtx2(const void *(*export)(uint32_t)) {
	static const unsigned sizes[] = {0, 16, 9, 15, 7, 16, 7};
	const char *refuse = getenv("FAKENVTX_REFUSE"), *partly = getenv("FAKENVTX_PARTLY");
	const struct callbacks *c = export(1);
	const struct version *v = export(3);
	if (!c || !v || export(2) || export(99) || c->size != sizeof *c || v->size != sizeof *v || v->version != 3)
		return 0;
	v->set(3);
	function **table;
	unsigned n;
	for (int m = 1; m <= 6; m++) {
		if (!c->get_table(m, &table, &n) || n != sizes[m] || table[0] || table[n])
			return 0;
		for (unsigned i = 1; i < n; i++)
			if (!table[i])
				return 0;
	}
	if (c->get_table(0, &table, &n) || c->get_table(7, &table, &n) || !c->get_table(5, NULL, NULL) || !c->get_table(5, &table, NULL))
		return 0;
	if (refuse && *refuse == '1')
		return 0;
	*table[2] = (function)start;
	if (!partly || *partly != '1')
		*table[3] = (function)end;
	*table[12] = (function)create;
	return 1;
}

uint64_t fake_started(void) { return started; }
uint64_t fake_ended(void) { return ended; }
uint64_t fake_wrong(void) { return wrong; }

/* fake_names are the names of all ranges, in the order in which they began, a line each. */
const char *fake_names(void) {
	size_t at = 0;
	pthread_mutex_lock(&lock);
	for (uint64_t i = 1; i <= started && i < MOST; i++) {
		size_t n = strlen(ranges[i].name);
		if (at + n + 2 > sizeof said)
			break;
		memcpy(said + at, ranges[i].name, n);
		said[at + n] = '\n';
		at += n + 1;
	}
	said[at] = 0;
	pthread_mutex_unlock(&lock);
	return said;
}
