/* A stand-in for cuBLASLt, for tests on machines without a GPU. It is compiled
 * together with the stand-in for the CUDA driver:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakecublaslt.c fakecuda.c
 *
 * Matrices lie by columns. A product waits for its stream and is done when the
 * call returns. Descriptors know their kind, so that one in another's place is
 * found out, and are counted.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **context);

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { F32 = 0, BF16 = 14, COMPUTE_F32 = 68, COMPUTE_TF32 = 77 };

struct handle { int kind; };
struct description { int kind, compute, scale, trans[2]; };
struct layout { int kind, type; uint64_t rows, columns; int64_t stride; };
struct preference { int kind; uint64_t workspace; uint32_t align[9]; };
enum { HANDLE = 0x1001, DESCRIPTION, LAYOUT, PREFERENCE };

struct algorithm { uint64_t data[8]; };
struct result { struct algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };

static long objects, asked;
static int version = 130002;

/* fakecublasltCount is how many objects live; fakecublasltAsked how often an
 * algorithm was asked for. */
long fakecublasltCount(void) { return objects; }
long fakecublasltAsked(void) { return asked; }

static int made(void *to, void *object, int kind) {
	void *context = NULL;
	if (cuCtxGetCurrent(&context) || !context) {
		free(object);
		return NOT_INITIALIZED;
	}
	*(int *)object = kind;
	*(void **)to = object;
	__atomic_add_fetch(&objects, 1, __ATOMIC_SEQ_CST);
	return SUCCESS;
}

static int gone(int *object, int kind) {
	if (!object || *object != kind)
		return INVALID_VALUE;
	*object = 0;
	free(object);
	__atomic_sub_fetch(&objects, 1, __ATOMIC_SEQ_CST);
	return SUCCESS;
}

size_t cublasLtGetVersion(void) { return version; }
int cublasLtCreate(struct handle **h) { return made(h, calloc(1, sizeof **h), HANDLE); }
int cublasLtDestroy(struct handle *h) { return gone(&h->kind, HANDLE); }

int cublasLtMatmulDescCreate(struct description **d, int compute, int scale) {
	*d = NULL;
	if ((compute != COMPUTE_F32 && compute != COMPUTE_TF32) || scale != F32)
		return INVALID_VALUE;
	struct description *made_one = calloc(1, sizeof *made_one);
	made_one->compute = compute;
	return made(d, made_one, DESCRIPTION);
}

int cublasLtMatmulDescDestroy(struct description *d) { return gone(&d->kind, DESCRIPTION); }

int cublasLtMatmulDescSetAttribute(struct description *d, int attribute, const void *value, size_t n) {
	if (d->kind != DESCRIPTION || (attribute != 3 && attribute != 4) || n != 4)
		return INVALID_VALUE;
	memcpy(&d->trans[attribute - 3], value, 4);
	return SUCCESS;
}

int cublasLtMatrixLayoutCreate(struct layout **l, int type, uint64_t rows, uint64_t columns, int64_t stride) {
	*l = NULL;
	if ((type != F32 && type != BF16) || !rows || !columns || stride < (int64_t)rows)
		return INVALID_VALUE;
	struct layout *made_one = calloc(1, sizeof *made_one);
	*made_one = (struct layout){0, type, rows, columns, stride};
	return made(l, made_one, LAYOUT);
}

int cublasLtMatrixLayoutDestroy(struct layout *l) { return gone(&l->kind, LAYOUT); }

int cublasLtMatmulPreferenceCreate(struct preference **p) {
	return made(p, calloc(1, sizeof **p), PREFERENCE);
}

int cublasLtMatmulPreferenceDestroy(struct preference *p) { return gone(&p->kind, PREFERENCE); }

