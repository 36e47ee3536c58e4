/* A stand-in for cuSPARSELt, for tests on machines without a GPU. It is compiled
 * together with the stand-in for the CUDA driver:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakecusparselt.c fakecuda.c -lm
 *
 * Matrices lie by columns. Work waits for its stream and is done when the call
 * returns. Objects are the caller's, know their kind and where they are, and are
 * counted. A compressed matrix is its own format: for every column of the dense one
 * transposed, that is, for every row of op(A), K/2 elements, and then K/2 bytes that
 * say which of four each was.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **context);

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 3, EXECUTION_FAILED = 6, NOT_SUPPORTED = 10 };
enum { F16 = 2, BF16 = 14, COMPUTE_F32 = 2, COLUMNS = 1 };
enum { HANDLE = 0x5001, MATRIX, MATMUL, SELECTION, PLAN };

/* Each starts with its kind and its own address: moved, it is none. */
struct object { uint32_t kind; void *self; };
struct matrix { struct object o; int64_t rows, columns, stride; int type, sparse; };
struct matmul { struct object o; int trans[2]; struct matrix *a, *b, *c; };
struct selection { struct object o; struct matmul *matmul; };
struct plan { struct object o; struct matmul *matmul; struct selection *selection; size_t workspace; };

static long objects, searched;

/* fakecusparseltCount is how many objects live, and fakecusparseltSearched how often
 * algorithms were measured. */
long fakecusparseltCount(void) { return objects; }
long fakecusparseltSearched(void) { return searched; }

static int has_context(void) {
	void *context = NULL;
	return !cuCtxGetCurrent(&context) && context;
}

static int is(const void *p, uint32_t kind) {
	const struct object *o = p;
	return o && o->kind == kind && o->self == p;
}

static int make(void *p, size_t n, uint32_t kind) {
	if (!p || (uintptr_t)p % 16)
		return INVALID_VALUE;
	if (!has_context())
		return NOT_INITIALIZED;
	memset(p, 0, n);
	((struct object *)p)->kind = kind;
	((struct object *)p)->self = p;
	objects++;
	return SUCCESS;
}

static int destroy(void *p, uint32_t kind) {
	if (!is(p, kind))
		return INVALID_VALUE;
	((struct object *)p)->kind = 0;
	objects--;
	return SUCCESS;
}

int cusparseLtGetProperty(int property, int *value) {
	static const int version[3] = {0, 8, 1};
	if (property < 0 || property > 2)
		return INVALID_VALUE;
	*value = version[property];
	return SUCCESS;
}

int cusparseLtInit(void *handle) { return make(handle, 512, HANDLE); }
int cusparseLtDestroy(void *handle) { return destroy(handle, HANDLE); }

static int describe(void *handle, struct matrix *m, int64_t rows, int64_t columns, int64_t stride, uint32_t align, int type, int order, int sparse) {
	int64_t multiple = sparse ? 16 : 8;
	if (!is(handle, HANDLE) || rows < 1 || columns < 1 || stride < rows || order != COLUMNS)
		return INVALID_VALUE;
	if (rows % multiple || columns % multiple || stride % multiple || !align || align % 16 || (type != F16 && type != BF16))
		return NOT_SUPPORTED;
	int status = make(m, 512, MATRIX);
	if (status)
		return status;
	m->rows = rows, m->columns = columns, m->stride = stride, m->type = type, m->sparse = sparse;
	return SUCCESS;
}

int cusparseLtDenseDescriptorInit(void *handle, struct matrix *m, int64_t rows, int64_t columns, int64_t stride, uint32_t align, int type, int order) {
	return describe(handle, m, rows, columns, stride, align, type, order, 0);
}

int cusparseLtStructuredDescriptorInit(void *handle, struct matrix *m, int64_t rows, int64_t columns, int64_t stride, uint32_t align, int type, int order, int sparsity) {
	return sparsity ? INVALID_VALUE : describe(handle, m, rows, columns, stride, align, type, order, 1);
}

int cusparseLtMatDescriptorDestroy(void *m) { return destroy(m, MATRIX); }

