/* A stand-in for cuDNN, for tests on machines without a GPU. It is compiled together
 * with the stand-in for the CUDA driver:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakecudnn.c fakecuda.c
 *
 * Of the graph interface it has what one convolution needs, and networks of pointwise
 * operations, reductions, products and views, which it computes one after the other.
 * Attributes must be of the type that the header says, descriptors are counted, and each
 * is final before another one takes it. A graph waits for its stream and is done when the
 * call returns.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **context);

enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_FINAL = 2004, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { POINTWISE, CONVOLUTION, ENGINE, CONFIG, HEURISTIC, PLAN, FORWARD = 10, FILTER, DATA, POINTWISE_OP, GRAPH = 15, PACK, TENSOR, MATMUL, MATMUL_OP, REDUCTION = 21, REDUCTION_OP, RESHAPE_OP = 31 };
enum { T_HANDLE = 0, T_DATA, T_BOOL, T_INT64, T_FLOAT, T_POINTER = 6, T_MODE, T_HEUR, T_NOTE = 11, T_PWMODE = 14, T_DESC, T_REDUCE = 18 };
enum { FLOAT = 0, HALF = 2, INT32 = 4, BF16 = 9, BOOLEAN = 11 };
enum { ADD = 0, MUL = 1, DIV = 6, SUB = 9, EXP = 13, LOG = 15, CMP_GE = 303, GEN_INDEX = 501, SELECT = 601 };

/* What can be set: the attribute, whose it is, its type, and whether it may be left out. */
static const struct { int attribute, kind, type, optional; } known[] = {
	{0, POINTWISE, T_PWMODE}, {1, POINTWISE, T_DATA}, {9, POINTWISE, T_INT64, 1},
	{750, POINTWISE_OP, T_DESC}, {751, POINTWISE_OP, T_DESC}, {752, POINTWISE_OP, T_DESC, 1}, {753, POINTWISE_OP, T_DESC},
	{754, POINTWISE_OP, T_FLOAT}, {755, POINTWISE_OP, T_FLOAT}, {758, POINTWISE_OP, T_DESC, 1},
	{1500, MATMUL, T_DATA}, {1520, MATMUL_OP, T_DESC}, {1521, MATMUL_OP, T_DESC}, {1522, MATMUL_OP, T_DESC}, {1523, MATMUL_OP, T_DESC},
	{1600, REDUCTION, T_REDUCE}, {1601, REDUCTION, T_DATA}, {1610, REDUCTION_OP, T_DESC}, {1611, REDUCTION_OP, T_DESC}, {1612, REDUCTION_OP, T_DESC},
	{2200, RESHAPE_OP, T_DESC}, {2201, RESHAPE_OP, T_DESC},
	{100, CONVOLUTION, T_DATA}, {101, CONVOLUTION, T_MODE}, {102, CONVOLUTION, T_INT64}, {103, CONVOLUTION, T_INT64},
	{104, CONVOLUTION, T_INT64}, {105, CONVOLUTION, T_INT64}, {106, CONVOLUTION, T_INT64},
	{200, HEURISTIC, T_HEUR}, {201, HEURISTIC, T_DESC}, {400, PLAN, T_HANDLE}, {401, PLAN, T_DESC},
	{700, FORWARD, T_FLOAT}, {701, FORWARD, T_FLOAT}, {702, FORWARD, T_DESC}, {703, FORWARD, T_DESC}, {704, FORWARD, T_DESC}, {705, FORWARD, T_DESC},
	{706, DATA, T_FLOAT}, {707, DATA, T_FLOAT}, {708, DATA, T_DESC}, {709, DATA, T_DESC}, {710, DATA, T_DESC}, {711, DATA, T_DESC},
	{712, FILTER, T_FLOAT}, {713, FILTER, T_FLOAT}, {714, FILTER, T_DESC}, {715, FILTER, T_DESC}, {716, FILTER, T_DESC}, {717, FILTER, T_DESC},
	{800, GRAPH, T_HANDLE}, {801, GRAPH, T_DESC},
	{900, TENSOR, T_INT64}, {901, TENSOR, T_DATA}, {902, TENSOR, T_INT64}, {903, TENSOR, T_INT64}, {906, TENSOR, T_INT64},
	{907, TENSOR, T_BOOL, 1}, {908, TENSOR, T_BOOL, 1},
	{1000, PACK, T_INT64}, {1001, PACK, T_POINTER}, {1003, PACK, T_POINTER},
};
enum { KNOWN = sizeof known / sizeof *known, MOST = 40 };

