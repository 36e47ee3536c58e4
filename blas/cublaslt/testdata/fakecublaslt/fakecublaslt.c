/* A stand-in for cuBLASLt, for tests on machines without a GPU. It is compiled
 * together with the stand-in for the CUDA driver:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakecublaslt.c fakecuda.c -lm
 *
 * Matrices lie by columns. A product waits for its stream and is done when the
 * call returns. Descriptors know their kind, so that one in another's place is
 * found out, and are counted.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **context);

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { NO_EPILOGUE = 1, RELU = 2, BIAS = 4, GELU = 32 };
enum { F32 = 0, F16 = 2, BF16 = 14, COMPUTE_F32 = 68, COMPUTE_TF32 = 77 };

struct handle { int kind; };
struct description { int kind, compute, scale, trans[2]; uint32_t epilogue; const void *bias; };
struct layout { int kind, type; uint64_t rows, columns; int64_t stride; int32_t batch; int64_t batch_stride; };
struct preference { int kind; uint64_t workspace; uint32_t align[9]; };
enum { HANDLE = 0x1001, DESCRIPTION, LAYOUT, PREFERENCE };

struct algorithm { uint64_t data[8]; };
struct result { struct algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };

static long objects, asked, launched;
static int version = 130002;

/* fakecublasltCount is how many objects live; fakecublasltAsked how often an
 * algorithm was asked for, and fakecublasltLaunched how often one was launched. */
long fakecublasltCount(void) { return objects; }
long fakecublasltAsked(void) { return asked; }
long fakecublasltLaunched(void) { return launched; }

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
	made_one->epilogue = NO_EPILOGUE;
	return made(d, made_one, DESCRIPTION);
}

int cublasLtMatmulDescDestroy(struct description *d) { return gone(&d->kind, DESCRIPTION); }

int cublasLtMatmulDescSetAttribute(struct description *d, int attribute, const void *value, size_t n) {
	if (d->kind != DESCRIPTION)
		return INVALID_VALUE;
	if ((attribute == 3 || attribute == 4) && n == 4)
		memcpy(&d->trans[attribute - 3], value, 4);
	else if (attribute == 7 && n == 4)
		memcpy(&d->epilogue, value, 4);
	else if (attribute == 8 && n == sizeof d->bias)
		memcpy(&d->bias, value, n);
	else
		return INVALID_VALUE;
	return SUCCESS;
}

int cublasLtMatrixLayoutCreate(struct layout **l, int type, uint64_t rows, uint64_t columns, int64_t stride) {
	*l = NULL;
	if ((type != F32 && type != F16 && type != BF16) || !rows || !columns || stride < (int64_t)rows)
		return INVALID_VALUE;
	struct layout *made_one = calloc(1, sizeof *made_one);
	*made_one = (struct layout){0, type, rows, columns, stride, 1, 0};
	return made(l, made_one, LAYOUT);
}

int cublasLtMatrixLayoutDestroy(struct layout *l) { return gone(&l->kind, LAYOUT); }

int cublasLtMatrixLayoutSetAttribute(struct layout *l, int attribute, const void *value, size_t n) {
	if (l->kind != LAYOUT)
		return INVALID_VALUE;
	if (attribute == 5 && n == 4)
		memcpy(&l->batch, value, 4);
	else if (attribute == 6 && n == 8)
		memcpy(&l->batch_stride, value, 8);
	else
		return INVALID_VALUE;
	return SUCCESS;
}

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
	if (d->kind != DESCRIPTION || a->kind != LAYOUT || b->kind != LAYOUT || c->kind != LAYOUT || out->kind != LAYOUT ||
		c->rows != out->rows || c->columns != out->columns || c->type != out->type || c->batch != out->batch)
		return 0;
	uint32_t e = d->epilogue;
	if (e != NO_EPILOGUE && (!e || e & ~(RELU | BIAS | GELU) || (e & RELU && e & GELU)))
		return 0;
	if (!(e & BIAS) != !d->bias)
		return 0;
	uint64_t m = d->trans[0] ? a->columns : a->rows, k = d->trans[0] ? a->rows : a->columns;
	uint64_t k2 = d->trans[1] ? b->columns : b->rows, n = d->trans[1] ? b->rows : b->columns;
	return m == c->rows && n == c->columns && k == k2 && a->type == b->type && a->batch == c->batch && b->batch == c->batch &&
		c->batch > 0;
}