int cusparseLtMatmulDescriptorInit(void *handle, struct matmul *d, int trans_a, int trans_b, struct matrix *a, struct matrix *b, struct matrix *c, struct matrix *out, int compute) {
	if (!is(handle, HANDLE) || !is(a, MATRIX) || !is(b, MATRIX) || !is(c, MATRIX) || c != out || !a->sparse || b->sparse || c->sparse)
		return INVALID_VALUE;
	int64_t m = trans_a ? a->columns : a->rows, k = trans_a ? a->rows : a->columns;
	int64_t k2 = trans_b ? b->columns : b->rows, n = trans_b ? b->rows : b->columns;
	if (m != c->rows || n != c->columns || k != k2)
		return INVALID_VALUE;
	if (a->type != b->type || a->type != c->type || compute != COMPUTE_F32)
		return NOT_SUPPORTED;
	int status = make(d, 512, MATMUL);
	objects -= !status; /* it has no function that destroys it */
	if (status)
		return status;
	d->trans[0] = trans_a, d->trans[1] = trans_b, d->a = a, d->b = b, d->c = c;
	return SUCCESS;
}

int cusparseLtMatmulAlgSelectionInit(void *handle, struct selection *s, struct matmul *d, int algorithm) {
	if (!is(handle, HANDLE) || !is(d, MATMUL) || algorithm)
		return INVALID_VALUE;
	int status = make(s, 512, SELECTION);
	if (!status)
		s->matmul = d;
	return status;
}

int cusparseLtMatmulAlgSelectionDestroy(void *s) { return destroy(s, SELECTION); }

int cusparseLtMatmulPlanInit(void *handle, struct plan *p, struct matmul *d, struct selection *s) {
	if (!is(handle, HANDLE) || !is(d, MATMUL) || !is(s, SELECTION) || s->matmul != d)
		return INVALID_VALUE;
	int status = make(p, 512, PLAN);
	if (!status)
		p->matmul = d, p->selection = s, p->workspace = 256;
	return status;
}

int cusparseLtMatmulPlanDestroy(void *p) { return destroy(p, PLAN); }

int cusparseLtMatmulGetWorkspace(void *handle, struct plan *p, size_t *bytes) {
	if (!is(handle, HANDLE) || !is(p, PLAN))
		return INVALID_VALUE;
	*bytes = p->workspace;
	return SUCCESS;
}

int cusparseLtSpMMACompressedSize2(void *handle, struct matrix *m, size_t *bytes, size_t *buffer) {
	if (!is(handle, HANDLE) || !is(m, MATRIX) || !m->sparse)
		return INVALID_VALUE;
	*bytes = m->rows * m->columns / 2 * 3;
	*buffer = 96;
	return SUCCESS;
}

/* element is where op(a) has row i and column l. */
static int64_t element(const struct matrix *a, int trans, int64_t i, int64_t l) {
	return trans ? l + i * a->stride : i + l * a->stride;
}

static void sizes(const struct matrix *a, int trans, int64_t *m, int64_t *k) {
	*m = trans ? a->columns : a->rows, *k = trans ? a->rows : a->columns;
}

static int begins(void *handle, const struct matrix *a, int is_a, int trans, const void *p, const void *q, void *stream) {
	if (!is(handle, HANDLE) || !is(a, MATRIX) || !a->sparse || !is_a || trans < 0 || trans > 1 || !p || !q || ((uintptr_t)p | (uintptr_t)q) % 16)
		return INVALID_VALUE;
	if (!has_context())
		return NOT_INITIALIZED;
	return cuStreamSynchronize(stream) ? EXECUTION_FAILED : SUCCESS;
}

int cusparseLtSpMMACompress2(void *handle, struct matrix *a, int is_a, int trans, const uint16_t *dense, uint16_t *compressed, void *buffer, void *stream) {
	int status = begins(handle, a, is_a, trans, dense, compressed, stream);
	if (status || !buffer)
		return status ? status : INVALID_VALUE;
	memset(buffer, 0xee, 96);
	int64_t m, k;
	sizes(a, trans, &m, &k);
	uint8_t *which = (uint8_t *)(compressed + m * k / 2);
	for (int64_t i = 0; i < m; i++)
		for (int64_t l = 0; l < k; l += 4) {
			int64_t at = (i * k + l) / 2;
			int kept = 0;
			for (int j = 0; j < 4 && kept < 2; j++) {
				uint16_t v = dense[element(a, trans, i, l + j)];
				if (v & 0x7fff || j - kept == 2) /* the last ones fill up */
					compressed[at + kept] = v, which[at + kept] = j, kept++;
			}
		}
	return SUCCESS;
}

