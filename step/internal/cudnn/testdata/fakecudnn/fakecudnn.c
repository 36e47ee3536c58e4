/* A stand-in for cuDNN, for tests on machines without a GPU. It is compiled together
 * with the stand-in for the CUDA driver:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakecudnn.c fakecuda.c
 *
 * Of the graph interface it has what one convolution needs. Attributes must be of the
 * type that the header says, descriptors are counted, and each is final before another
 * one takes it. A convolution waits for its stream and is done when the call returns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **context);

enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_FINAL = 2004, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { CONVOLUTION = 1, ENGINE, CONFIG, HEURISTIC, PLAN, FORWARD = 10, FILTER, DATA, GRAPH = 15, PACK, TENSOR };
enum { T_HANDLE = 0, T_DATA = 1, T_INT64 = 3, T_FLOAT = 4, T_POINTER = 6, T_MODE = 7, T_HEUR = 8, T_NOTE = 11, T_DESC = 15 };

/* What can be set: the attribute, whose it is, and its type. */
static const struct { int attribute, kind, type; } known[] = {
	{100, CONVOLUTION, T_DATA}, {101, CONVOLUTION, T_MODE}, {102, CONVOLUTION, T_INT64}, {103, CONVOLUTION, T_INT64},
	{104, CONVOLUTION, T_INT64}, {105, CONVOLUTION, T_INT64}, {106, CONVOLUTION, T_INT64},
	{200, HEURISTIC, T_HEUR}, {201, HEURISTIC, T_DESC}, {400, PLAN, T_HANDLE}, {401, PLAN, T_DESC},
	{700, FORWARD, T_FLOAT}, {701, FORWARD, T_FLOAT}, {702, FORWARD, T_DESC}, {703, FORWARD, T_DESC}, {704, FORWARD, T_DESC}, {705, FORWARD, T_DESC},
	{706, DATA, T_FLOAT}, {707, DATA, T_FLOAT}, {708, DATA, T_DESC}, {709, DATA, T_DESC}, {710, DATA, T_DESC}, {711, DATA, T_DESC},
	{712, FILTER, T_FLOAT}, {713, FILTER, T_FLOAT}, {714, FILTER, T_DESC}, {715, FILTER, T_DESC}, {716, FILTER, T_DESC}, {717, FILTER, T_DESC},
	{800, GRAPH, T_HANDLE}, {801, GRAPH, T_DESC},
	{900, TENSOR, T_INT64}, {901, TENSOR, T_DATA}, {902, TENSOR, T_INT64}, {903, TENSOR, T_INT64}, {906, TENSOR, T_INT64},
	{1000, PACK, T_INT64}, {1001, PACK, T_POINTER}, {1003, PACK, T_POINTER},
};
enum { KNOWN = sizeof known / sizeof *known };

struct descriptor {
	int kind, final;
	int64_t counts[KNOWN];
	int64_t values[KNOWN][8]; /* 4 or 8 bytes of each are used */
	int engine;               /* of an engine, a configuration, and a plan */
	struct plan *plan;        /* of a graph, and what is made of it */
};

struct tensor { int type; int64_t n, dims[8], strides[8], id; };

struct plan { /* what a graph says */
	int users, kind;
	int64_t spatial, dilation[8], stride[8], pre[8], post[8];
	struct tensor x, w, y;
};

struct handle { int kind; void *stream; };
enum { HANDLE = 0xd1 };

static long objects, asked;
static char last[256];

/* fakecudnnCount is how many objects live; fakecudnnAsked how often heuristics were
 * asked for. */
long fakecudnnCount(void) { return objects; }
long fakecudnnAsked(void) { return asked; }

size_t cudnnGetVersion(void) { return 90600; }
const char *cudnnGetErrorString(int status) {
	return status == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER";
}
void cudnnGetLastErrorString(char *to, size_t n) { snprintf(to, n, "%s", last); }

static int fail(int status, const char *why) {
	snprintf(last, sizeof last, "%s", why);
	return status;
}

static int in_context(void) {
	void *context = NULL;
	return !cuCtxGetCurrent(&context) && context;
}

int cudnnCreate(struct handle **h) {
	if (!in_context())
		return fail(NOT_INITIALIZED, "no context");
	*h = calloc(1, sizeof **h);
	(*h)->kind = HANDLE;
	objects++;
	return SUCCESS;
}

int cudnnDestroy(struct handle *h) {
	if (!h || h->kind != HANDLE)
		return fail(BAD_PARAM, "not a handle");
	h->kind = 0;
	free(h);
	objects--;
	return SUCCESS;
}