int cublasLtMatmulAlgoGetHeuristic(struct handle *h, struct description *d, struct layout *a, struct layout *b,
	struct layout *c, struct layout *out, struct preference *p, int wanted, struct result *results, int *found) {
	if (h->kind != HANDLE || p->kind != PREFERENCE || wanted < 1 || !fits(d, a, b, c, out))
		return INVALID_VALUE;
	asked++;
	/* The second needs too much, the third says that it does not do, and the fourth
	 * turns out not to. The fifth is right, too; the sixth has its configuration. */
	int count = wanted < 6 ? wanted : 6;
	memset(results, 0, count * sizeof *results);
	for (int n = 0; n < count; n++) {
		/* What the product needs to be run with. */
		results[n].algorithm.data[0] = n == 3 ? 0xa191 : 0xa190;
		results[n].algorithm.data[1] = p->workspace;
		for (int i = 5; i <= 8; i++)
			results[n].algorithm.data[2] |= (uint64_t)p->align[i] << 16 * (i - 5);
		if (d->epilogue & BIAS)
			results[n].algorithm.data[3] = (uintptr_t)d->bias & -(uintptr_t)d->bias;
		results[n].algorithm.data[4] = n < 5 ? n : 4;
		results[n].algorithm.data[5] = (uintptr_t)h; /* differs from handle to handle */
		results[n].algorithm.data[6] = n;
		results[n].workspace = p->workspace + (n == 1);
		results[n].state = n == 2 ? NOT_SUPPORTED : SUCCESS;
	}
	*found = count;
	return SUCCESS;
}

int cublasLtMatmulAlgoConfigGetAttribute(const struct algorithm *a, int attribute, void *value, size_t n, size_t *written) {
	static const size_t sizes[9] = {4, 4, 4, 4, 4, 4, 4, 2, 2};
	if (attribute < 0 || attribute > 8 || (n ? !value || n != sizes[attribute] : !written))
		return INVALID_VALUE;
	uint32_t v = attribute ? 10 * attribute : a->data[4];
	if (n)
		memcpy(value, &v, n);
	if (written)
		*written = sizes[attribute];
	return SUCCESS;
}

/* half is the value of a float16, and to_half the nearest float16, ties to even. */
static float half(uint16_t h) {
	int exponent = h >> 10 & 31;
	float v = exponent == 31 ? (h & 1023 ? NAN : INFINITY) : exponent ? ldexpf(1024 + (h & 1023), exponent - 25) : ldexpf(h & 1023, -24);
	return h >> 15 ? -v : v;
}

static uint16_t to_half(float v) {
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	int exponent;
	if (isnan(v))
		return 0x7fff;
	v = fabsf(v);
	if (v >= 65520)
		return sign | 0x7c00;
	frexpf(v, &exponent); /* v is below 2^exponent */
	if (exponent < -13 || v == 0)
		exponent = -13;
	uint32_t units = (uint32_t)(ldexpf(v, 11 - exponent) + 0x1p23f - 0x1p23f); /* of the last place; the sum rounds */
	return sign | (((uint32_t)(exponent + 13) << 10) + units);
}

static float get(const void *p, uint64_t at, int type) {
	if (type == F32)
		return ((const float *)p)[at];
	if (type == F16)
		return half(((const uint16_t *)p)[at]);
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
	if (type == F16) {
		((uint16_t *)p)[at] = to_half(v);
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
	if (h->kind != HANDLE || !fits(d, la, lb, lc, lout) || (c == out) != (lc == lout) ||
		workspace_bytes < algorithm->data[1] || algorithm->data[5] != (uintptr_t)h || (workspace_bytes && !workspace))
		return INVALID_VALUE;
	launched++;
	if (algorithm->data[0] != 0xa190)
		return NOT_SUPPORTED;
	const void *at[4] = {a, b, c, out};
	struct layout *layouts[4] = {la, lb, lc, lout};
	for (int i = 0; i < 4; i++) {
		uint64_t align = algorithm->data[2] >> 16 * i & 0xffff;
		if (((uintptr_t)at[i] | layouts[i]->batch_stride * (layouts[i]->type == F32 ? 4 : 2)) % align)
			return NOT_SUPPORTED;
	}
	if (d->epilogue & BIAS && (uintptr_t)d->bias % algorithm->data[3])
		return NOT_SUPPORTED;
	if (cuStreamSynchronize(stream))
		return EXECUTION_FAILED;
	uint64_t k = d->trans[0] ? la->rows : la->columns;
	for (int64_t n = 0; n < lout->batch; n++)
		for (uint64_t j = 0; j < lout->columns; j++)
			for (uint64_t i = 0; i < lout->rows; i++) {
				uint64_t ia = n * la->batch_stride, ib = n * lb->batch_stride;
				float sum = 0;
				for (uint64_t l = 0; l < k; l++)
					sum += get(a, ia + (d->trans[0] ? l + i * la->stride : i + l * la->stride), la->type) *
						get(b, ib + (d->trans[1] ? j + l * lb->stride : l + j * lb->stride), lb->type);
				float v = *alpha * sum;
				if (*beta != 0)
					v += *beta * get(c, n * lc->batch_stride + i + j * lc->stride, lc->type);
				if (d->epilogue & BIAS)
					v += get(d->bias, i, lout->type);
				if (d->epilogue & RELU)
					v = v > 0 ? v : 0;
				if (d->epilogue & GELU)
					v = v / 2 * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
				put(out, n * lout->batch_stride + i + j * lout->stride, lout->type, v);
			}
	return SUCCESS;
}