int cublasLtMatmulPreferenceSetAttribute(struct preference *p, int attribute, const void *value, size_t n) {
	if (p->kind != PREFERENCE)
		return INVALID_VALUE;
	if (attribute == 1 && n == 8)
		memcpy(&p->workspace, value, 8);
	else if (attribute == 3 && n == 4 && *(const uint32_t *)value == 2)
		return SUCCESS;
	else if (attribute >= 5 && attribute <= 8 && n == 4)
		memcpy(&p->align[attribute], value, 4);
	else
		return INVALID_VALUE;
	return SUCCESS;
}

/* fits reports whether the layouts go together. */
static int fits(struct description *d, struct layout *a, struct layout *b, struct layout *c, struct layout *out) {
	if (d->kind != DESCRIPTION || a->kind != LAYOUT || b->kind != LAYOUT || c->kind != LAYOUT || c != out)
		return 0;
	uint64_t m = d->trans[0] ? a->columns : a->rows, k = d->trans[0] ? a->rows : a->columns;
	uint64_t k2 = d->trans[1] ? b->columns : b->rows, n = d->trans[1] ? b->rows : b->columns;
	return m == c->rows && n == c->columns && k == k2 && a->type == b->type;
}

int cublasLtMatmulAlgoGetHeuristic(struct handle *h, struct description *d, struct layout *a, struct layout *b,
	struct layout *c, struct layout *out, struct preference *p, int wanted, struct result *results, int *found) {
	if (h->kind != HANDLE || p->kind != PREFERENCE || wanted != 1 || !fits(d, a, b, c, out))
		return INVALID_VALUE;
	asked++;
	memset(results, 0, sizeof *results);
	/* What the product needs to be run with. */
	results->algorithm.data[0] = 0xa190;
	results->algorithm.data[1] = p->workspace;
	for (int i = 5; i <= 8; i++)
		results->algorithm.data[2] |= (uint64_t)p->align[i] << 16 * (i - 5);
	*found = 1;
	return SUCCESS;
}

static float get(const void *p, uint64_t at, int type) {
	if (type == F32)
		return ((const float *)p)[at];
	uint32_t bits = (uint32_t)((const uint16_t *)p)[at] << 16;
	float v;
	memcpy(&v, &bits, 4);
	return v;
}

static void put(void *p, uint64_t at, int type, float v) {
	uint32_t bits;
	if (type == F32) {
		((float *)p)[at] = v;
		return;
	}
	memcpy(&bits, &v, 4);
	((uint16_t *)p)[at] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

int cublasLtMatmul(struct handle *h, struct description *d, const float *alpha, const void *a, struct layout *la,
	const void *b, struct layout *lb, const float *beta, const void *c, struct layout *lc, void *out, struct layout *lout,
	const struct algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
	void *context = NULL;
	if (cuCtxGetCurrent(&context) || !context)
		return NOT_INITIALIZED;
	if (h->kind != HANDLE || !fits(d, la, lb, lc, lout) || c != out || algorithm->data[0] != 0xa190 ||
		workspace_bytes < algorithm->data[1] || (workspace_bytes && !workspace))
		return INVALID_VALUE;
	const void *at[4] = {a, b, c, out};
	for (int i = 0; i < 4; i++)
		if ((uintptr_t)at[i] % (algorithm->data[2] >> 16 * i & 0xffff))
			return NOT_SUPPORTED;
	if (cuStreamSynchronize(stream))
		return EXECUTION_FAILED;
	uint64_t k = d->trans[0] ? la->rows : la->columns;
	for (uint64_t j = 0; j < lc->columns; j++)
		for (uint64_t i = 0; i < lc->rows; i++) {
			float sum = 0;
			for (uint64_t l = 0; l < k; l++)
				sum += get(a, d->trans[0] ? l + i * la->stride : i + l * la->stride, la->type) *
					get(b, d->trans[1] ? j + l * lb->stride : l + j * lb->stride, lb->type);
			uint64_t here = i + j * lc->stride;
			put(out, here, lc->type, *beta == 0 ? *alpha * sum : *alpha * sum + *beta * get(c, here, lc->type));
		}
	return SUCCESS;
}