int cudnnSetStream(struct handle *h, void *stream) {
	if (h->kind != HANDLE)
		return fail(BAD_PARAM, "not a handle");
	h->stream = stream;
	return SUCCESS;
}

int cudnnBackendCreateDescriptor(int kind, struct descriptor **d) {
	*d = calloc(1, sizeof **d);
	(*d)->kind = kind;
	objects++;
	return SUCCESS;
}

int cudnnBackendDestroyDescriptor(struct descriptor *d) {
	if (!d || !d->kind)
		return fail(BAD_PARAM, "not a descriptor");
	if (d->plan && --d->plan->users == 0)
		free(d->plan);
	d->kind = 0;
	free(d);
	objects--;
	return SUCCESS;
}

static int find(const struct descriptor *d, int attribute) {
	for (int i = 0; i < KNOWN; i++)
		if (known[i].attribute == attribute && known[i].kind == d->kind)
			return i;
	return -1;
}

static int width(int type) { return type == T_DATA || type == T_FLOAT || type == T_MODE || type == T_HEUR || type == T_NOTE ? 4 : 8; }

int cudnnBackendSetAttribute(struct descriptor *d, int attribute, int type, int64_t n, const void *elements) {
	int i = find(d, attribute);
	if (i < 0 || known[i].type != type || n < 1 || n > 8 || d->final)
		return fail(BAD_PARAM, "no such attribute, of that type, can be set now");
	if (type == T_DESC && !(*(struct descriptor **)elements)->final)
		return fail(NOT_FINAL, "the descriptor is not final");
	if (type == T_HANDLE && (*(struct handle **)elements)->kind != HANDLE)
		return fail(BAD_PARAM, "not a handle");
	for (int64_t j = 0; j < n; j++)
		memcpy(&d->values[i][j], (const char *)elements + j * width(type), width(type));
	d->counts[i] = n;
	return SUCCESS;
}

static struct descriptor *desc_of(struct descriptor *d, int attribute) { return *(struct descriptor **)d->values[find(d, attribute)]; }
static int enum_of(struct descriptor *d, int attribute) { return *(int *)d->values[find(d, attribute)]; }
static float float_of(struct descriptor *d, int attribute) { return *(float *)d->values[find(d, attribute)]; }
static int64_t *ints_of(struct descriptor *d, int attribute) { return d->values[find(d, attribute)]; }
static int64_t count_of(struct descriptor *d, int attribute) { return d->counts[find(d, attribute)]; }

static void read_tensor(struct tensor *t, struct descriptor *d) {
	t->type = enum_of(d, 901);
	t->n = count_of(d, 902);
	memcpy(t->dims, ints_of(d, 902), sizeof t->dims);
	memcpy(t->strides, ints_of(d, 903), sizeof t->strides);
	t->id = *ints_of(d, 906);
}

/* read_graph takes the operation's parts, and looks whether they fit. */
static int read_graph(struct descriptor *g) {
	struct descriptor *op = desc_of(g, 801);
	int kind = op->kind, first = kind == FORWARD ? 700 : kind == DATA ? 706 : 712;
	if (kind != FORWARD && kind != DATA && kind != FILTER)
		return fail(BAD_PARAM, "not an operation");
	if (float_of(op, first) != 1 || float_of(op, first + 1) != 0)
		return fail(BAD_PARAM, "alpha and beta are not 1 and 0");
	struct descriptor *conv = desc_of(op, first + 2);
	struct descriptor *w = desc_of(op, kind == FILTER ? 715 : first + 3);
	struct descriptor *x = desc_of(op, kind == FILTER ? 716 : first + 4);
	struct descriptor *y = desc_of(op, first + 5);
	if (conv->kind != CONVOLUTION || x->kind != TENSOR || w->kind != TENSOR || y->kind != TENSOR)
		return fail(BAD_PARAM, "a part is of another kind");
	struct plan *p = calloc(1, sizeof *p);
	g->plan = p;
	p->users = 1;
	p->kind = kind;
	p->spatial = *ints_of(conv, 106);
	memcpy(p->dilation, ints_of(conv, 102), sizeof p->dilation);
	memcpy(p->stride, ints_of(conv, 103), sizeof p->stride);
	memcpy(p->post, ints_of(conv, 104), sizeof p->post);
	memcpy(p->pre, ints_of(conv, 105), sizeof p->pre);
	read_tensor(&p->x, x);
	read_tensor(&p->w, w);
	read_tensor(&p->y, y);
	if (enum_of(conv, 100) != 0 || enum_of(conv, 101) != 1)
		return fail(NOT_SUPPORTED, "not a correlation added up in float");
	if (p->spatial < 2 || p->x.n != p->spatial + 2 || p->w.n != p->x.n || p->y.n != p->x.n)
		return fail(BAD_PARAM, "ranks differ");
	for (int64_t i = 0; i < p->spatial; i++)
		if ((p->x.dims[2 + i] + p->pre[i] + p->post[i] - (p->w.dims[2 + i] - 1) * p->dilation[i] - 1) / p->stride[i] + 1 != p->y.dims[2 + i])
			return fail(BAD_PARAM, "the result has another size");
	if (p->x.dims[0] != p->y.dims[0] || p->w.dims[0] != p->y.dims[1] || p->x.dims[1] % p->w.dims[1])
		return fail(BAD_PARAM, "channels do not fit");
	/* Like the library's engines: all lie in the same order. */
	int last = p->x.strides[1] == 1 && p->y.strides[1] == 1 && p->w.strides[1] == 1;
	int first_ = p->x.strides[p->x.n - 1] == 1 && p->y.strides[p->y.n - 1] == 1 && p->w.strides[p->w.n - 1] == 1;
	return last || first_ ? SUCCESS : fail(NOT_SUPPORTED, "a layout without engines");
}

