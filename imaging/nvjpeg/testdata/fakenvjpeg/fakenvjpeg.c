/* A stand-in for nvJPEG, for tests on machines without a GPU. It is compiled
 * together with the stand-in for the CUDA driver, so that its calls fail
 * without a current context and its memory counts:
 *
 *   cc -shared -fPIC -pthread -o libfake.so fakenvjpeg.c ../fakecuda/fakecuda.c
 *
 * Pixels are a pattern of the file's bytes. The engines write without regard
 * to the stream, as those of a GPU do; the kernels wait for it. A comment
 * segment in a file that says "status 3" makes the call return that, with the
 * pictures before it done.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t address;

int cuMemAlloc_v2(address *p, size_t n);
int cuMemFree_v2(address p);
int cuStreamSynchronize(void *stream);

enum { SUCCESS = 0, INVALID_PARAMETER = 2, ALLOCATOR_FAILURE = 5, ARCH_MISMATCH = 7, HARDWARE = 3 };

struct image {
	unsigned char *channel[4];
	size_t pitch[4];
};

/* A handle, or a state: both hold memory of the device. */
struct object {
	int backend, batch;
	address memory;
};

static int engines = 7, major = 13;

/* fakenvjpegSet chooses what is simulated. */
void fakenvjpegSet(int number_of_engines, int major_version) {
	engines = number_of_engines;
	major = major_version;
}

static int reserve(struct object *o, size_t n) {
	if (o->memory)
		cuMemFree_v2(o->memory);
	o->memory = 0;
	return cuMemAlloc_v2(&o->memory, n) ? ALLOCATOR_FAILURE : SUCCESS;
}

static int create(struct object **o, int backend) {
	*o = calloc(1, sizeof **o);
	(*o)->backend = backend;
	return reserve(*o, 1 << 16);
}

static int destroy(struct object *o) {
	int failed = cuMemFree_v2(o->memory);
	free(o);
	return failed ? ALLOCATOR_FAILURE : SUCCESS;
}

int nvjpegGetProperty(int which, int *value) {
	*value = which == 0 ? major : 0;
	return SUCCESS;
}

int nvjpegCreateEx(int backend, void *device, void *pinned, unsigned flags, struct object **handle) {
	(void)device, (void)pinned, (void)flags;
	return backend == HARDWARE && !engines ? ARCH_MISMATCH : create(handle, backend);
}

int nvjpegDestroy(struct object *handle) { return destroy(handle); }

int nvjpegGetHardwareDecoderInfo(struct object *handle, unsigned *n, unsigned *cores) {
	(void)handle;
	*n = engines;
	*cores = 1;
	return SUCCESS;
}

int nvjpegJpegStateCreate(struct object *handle, struct object **state) { return create(state, handle->backend); }

int nvjpegJpegStateDestroy(struct object *state) { return destroy(state); }

int nvjpegDecodeBatchedInitialize(struct object *handle, struct object *state, int n, int threads, int format) {
	(void)handle, (void)threads;
	if (n < 1 || format != 5)
		return INVALID_PARAMETER;
	state->batch = n;
	return reserve(state, (size_t)n << 12);
}

int nvjpegDecodeBatched(struct object *handle, struct object *state, const unsigned char *const *data,
		const size_t *lengths, struct image *images, void *stream) {
	if (handle->backend != HARDWARE && cuStreamSynchronize(stream))
		return INVALID_PARAMETER;
	for (int i = 0; i < state->batch; i++) {
		const unsigned char *d = data[i], *end = d + lengths[i];
		int width = 0, height = 0;
		for (const unsigned char *s = d + 2; s[1] != 0xDA && s + 12 < end; s += 2 + (s[2] << 8 | s[3])) {
			if (s[1] == 0xFE && !memcmp(s + 4, "status ", 7))
				return s[11] - '0';
			if (s[1] == 0xC0 || s[1] == 0xC1)
				height = s[5] << 8 | s[6], width = s[7] << 8 | s[8];
		}
		unsigned sum = 0;
		for (; d < end; d++)
			sum += *d;
		for (int y = 0; y < height; y++)
			for (int x = 0; x < 3 * width; x++)
				images[i].channel[0][y * images[i].pitch[0] + x] = sum + x + 7 * y;
	}
	return SUCCESS;
}
