/* A stand-in for NCCL, for tests on machines without a GPU: ranks are threads of one
 * process. It works on the memory and the streams of the stand-in for the CUDA driver,
 * which it includes:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakenccl.c
 *
 * It behaves as NCCL does where the tests look: a communicator that does not block is in
 * progress after each call, nothing is done until its state has been asked for, and it
 * takes no other call before; to abort one that blocks ends the call that waits, behind
 * which alone it may be freed, by the end of a group; operations run in the order of the
 * calls, on whatever streams; what is captured runs with each launch of the graph. The
 * environment chooses what is simulated:
 *
 *   FAKENCCL_VERSION  as ncclGetVersion tells it (22703)
 *   FAKENCCL_FAIL     calls that fail, and how: "ncclCommInitRankScalable=2"
 *   FAKENCCL_CONNECT  1: the first operation is in progress until all ranks have called it (0)
 *
 * Linux only; gcc or clang.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

/* A copy of so many bytes is a call in the order of a stream: of dst, with src. */
#define A_CALL SIZE_MAX

static void *copy_or_call(void *dst, const void *src, size_t n) {
	if (n != A_CALL)
		return memcpy(dst, src, n);
	((void (*)(const void *))dst)(src);
	return dst;
}

#undef memcpy
#define memcpy copy_or_call
#include "../../../../device/cuda/testdata/fakecuda/fakecuda.c"
#undef memcpy

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
enum { MAX_RANKS = 8, ID_BYTES = 128, POLLS = 2 };

typedef struct { char bytes[ID_BYTES]; } unique_id;

struct config {
	size_t size;
	unsigned magic, version;
	int blocking, cga, min_ctas, max_ctas;
	const char *net;
	int share;
};

/* One operation of one rank. */
struct task {
	struct task *next;
	enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV } kind;
	const char *send;
	char *recv;
	size_t count;
	int type, op, peer; /* or root */
	int met;            /* of a transfer */
};

/* One operation of all ranks. */
struct meeting {
	struct task *tasks[MAX_RANKS];
	int come, done;
};

struct group {
	struct group *next;
	unique_id id;
	int size, come, split;
	struct comm *ranks[MAX_RANKS];
	struct meeting *meeting;
	struct offer {
		struct offer *next;
		int from;
		struct task *task;
	} *offers;
};

struct comm {
	struct comm *next;
	struct group *group;
	int rank, blocking, state, polls, dead, busy, captured;
	enum { JOIN, LAUNCH, SPLIT, FINALIZE } pending;
	struct launch {
		struct comm *comm;
		struct task *tasks;
	} *launch;
	struct stream *stream; /* of the launch */
	int color, key, child_blocking;
	struct comm *child, **newcomm;
	struct mark *last; /* passed when all that was launched is done */
};

static struct group *groups;
static int made, aborts, ids;
static struct comm *comms;

static _Thread_local int depth, group_error;
static _Thread_local struct comm *group_comm, *group_aborted;
static _Thread_local struct stream *group_stream;
static _Thread_local struct task *group_tasks, **group_end;

static char last_error[256];

static int failed(int code, const char *text) {
	snprintf(last_error, sizeof last_error, "%s", text);
	return code;
}

static int injected_here(const char *call) {
	const char *s = getenv("FAKENCCL_FAIL");
	size_t n = strlen(call);
	if (!s || strncmp(s, call, n) || s[n] != '=')
		return SUCCESS;
	return failed(atoi(s + n + 1), "injected");
}

#define INJECT do { int r_ = injected_here(__func__); if (r_) return r_; } while (0)

/* For tests: how many communicators were made and aborted, and an error of those that a
 * rank has. */

int fakencclMade(void) { return made; }

int fakencclAborts(void) { return aborts; }

void fakencclBreak(int rank, int code) {
	LOCKED;
	for (struct comm *c = comms; c; c = c->next)
		if (c->rank == rank && !c->dead)
			c->state = code;
}

/* Numbers */

static size_t size_of(int type) {
	static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return sizes[type];
}

static double number(const void *p, size_t i, int type) {
	uint32_t wide;
	float f;
	switch (type) {
	case 0: return ((const int8_t *)p)[i];
	case 1: return ((const uint8_t *)p)[i];
	case 2: return ((const int32_t *)p)[i];
	case 3: return ((const uint32_t *)p)[i];
	case 4: return (double)((const int64_t *)p)[i];
	case 5: return (double)((const uint64_t *)p)[i];
	case 6: return (double)((const _Float16 *)p)[i];
	case 7: return ((const float *)p)[i];
	case 8: return ((const double *)p)[i];
	}
	wide = (uint32_t)((const uint16_t *)p)[i] << 16;
	memcpy(&f, &wide, 4);
	return f;
}