struct descriptor {
	int kind, live, final;
	int64_t counts[KNOWN];
	int64_t values[KNOWN][MOST]; /* 1, 4 or 8 bytes of each are used */
	int engine;               /* of an engine, a configuration, and a plan */
	struct plan *plan;        /* of a graph, and what is made of it */
};

struct tensor { int type; int64_t n, dims[8], strides[8], id; int virtual_, by_value; };

struct operation { /* of a network, by the numbers of its tensors; -1 is none */
	int kind, mode, x, b, t, y;
	int64_t axis;
};

struct plan { /* what a graph says */
	int users, kind; /* GRAPH: it is a network */
	int tensor_count, operation_count;
	struct tensor tensors[4 * MOST];
	struct operation operations[MOST];
	int64_t workspace;
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
	(*d)->live = 1;
	objects++;
	return SUCCESS;
}

int cudnnBackendDestroyDescriptor(struct descriptor *d) {
	if (!d || !d->live)
		return fail(BAD_PARAM, "not a descriptor");
	if (d->plan && --d->plan->users == 0)
		free(d->plan);
	d->live = 0;
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

static int width(int type) {
	if (type == T_BOOL)
		return 1;
	return type == T_DATA || type == T_FLOAT || type == T_MODE || type == T_HEUR || type == T_NOTE || type == T_PWMODE || type == T_REDUCE ? 4 : 8;
}

int cudnnBackendSetAttribute(struct descriptor *d, int attribute, int type, int64_t n, const void *elements) {
	int i = find(d, attribute);
	if (i < 0 || known[i].type != type || n < 1 || n > MOST || d->final)
		return fail(BAD_PARAM, "no such attribute, of that type, can be set now");
	for (int64_t j = 0; type == T_DESC && j < n; j++)
		if (!((struct descriptor **)elements)[j]->final)
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
	t->virtual_ = *(char *)ints_of(d, 907);
	t->by_value = *(char *)ints_of(d, 908);
}

/* number is that of a tensor in a network, which has one for each unique number. */
static int number(struct plan *p, struct descriptor *op, int attribute) {
	if (!count_of(op, attribute))
		return -1;
	struct tensor t = {0};
	read_tensor(&t, desc_of(op, attribute));
	for (int i = 0; i < p->tensor_count; i++)
		if (p->tensors[i].id == t.id)
			return memcmp(&p->tensors[i], &t, sizeof t) ? -2 : i;
	p->tensors[p->tensor_count] = t;
	return p->tensor_count++;
}

/* like says whether two tensors have the same dimensions, or the second has 1. */
static int like(const struct tensor *x, const struct tensor *y) {
	for (int64_t i = 0; i < x->n; i++)
		if (x->n != y->n || (x->dims[i] != y->dims[i] && y->dims[i] != 1))
			return 0;
	return 1;
}

/* read_network takes what a graph of many operations says, and looks whether it can be. */
static int read_network(struct descriptor *g) {
	struct plan *p = calloc(1, sizeof *p);
	g->plan = p;
	p->users = 1;
	p->kind = GRAPH;
	for (int64_t i = 0; i < count_of(g, 801); i++) {
		struct descriptor *op;
		memcpy(&op, &ints_of(g, 801)[i], sizeof op);
		struct operation *o = &p->operations[p->operation_count++];
		o->kind = op->kind;
		o->b = o->t = -1;
		if (op->kind == POINTWISE_OP) {
			struct descriptor *d = desc_of(op, 750);
			o->mode = enum_of(d, 0);
			o->axis = *ints_of(d, 9);
			o->x = number(p, op, 751), o->b = number(p, op, 752), o->t = number(p, op, 758), o->y = number(p, op, 753);
			if (float_of(op, 754) != 1 || float_of(op, 755) != 1)
				return fail(BAD_PARAM, "alphas are not 1");
			if (enum_of(d, 1) != (o->mode == CMP_GE ? BOOLEAN : FLOAT))
				return fail(NOT_SUPPORTED, "another precision");
			if ((o->mode == GEN_INDEX) != (count_of(d, 9) > 0))
				return fail(BAD_PARAM, "an axis, or none");
			int takes = o->mode == EXP || o->mode == LOG || o->mode == GEN_INDEX ? 1 : o->mode == SELECT ? 3 : 2;
			if ((o->b >= 0) != (takes > 1) || (o->t >= 0) != (takes > 2))
				return fail(BAD_PARAM, "too few or too many operands");
		} else if (op->kind == MATMUL_OP) {
			if (enum_of(desc_of(op, 1523), 1500) != FLOAT)
				return fail(NOT_SUPPORTED, "not added up in float");
			o->x = number(p, op, 1520), o->b = number(p, op, 1521), o->y = number(p, op, 1522);
		} else if (op->kind == REDUCTION_OP) {
			struct descriptor *d = desc_of(op, 1612);
			o->mode = enum_of(d, 1600);
			if (enum_of(d, 1601) != FLOAT)
				return fail(NOT_SUPPORTED, "not reduced in float");
			o->x = number(p, op, 1610), o->y = number(p, op, 1611);
		} else if (op->kind == RESHAPE_OP) {
			o->x = number(p, op, 2200), o->y = number(p, op, 2201);
		} else {
			return fail(BAD_PARAM, "not an operation of networks");
		}
		if (o->x < 0 || o->y < 0 || o->b == -2 || o->t == -2)
			return fail(BAD_PARAM, "two tensors have one number");
		const struct tensor *x = &p->tensors[o->x], *y = &p->tensors[o->y], *b = o->b < 0 ? x : &p->tensors[o->b], *t = o->t < 0 ? x : &p->tensors[o->t];
		if (x->n != 4 || y->n != 4 || b->n != 4 || t->n != 4)
			return fail(NOT_SUPPORTED, "other than four axes");
		if (op->kind == POINTWISE_OP && (!like(y, x) || !like(y, b) || !like(y, t)))
			return fail(BAD_PARAM, "operands of other dimensions");
		if (op->kind == REDUCTION_OP && x->dims[1] % y->dims[1])
			return fail(BAD_PARAM, "a reduction to other dimensions");
		if (op->kind == MATMUL_OP) {
			if (x->type != b->type || x->dims[3] != b->dims[2] || y->dims[2] != x->dims[2] || y->dims[3] != b->dims[3] || x->dims[1] % b->dims[1] || y->dims[1] != x->dims[1])
				return fail(BAD_PARAM, "matrices that do not fit");
		}
	}
	p->workspace = 4096;
	for (int i = 0; i < p->operation_count; i++) /* gradients of scores are stored */
		if (p->operations[i].kind == RESHAPE_OP && p->tensors[p->operations[i].x].virtual_) {
			const int64_t *dims = p->tensors[p->operations[i].y].dims;
			p->workspace = 2 * dims[0] * dims[1] * ((dims[2] + 63) / 64 * 64) * ((dims[3] + 63) / 64 * 64);
		}
	return SUCCESS;
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
		if (known[i].kind == d->kind && !d->counts[i] && !known[i].optional)
			return fail(BAD_PARAM, "an attribute is missing");
	if (d->kind == GRAPH) {
		int kind = desc_of(d, 801)->kind;
		int status = kind == FORWARD || kind == DATA || kind == FILTER ? read_graph(d) : read_network(d);
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
		*(int64_t *)elements = d->engine == 3 ? (int64_t)1 << 40 : d->plan->kind == GRAPH ? d->plan->workspace : 4096;
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
		float off = v < 0 ? -v : v;
		uint32_t low = 0, high = 0x7bff;
		while (low < high) { /* the least that is not below */
			uint32_t middle = (low + high) / 2;
			if (half(middle) < off)
				low = middle + 1;
			else
				high = middle;
		}
		if (low && (off - half(low - 1) < half(low) - off || (off - half(low - 1) == half(low) - off && low % 2)))
			low--;
		((uint16_t *)p)[at] = low | (v < 0 ? 0x8000 : 0);
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

static float rounded(float v, int type) {
	if (type == HALF || type == BF16) {
		uint16_t bits;
		put(&bits, 0, type, v);
		return get(&bits, 0, type);
	}
	return v;
}

/* A network's tensors while it runs: the elements one after the other. */
struct run { const struct plan *p; float *data[4 * MOST]; };

static float at(const struct run *r, int tensor, const int64_t *index) {
	const struct tensor *t = &r->p->tensors[tensor];
	int64_t o = 0;
	for (int64_t i = 0; i < t->n; i++) /* an axis of 1 is for all; of heads, neighbours share one */
		o = o * t->dims[i] + (t->dims[i] == 1 ? 0 : index[i]);
	return r->data[tensor][o];
}

static void compute(struct run *r, const struct operation *o) {
	const struct tensor *x = &r->p->tensors[o->x], *y = &r->p->tensors[o->y];
	float *to = r->data[o->y];
	int64_t index[8] = {0}, n = 0;
	float *flat = NULL;
	if (o->kind == RESHAPE_OP) { /* the same memory by other strides */
		flat = calloc(elements_of(x), sizeof *flat);
		do
			flat[offset(x, index)] = r->data[o->x][n++];
		while (next(x, index));
		n = 0;
		memset(index, 0, sizeof index);
	}
	if (o->kind == REDUCTION_OP) {
		for (int64_t i = 0; i < elements_of(y); i++)
			to[i] = o->mode == 3 ? -INFINITY : 0;
		do {
			int64_t e = 0;
			for (int64_t i = 0; i < y->n; i++) /* neighbours become one */
				e = e * y->dims[i] + index[i] / (x->dims[i] / y->dims[i]);
			float v = r->data[o->x][n++];
			to[e] = o->mode == 3 ? fmaxf(to[e], v) : to[e] + v;
		} while (next(x, index));
		return;
	}
	do {
		float v = 0;
		if (o->kind == MATMUL_OP) {
			const struct tensor *b = &r->p->tensors[o->b];
			int64_t left[8], right[8];
			memcpy(left, index, sizeof left);
			memcpy(right, index, sizeof right);
			right[1] = index[1] / (x->dims[1] / b->dims[1]);
			for (int64_t k = 0; k < x->dims[3]; k++) {
				left[3] = right[2] = k;
				v += at(r, o->x, left) * at(r, o->b, right);
			}
		} else if (o->kind == RESHAPE_OP) {
			v = flat[offset(y, index)];
		} else {
			float a = at(r, o->x, index), b = o->b < 0 ? 0 : at(r, o->b, index);
			switch (o->mode) {
			case ADD: v = a + b; break;
			case MUL: v = a * b; break;
			case DIV: v = a / b; break;
			case SUB: v = a - b; break;
			case EXP: v = expf(a); break;
			case LOG: v = logf(a); break;
			case CMP_GE: v = a >= b; break;
			case GEN_INDEX: v = index[o->axis]; break;
			case SELECT: v = at(r, o->t, index) ? a : b; break;
			}
		}
		to[n++] = rounded(v, y->type);
	} while (next(y, index));
	free(flat);
}

/* network computes one. pointers are those of the tensors in memory. */
static void network(const struct plan *p, void **pointers) {
	struct run r = {p, {0}};
	for (int i = 0; i < p->tensor_count; i++) {
		const struct tensor *t = &p->tensors[i];
		int64_t index[8] = {0}, n = 0;
		r.data[i] = calloc(elements_of(t), sizeof(float));
		if (pointers[i])
			do
				r.data[i][n++] = get(pointers[i], offset(t, index), t->type);
			while (next(t, index));
	}
	for (int i = 0; i < p->operation_count; i++)
		compute(&r, &p->operations[i]);
	for (int i = 0; i < p->tensor_count; i++) {
		const struct tensor *t = &p->tensors[i];
		int64_t index[8] = {0}, n = 0;
		int written = 0;
		for (int j = 0; j < p->operation_count; j++)
			written = written || p->operations[j].y == i;
		if (written && pointers[i])
			do
				put(pointers[i], offset(t, index), t->type, r.data[i][n++]);
			while (next(t, index));
		free(r.data[i]);
	}
}

/* run_network finds the tensors that a pack has to have, and no others. */
static int run_network(const struct plan *p, struct descriptor *pack) {
	void *pointers[4 * MOST] = {0};
	int64_t there = count_of(pack, 1000), needed = 0;
	for (int i = 0; i < p->tensor_count; i++) {
		if (p->tensors[i].virtual_)
			continue;
		needed++;
		for (int64_t j = 0; j < there; j++)
			if (ints_of(pack, 1000)[j] == p->tensors[i].id)
				pointers[i] = ((void **)ints_of(pack, 1001))[j];
		if (!pointers[i])
			return fail(BAD_PARAM, "a tensor is missing");
		if (!p->tensors[i].by_value && (intptr_t)pointers[i] % 16)
			return fail(BAD_PARAM, "a tensor is not aligned");
	}
	if (there != needed || count_of(pack, 1001) != there)
		return fail(BAD_PARAM, "tensors that the graph has not");
	network(p, pointers);
	return SUCCESS;
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
	const struct plan *p = plan->plan;
	if (!*ints_of(pack, 1003) || *ints_of(pack, 1003) % 256)
		return fail(BAD_PARAM, "not a workspace");
	if (p->kind == GRAPH)
		return cuStreamSynchronize(h->stream) ? fail(EXECUTION_FAILED, "the stream failed") : run_network(p, pack);
	if (count_of(pack, 1000) != 3 || count_of(pack, 1001) != 3)
		return fail(BAD_PARAM, "not three tensors");
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