static void share(struct descriptor *to, struct descriptor *from) {
	to->plan = from->plan;
	to->plan->users++;
}

int cudnnBackendFinalize(struct descriptor *d) {
	if (d->final)
		return fail(BAD_PARAM, "final before");
	for (int i = 0; i < KNOWN; i++)
		if (known[i].kind == d->kind && !d->counts[i])
			return fail(BAD_PARAM, "an attribute is missing");
	if (d->kind == GRAPH) {
		int status = read_graph(d);
		if (status)
			return status;
	} else if (d->kind == HEURISTIC) {
		asked++;
		share(d, desc_of(d, 201));
	} else if (d->kind == PLAN) {
		struct descriptor *config = desc_of(d, 401);
		if (config->engine == 2)
			return fail(NOT_SUPPORTED, "this engine needs another device");
		d->engine = config->engine;
		share(d, config);
	}
	d->final = 1;
	return SUCCESS;
}

/* Engines: 0 differs from time to time, 1 has tensor cores, 2 cannot be planned, 3 needs
 * too much memory, 4 is good. The first three are of mode A, the others of the fallback. */
int cudnnBackendGetAttribute(struct descriptor *d, int attribute, int type, int64_t wanted, int64_t *n, void *elements) {
	struct descriptor **list = elements;
	if (d->kind == HEURISTIC && attribute == 202 && type == T_DESC && d->final) {
		int a = enum_of(d, 200) == 3;
		*n = a ? 3 : 2;
		for (int64_t i = 0; i < wanted && i < *n; i++) {
			if (list[i]->kind != CONFIG)
				return fail(BAD_PARAM, "not for a configuration");
			list[i]->engine = (a ? 0 : 3) + i;
			list[i]->final = 1;
			share(list[i], d);
		}
	} else if (d->kind == CONFIG && attribute == 300 && type == T_DESC && wanted == 1) {
		*n = 1;
		if (list[0]->kind != ENGINE)
			return fail(BAD_PARAM, "not for an engine");
		list[0]->engine = d->engine;
		list[0]->final = 1;
	} else if (d->kind == ENGINE && attribute == 1303 && type == T_NOTE && d->final) {
		*n = d->engine < 2;
		if (wanted && *n)
			*(int *)elements = d->engine == 0 ? 4 : 0;
	} else if (d->kind == PLAN && attribute == 402 && type == T_INT64 && wanted == 1 && d->final) {
		*n = 1;
		*(int64_t *)elements = d->engine == 3 ? (int64_t)1 << 40 : 4096;
	} else {
		return fail(BAD_PARAM, "no such attribute, of that type, can be read now");
	}
	return SUCCESS;
}

static float half(uint16_t h) {
	uint32_t exponent = h >> 10 & 31, bits = (uint32_t)(h & 0x8000) << 16;
	float v, scale;
	if (exponent == 0 || exponent == 31) { /* small; infinities do not come here */
		v = (float)(h & 0x3ff) / 16777216;
		return h & 0x8000 ? -v : v;
	}
	bits |= (exponent + 112) << 23 | (uint32_t)(h & 0x3ff) << 13;
	memcpy(&scale, &bits, 4);
	return scale;
}