static void put(void *p, size_t i, int type, double v) {
	uint32_t wide;
	float f = (float)v;
	switch (type) {
	case 0: ((int8_t *)p)[i] = (int8_t)(int64_t)v; return;
	case 1: ((uint8_t *)p)[i] = (uint8_t)(int64_t)v; return;
	case 2: ((int32_t *)p)[i] = (int32_t)v; return;
	case 3: ((uint32_t *)p)[i] = (uint32_t)v; return;
	case 4: ((int64_t *)p)[i] = (int64_t)v; return;
	case 5: ((uint64_t *)p)[i] = (uint64_t)v; return;
	case 6: ((_Float16 *)p)[i] = (_Float16)f; return;
	case 7: ((float *)p)[i] = f; return;
	case 8: ((double *)p)[i] = v; return;
	}
	memcpy(&wide, &f, 4);
	((uint16_t *)p)[i] = (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

/* combined is element i of what all ranks sent. */
static double combined(struct meeting *m, int n, size_t i) {
	const struct task *own = m->tasks[0];
	double v = number(own->send, i, own->type);
	for (int k = 1; k < n; k++) {
		double w = number(m->tasks[k]->send, i, own->type);
		switch (own->op) {
		case 1: v *= w; break;
		case 2: v = w > v ? w : v; break;
		case 3: v = w < v ? w : v; break;
		default: v += w;
		}
	}
	return own->op == 4 ? v / n : v;
}

/* take does one rank's part of an operation: what no other rank writes. */
static void take(struct meeting *m, int n, int rank) {
	const struct task *own = m->tasks[rank];
	size_t count = own->count;
	switch (own->kind) {
	case ALL_REDUCE:
		for (size_t i = count * rank / n; i < count * (rank + 1) / n; i++) {
			double v = combined(m, n, i);
			for (int k = 0; k < n; k++)
				put(m->tasks[k]->recv, i, own->type, v);
		}
		break;
	case REDUCE_SCATTER:
		for (size_t i = 0; i < count; i++)
			put(own->recv, i, own->type, combined(m, n, rank * count + i));
		break;
	case ALL_GATHER:
		for (int k = 0; k < n; k++)
			if (m->tasks[k]->recv + rank * count != own->send)
				memcpy(m->tasks[k]->recv + rank * count, own->send, count);
		break;
	default:
		if (rank != own->peer)
			memcpy(own->recv, m->tasks[own->peer]->send, count);
	}
}

/* What runs in the order of a stream. Nobody waits for ranks once he is aborted. */

static void collective(struct comm *c, struct task *t) {
	LOCKED;
	struct group *g = c->group;
	if (!g->meeting)
		g->meeting = calloc(1, sizeof *g->meeting);
	struct meeting *m = g->meeting;
	m->tasks[c->rank] = t;
	if (++m->come == g->size) {
		g->meeting = NULL;
		pthread_cond_broadcast(&changed);
	}
	while (m->come < g->size) {
		if (c->dead) {
			m->come--;
			return;
		}
		pthread_cond_wait(&changed, &mutex);
	}
	pthread_mutex_unlock(&mutex);
	take(m, g->size, c->rank);
	pthread_mutex_lock(&mutex);
	m->done++;
	pthread_cond_broadcast(&changed);
	while (m->done < g->size)
		pthread_cond_wait(&changed, &mutex);
}

static void offer(struct comm *c, struct task *t) {
	struct group *g = c->group;
	for (struct offer **at = &g->offers; *at; at = &(*at)->next) {
		struct offer *o = *at;
		if (o->from != t->peer || o->task->peer != c->rank || o->task->kind == t->kind)
			continue;
		struct task *from = t->kind == SEND ? t : o->task, *to = t->kind == SEND ? o->task : t;
		if (from->count != to->count)
			abort();
		memcpy(to->recv, from->send, to->count);
		from->met = to->met = 1;
		*at = o->next;
		pthread_cond_broadcast(&changed);
		return;
	}
	struct offer **end = &g->offers;
	while (*end)
		end = &(*end)->next;
	*end = calloc(1, sizeof **end);
	(*end)->from = c->rank;
	(*end)->task = t;
}

static void transfers(struct comm *c, struct task *list) {
	LOCKED;
	for (struct task *t = list; t; t = t->next) {
		t->met = 0;
		offer(c, t);
	}
	for (struct task *t = list; t; t = t->next)
		while (!t->met) {
			if (c->dead) {
				for (struct offer **at = &c->group->offers; *at;)
					if ((*at)->from == c->rank)
						*at = (*at)->next;
					else
						at = &(*at)->next;
				return;
			}
			pthread_cond_wait(&changed, &mutex);
		}
}

static void run(const void *arg) {
	const struct launch *l = arg;
	if (l->tasks->kind >= SEND) {
		transfers(l->comm, l->tasks);
		return;
	}
	for (struct task *t = l->tasks; t && !l->comm->dead; t = t->next)
		collective(l->comm, t);
}

static void queue_launch(struct comm *c) {
	struct stream *s = c->stream;
	if (!s->capture && c->last) {
		c->last->uses++;
		queue(s, (struct op){.kind = WAIT, .mark = c->last});
	}
	queue(s, (struct op){.kind = COPY, .dst = (void *)run, .src = c->launch, .bytes = A_CALL});
	if (s->capture) {
		c->captured = 1;
		return;
	}
	struct mark *m = calloc(1, sizeof *m);
	m->uses = 2;
	m->left = 1;
	unuse(c->last);
	c->last = m;
	queue(s, (struct op){.kind = RECORD, .mark = m});
}

/* Communicators */

static struct comm *new_comm(struct group *g, int rank, int blocking) {
	struct comm *c = calloc(1, sizeof *c);
	c->group = g;
	c->rank = rank;
	c->blocking = blocking;
	g->ranks[rank] = c;
	g->come++;
	c->next = comms;
	made++;
	return comms = c;
}

static struct group *new_group(int size) {
	struct group *g = calloc(1, sizeof *g);
	g->size = size;
	return g;
}

/* split_all makes the groups when all ranks have called. */
static void split_all(struct group *g) {
	for (int done = 0; done < g->size; done++) {
		struct comm *first = NULL;
		int n = 0, color = g->ranks[done]->color;
		if (color < 0 || g->ranks[done]->child)
			continue;
		for (int k = 0; k < g->size; k++)
			n += g->ranks[k]->color == color;
		struct group *part = new_group(n);
		while (part->come < n) {
			first = NULL;
			for (int k = 0; k < g->size; k++) {
				struct comm *c = g->ranks[k];
				if (c->color == color && !c->child && (!first || c->key < first->key))
					first = c;
			}
			first->child = new_comm(part, part->come, first->child_blocking);
		}
	}
	g->split = 0;
	for (int k = 0; k < g->size; k++) {
		*g->ranks[k]->newcomm = g->ranks[k]->child;
		g->ranks[k]->newcomm = NULL;
	}
}

/* connected says whether all ranks have called an operation. */
static int connected(struct group *g) {
	for (int k = 0; setting("FAKENCCL_CONNECT", 0) && k < g->size; k++)
		if (!g->ranks[k]->launch)
			return 0;
	return 1;
}

static void progress(struct comm *c) {
	if (c->state != IN_PROGRESS || c->polls++ < POLLS)
		return;
	switch (c->pending) {
	case JOIN:
		if (c->group->come < c->group->size)
			return;
		break;
	case LAUNCH:
		if (c->launch->tasks->kind < SEND && !connected(c->group))
			return;
		queue_launch(c);
		break;
	case SPLIT:
		if (c->newcomm)
			return;
		break;
	case FINALIZE:
		if (c->last && !c->last->passed)
			return;
	}
	c->state = SUCCESS;
}

static int begin(struct comm *c, int what) {
	c->pending = what;
	c->state = IN_PROGRESS;
	c->polls = 0;
	pthread_cond_broadcast(&changed);
	c->busy = 1;
	while (c->blocking && c->state == IN_PROGRESS) {
		struct timespec soon;
		if (c->dead) {
			c->busy = 0;
			return failed(INTERNAL_ERROR, "aborted");
		}
		progress(c);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec = (soon.tv_nsec + 1000000) % 1000000000;
		if (c->state == IN_PROGRESS && c->polls > POLLS)
			pthread_cond_timedwait(&changed, &mutex, &soon);
	}
	c->busy = 0;
	return c->state;
}

/* unready is why a communicator takes no call. */
static int unready(struct comm *c) {
	if (!c || c->dead)
		return failed(INVALID_ARGUMENT, "not a communicator");
	if (!current)
		return failed(INVALID_USAGE, "no context");
	if (c->state == IN_PROGRESS)
		return failed(INVALID_ARGUMENT, "the call before is in progress");
	return c->state;
}

#define READY(c) do { int r_ = unready(c); if (r_) return r_; } while (0)

int ncclGetVersion(int *version) {
	*version = (int)setting("FAKENCCL_VERSION", 22703);
	return SUCCESS;
}

int ncclGetUniqueId(unique_id *id) {
	INJECT;
	LOCKED;
	memset(id, 0, sizeof *id);
	snprintf(id->bytes, sizeof id->bytes, "fake %d", ++ids);
	return SUCCESS;
}

int ncclCommInitRankScalable(struct comm **newcomm, int size, int rank, int n, const unique_id *id, const struct config *config) {
	*newcomm = NULL;
	INJECT;
	LOCKED;
	if (size < 1 || size > MAX_RANKS || rank < 0 || rank >= size || n != 1 || config->magic != 0xcafebeef || config->version < 21700 ||
			config->size < sizeof *config || config->cga != INT32_MIN || config->min_ctas != INT32_MIN ||
			config->max_ctas != INT32_MIN || config->net || config->share != INT32_MIN)
		return failed(INVALID_ARGUMENT, "a rank or the configuration");
	if (!current)
		return failed(INVALID_USAGE, "no context");
	struct group *g = groups;
	while (g && memcmp(&g->id, id, sizeof *id))
		g = g->next;
	if (!g) {
		g = new_group(size);
		g->id = *id;
		g->next = groups;
		groups = g;
	}
	return begin(*newcomm = new_comm(g, rank, config->blocking), JOIN);
}

int ncclCommSplit(struct comm *c, int color, int key, struct comm **newcomm, const struct config *config) {
	INJECT;
	LOCKED;
	READY(c);
	if (color < -1 || (config && (config->magic != 0xcafebeef || config->share != INT32_MIN)))
		return c->state = failed(INVALID_ARGUMENT, "a color or the configuration");
	*newcomm = c->child = NULL;
	c->newcomm = newcomm;
	c->color = color;
	c->key = key;
	c->child_blocking = config ? config->blocking : c->blocking;
	if (++c->group->split == c->group->size)
		split_all(c->group);
	int state = begin(c, SPLIT);
	return state == IN_PROGRESS ? SUCCESS : state; /* as NCCL has it */
}

int ncclCommFinalize(struct comm *c) {
	INJECT;
	LOCKED;
	READY(c);
	return begin(c, FINALIZE);
}

int ncclCommDestroy(struct comm *c) {
	INJECT;
	LOCKED;
	READY(c);
	if (c->pending != FINALIZE)
		return failed(INVALID_USAGE, "not finalized");
	c->dead = 1;
	return SUCCESS;
}

/* freed is what the memory of a communicator becomes: nobody may be in a call with it. To
 * free waits for the graphs that have operations of it (here for all), and for all that the
 * device has to do, where the ranks are processes. */
static void freed(struct comm *c) {
	if (c->busy)
		abort();
	while (c->captured && graphs)
		pthread_cond_wait(&changed, &mutex);
	drain(NULL, current);
}

int ncclCommAbort(struct comm *c) {
	LOCKED;
	if (!c || c->dead || !current)
		return failed(INVALID_ARGUMENT, "not a communicator, or no context");
	aborts++;
	c->dead = 1;
	pthread_cond_broadcast(&changed);
	if (depth)
		group_aborted = c;
	else
		freed(c);
	return SUCCESS;
}

int ncclCommGetAsyncError(struct comm *c, int *state) {
	LOCKED;
	if (!c || c->dead)
		return failed(INVALID_ARGUMENT, "not a communicator");
	progress(c);
	*state = c->state;
	return SUCCESS;
}

int ncclCommCount(struct comm *c, int *n) {
	LOCKED;
	READY(c);
	*n = c->group->size;
	return SUCCESS;
}

int ncclCommUserRank(struct comm *c, int *rank) {
	LOCKED;
	READY(c);
	*rank = c->rank;
	return SUCCESS;
}

const char *ncclGetErrorString(int code) {
	switch (code) {
	case SUCCESS: return "no error";
	case SYSTEM_ERROR: return "unhandled system error";
	case INTERNAL_ERROR: return "internal error";
	case INVALID_ARGUMENT: return "invalid argument";
	case INVALID_USAGE: return "invalid usage";
	case IN_PROGRESS: return "NCCL operation in progress";
	}
	return "remote process exited or there was a network error";
}

const char *ncclGetLastError(struct comm *c) {
	(void)c;
	return last_error;
}

/* Groups and operations */

int ncclGroupStart(void) {
	if (depth++ == 0) {
		group_error = SUCCESS;
		group_comm = NULL;
		group_tasks = NULL;
		group_end = &group_tasks;
	}
	return SUCCESS;
}

int ncclGroupEnd(void) {
	if (depth == 0)
		return failed(INVALID_USAGE, "not in a group");
	if (--depth)
		return SUCCESS;
	if (group_aborted) {
		LOCKED;
		freed(group_aborted);
		group_aborted = NULL;
	}
	if (!group_error)
		group_error = injected_here("ncclGroupEnd");
	if (group_error || !group_comm)
		return group_error;
	LOCKED;
	struct comm *c = group_comm;
	c->launch = calloc(1, sizeof *c->launch); /* graphs may have it for ever */
	c->launch->comm = c;
	c->launch->tasks = group_tasks;
	c->stream = group_stream;
	return begin(c, LAUNCH);
}

static int add(struct comm *c, struct stream *s, struct task t, size_t sent, size_t received) {
	LOCKED;
	int r = unready(c);
	if (!r && (group_comm && (group_comm != c || group_stream != s)))
		r = failed(INVALID_USAGE, "not one communicator and stream");
	if (!r && (!live(s) || (t.send && !covered((address)t.send, sent, REACHABLE)) || (t.recv && !covered((address)t.recv, received, REACHABLE))))
		r = failed(INVALID_ARGUMENT, "no stream, or no memory");
	if (r) {
		if (c && !c->dead)
			c->state = r;
		return group_error = r;
	}
	group_comm = c;
	group_stream = s;
	*group_end = malloc(sizeof t);
	**group_end = t;
	group_end = &(*group_end)->next;
	return SUCCESS;
}

static int operate(struct comm *c, struct stream *s, struct task t, size_t sent, size_t received) {
	ncclGroupStart();
	int r = add(c, s, t, sent, received), end = ncclGroupEnd();
	return r ? r : end;
}

int ncclAllReduce(const void *send, void *recv, size_t n, int type, int op, struct comm *c, struct stream *s) {
	INJECT;
	size_t bytes = n * size_of(type);
	return operate(c, s, (struct task){.kind = ALL_REDUCE, .send = send, .recv = recv, .count = n, .type = type, .op = op}, bytes, bytes);
}

int ncclReduceScatter(const void *send, void *recv, size_t n, int type, int op, struct comm *c, struct stream *s) {
	size_t bytes = n * size_of(type);
	return operate(c, s, (struct task){.kind = REDUCE_SCATTER, .send = send, .recv = recv, .count = n, .type = type, .op = op},
		bytes * c->group->size, bytes);
}

int ncclAllGather(const void *send, void *recv, size_t n, int type, struct comm *c, struct stream *s) {
	size_t bytes = n * size_of(type);
	return operate(c, s, (struct task){.kind = ALL_GATHER, .send = send, .recv = recv, .count = bytes}, bytes, bytes * c->group->size);
}

int ncclBroadcast(const void *send, void *recv, size_t n, int type, int root, struct comm *c, struct stream *s) {
	size_t bytes = n * size_of(type);
	return operate(c, s, (struct task){.kind = BROADCAST, .send = send, .recv = recv, .count = bytes, .peer = root}, bytes, bytes);
}

int ncclSend(const void *send, size_t n, int type, int peer, struct comm *c, struct stream *s) {
	size_t bytes = n * size_of(type);
	return operate(c, s, (struct task){.kind = SEND, .send = send, .count = bytes, .peer = peer}, bytes, 0);
}

int ncclRecv(void *recv, size_t n, int type, int peer, struct comm *c, struct stream *s) {
	size_t bytes = n * size_of(type);
	return operate(c, s, (struct task){.kind = RECV, .recv = recv, .count = bytes, .peer = peer}, 0, bytes);
}