int cusparseLtSpMMAPruneCheck2(void *handle, struct matrix *a, int is_a, int trans, const uint16_t *dense, int *found, void *stream) {
	int status = begins(handle, a, is_a, trans, dense, found, stream);
	if (status)
		return status;
	int64_t m, k;
	sizes(a, trans, &m, &k);
	*found = 0;
	for (int64_t i = 0; i < m; i++)
		for (int64_t l = 0; l < k; l += 4) {
			int left = 0;
			for (int j = 0; j < 4; j++)
				left += (dense[element(a, trans, i, l + j)] & 0x7fff) != 0;
			*found |= left > 2;
		}
	return SUCCESS;
}

static float get(uint16_t v, int type) {
	if (type == BF16) {
		uint32_t bits = (uint32_t)v << 16;
		float f;
		memcpy(&f, &bits, 4);
		return f;
	}
	int exponent = v >> 10 & 31;
	float f = exponent == 31 ? (v & 1023 ? NAN : INFINITY) : exponent ? ldexpf(1024 + (v & 1023), exponent - 25) : ldexpf(v & 1023, -24);
	return v >> 15 ? -f : f;
}

/* put is the nearest number, ties to even. */
static uint16_t put(float f, int type) {
	if (type == BF16) {
		uint32_t bits;
		memcpy(&bits, &f, 4);
		return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	}
	uint16_t sign = signbit(f) ? 0x8000 : 0;
	int exponent;
	f = fabsf(f);
	if (f >= 65520)
		return sign | 0x7c00;
	frexpf(f, &exponent); /* f is below 2^exponent */
	if (exponent < -13 || f == 0)
		exponent = -13;
	return sign | (((uint32_t)(exponent + 13) << 10) + (uint32_t)(ldexpf(f, 11 - exponent) + 0x1p23f - 0x1p23f));
}

int cusparseLtMatmul(void *handle, struct plan *p, const float *alpha, const uint16_t *compressed, const uint16_t *b, const float *beta,
	const uint16_t *c, uint16_t *out, void *workspace, void **streams, int n_streams) {
	if (!is(handle, HANDLE) || !is(p, PLAN) || !is(p->matmul, MATMUL) || !is(p->matmul->a, MATRIX) || !alpha || *beta != 0 || c != out || !b || n_streams != 1)
		return INVALID_VALUE;
	if (p->workspace && !workspace)
		return INVALID_VALUE;
	struct matmul *d = p->matmul;
	int status = begins(handle, d->a, 1, d->trans[0], compressed, out, *streams);
	if (status)
		return status;
	int64_t m, k;
	sizes(d->a, d->trans[0], &m, &k);
	const uint8_t *which = (const uint8_t *)(compressed + m * k / 2);
	for (int64_t j = 0; j < d->c->columns; j++)
		for (int64_t i = 0; i < m; i++) {
			float sum = 0;
			for (int64_t l = 0; l < k / 2; l++) {
				int64_t row = l / 2 * 4 + which[i * k / 2 + l];
				int64_t at = d->trans[1] ? j + row * d->b->stride : row + j * d->b->stride;
				sum += get(compressed[i * k / 2 + l], d->a->type) * get(b[at], d->b->type);
			}
			out[i + j * d->c->stride] = put(*alpha * sum, d->c->type);
		}
	return SUCCESS;
}

int cusparseLtMatmulSearch(void *handle, struct plan *p, const float *alpha, const uint16_t *compressed, const uint16_t *b, const float *beta,
	const uint16_t *c, uint16_t *out, void *workspace, void **streams, int n_streams) {
	if (workspace)
		return INVALID_VALUE;
	int status = cusparseLtMatmul(handle, p, alpha, compressed, b, beta, c, out, &status, streams, n_streams);
	if (!status)
		p->workspace = 768, searched++;
	return status;
}
