/* A stand-in for libcufile, for device memory that is ordinary memory, as that
 * of fakecuda is.
 *
 *   cc -shared -fPIC -o libfakecufile.so fakecufile.c
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Declared as in NVIDIA's reference of the cuFile API. */
typedef struct { int err; int cu_err; } result;
typedef struct {
	int type;
	union { int fd; void *handle; } handle;
	const void *fs_ops;
} descr;
typedef struct {
	struct {
		unsigned major_version, minor_version;
		size_t poll_thresh_size, max_direct_io_size;
		unsigned dstatusflags, dcontrolflags;
	} nvfs;
	unsigned fflags, max_device_cache_size, per_buffer_cache_size, max_device_pinned_mem_size;
	unsigned max_batch_io_size, max_batch_io_timeout_msecs;
} properties;

static const result ok = {0, 0};
static int open_driver, handles;

result cuFileDriverOpen(void) {
	if (getenv("FAKECUFILE_FAIL"))
		return (result){5014, 999}; /* a driver error below it */
	open_driver = 1;
	return ok;
}

result cuFileDriverGetProperties(properties *p) {
	memset(p, 0, sizeof *p);
	p->nvfs.dstatusflags = 1 << 4;
	return ok;
}

result cuFileHandleRegister(void **handle, descr *d) {
	if (!open_driver)
		return (result){5001, 0};
	if (d->type != 1 || d->fs_ops || handles >= 2)
		return (result){5008, 0};
	handles++;
	*handle = malloc(sizeof(int));
	*(int *)*handle = d->handle.fd;
	return ok;
}

void cuFileHandleDeregister(void *handle) {
	handles--;
	free(handle);
}

/* At most a mebibyte at a time; one that begins at 13 is refused. */
static size_t most(size_t n) { return n < 1 << 20 ? n : 1 << 20; }

ssize_t cuFileRead(void *handle, void *p, size_t n, off_t offset, off_t into) {
	return offset == 13 ? -5022 : pread(*(int *)handle, (char *)p + into, most(n), offset);
}

ssize_t cuFileWrite(void *handle, const void *p, size_t n, off_t offset, off_t from) {
	return offset == 13 ? -5022 : pwrite(*(int *)handle, (const char *)p + from, most(n), offset);
}