static float get(const void *p, int64_t at, int type) {
	if (type == 0)
		return ((const float *)p)[at];
	if (type == 2)
		return half(((const uint16_t *)p)[at]);
	uint32_t bits = (uint32_t)((const uint16_t *)p)[at] << 16;
	float v;
	memcpy(&v, &bits, 4);
	return v;
}

static void put(void *p, int64_t at, int type, float v) {
	uint32_t bits;
	if (type == 0) {
		((float *)p)[at] = v;
		return;
	}
	if (type == 2) { /* the nearest of all, the even one of two */
		float least = 0;
		uint16_t best = 0;
		for (uint32_t h = 0; h < 0x7c00; h++) {
			float off = half(h) - (v < 0 ? -v : v);
			off = off < 0 ? -off : off;
			if (h == 0 || off < least || (off == least && !(h & 1))) {
				least = off;
				best = h;
			}
		}
		((uint16_t *)p)[at] = best | (v < 0 ? 0x8000 : 0);
		return;
	}
	memcpy(&bits, &v, 4);
	((uint16_t *)p)[at] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static int64_t offset(const struct tensor *t, const int64_t *at) {
	int64_t o = 0;
	for (int64_t i = 0; i < t->n; i++)
		o += at[i] * t->strides[i];
	return o;
}

/* next goes to the next index, and says whether there is one. */
static int next(const struct tensor *t, int64_t *at) {
	for (int64_t i = t->n - 1; i >= 0; i--) {
		if (++at[i] < t->dims[i])
			return 1;
		at[i] = 0;
	}
	return 0;
}

static int64_t elements_of(const struct tensor *t) {
	int64_t n = 1;
	for (int64_t i = 0; i < t->n; i++)
		n *= t->dims[i];
	return n;
}

static void convolve(const struct plan *p, void *x, void *w, void *y) {
	const struct tensor *to = p->kind == FORWARD ? &p->y : p->kind == DATA ? &p->x : &p->w;
	float *sums = calloc(elements_of(to), sizeof *sums); /* at strided offsets: tensors are packed */
	int64_t aty[8] = {0}, groups = p->x.dims[1] / p->w.dims[1], made = p->w.dims[0] / groups;
	do {
		int64_t atw[8] = {0};
		do {
			if (atw[0] != aty[1])
				continue;
			int64_t atx[8] = {aty[0], aty[1] / made * p->w.dims[1] + atw[1]};
			int inside = 1;
			for (int64_t i = 0; i < p->spatial; i++) {
				atx[2 + i] = aty[2 + i] * p->stride[i] + atw[2 + i] * p->dilation[i] - p->pre[i];
				inside = inside && atx[2 + i] >= 0 && atx[2 + i] < p->x.dims[2 + i];
			}
			if (!inside)
				continue;
			int64_t ox = offset(&p->x, atx), ow = offset(&p->w, atw), oy = offset(&p->y, aty);
			if (p->kind == FORWARD)
				sums[oy] += get(x, ox, p->x.type) * get(w, ow, p->w.type);
			else if (p->kind == DATA)
				sums[ox] += get(y, oy, p->y.type) * get(w, ow, p->w.type);
			else
				sums[ow] += get(y, oy, p->y.type) * get(x, ox, p->x.type);
		} while (next(&p->w, atw));
	} while (next(&p->y, aty));
	for (int64_t i = 0; i < elements_of(to); i++)
		put(p->kind == FORWARD ? y : p->kind == DATA ? x : w, i, to->type, sums[i]);
	free(sums);
}

int cudnnBackendExecute(struct handle *h, struct descriptor *plan, struct descriptor *pack) {
	if (!in_context())
		return fail(NOT_INITIALIZED, "no context");
	if (h->kind != HANDLE || plan->kind != PLAN || !plan->final || pack->kind != PACK || !pack->final)
		return fail(BAD_PARAM, "not a plan and a pack");
	if (count_of(pack, 1000) != 3 || count_of(pack, 1001) != 3 || !*ints_of(pack, 1003) || *ints_of(pack, 1003) % 256)
		return fail(BAD_PARAM, "not three tensors and a workspace");
	const struct plan *p = plan->plan;
	void *at[3] = {0};
	const struct tensor *tensors[3] = {&p->x, &p->w, &p->y};
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			if (ints_of(pack, 1000)[j] == tensors[i]->id)
				at[i] = ((void **)ints_of(pack, 1001))[j];
	if (!at[0] || !at[1] || !at[2])
		return fail(BAD_PARAM, "a tensor is missing");
	if (cuStreamSynchronize(h->stream))
		return fail(EXECUTION_FAILED, "the stream failed");
	convolve(p, at[0], at[1], at[2]);
	return SUCCESS;
}
