// The C ABI of libpinion, which the Python package loads with ctypes. Python's
// side of it is pinion/_lib.py. Whoever changes a signature or a struct here
// changes PINION_ABI here and ABI there.
//
// Every function returns a code: PINION_OK or another one from 0 on, or one of
// the errors below 0. The text of an error is pinion_message()'s, for the
// thread that made the call. Objects of Go are handles: integers, never
// addresses; one that is no longer valid gives PINION_CLOSED. Texts that come
// from Go are the caller's, who frees them with pinion_free.
#ifndef PINION_H
#define PINION_H
#include <stddef.h>
#include <stdint.h>

#define PINION_ABI 5
#define PINION_ARRAYS 12 // most arrays of a batch
#define PINION_DIMS 8    // most axes of an array

enum {
  PINION_OK = 0,
  PINION_END = 1,    // of an epoch
  PINION_WAIT = 2,   // nothing yet: ask again, after a look at signals
  PINION_MEMORY = 3, // answer what pinion_borrow_wanted tells, and ask again

  PINION_ERROR = -1,         // of no other kind
  PINION_INTERNAL = -2,      // a panic: a mistake of the library
  PINION_FORKED = -3,        // in a child of the process that loaded the library
  PINION_CLOSED = -4,        // used after close
  PINION_ARGUMENT = -5,      // a value that cannot be
  PINION_NOT_FOUND = -6,     // a file that is not there
  PINION_PERMISSION = -7,    // a file that may not be read
  PINION_DEVICE_MEMORY = -8, // out of device memory
  PINION_HOST_MEMORY = -9,   // out of (page-locked) host memory
  PINION_UNAVAILABLE = -10,  // a device or server that is not there
  PINION_UNSUPPORTED = -11,  // what this device or format cannot do
  PINION_DATA = -12,         // files that are damaged or of no known format
  PINION_SAMPLE = -13,       // a sample that cannot be read
  PINION_STATE = -14,        // a state of something else
  PINION_HELD = -15,         // the caller holds every buffer
};

// DLPack 1.0 (dlpack.h), as far as it is used.
typedef struct {
  int32_t type, id;
} DLDevice;
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor tensor;
} DLManagedTensorVersioned;

// A hold is what keeps the memory of arrays: everybody who uses it counts once,
// and the last one gives it back. It is C's, so that the last use may end in any
// thread, with or without Python's lock, and in a forked child.
typedef struct pinion_hold pinion_hold;
void pinion_retain(pinion_hold *);
void pinion_release(pinion_hold *);

// What an array of a batch is.
enum {
  PINION_SAMPLES,
  PINION_LABELS,
  PINION_LENGTHS,
  PINION_MASK,
  PINION_MIX,
  PINION_TARGET,
  PINION_TARGET_LENGTHS,
};

typedef struct {
  uint64_t data;
  int32_t role, ndim;
  DLDataType dtype;
  int32_t device_type, device_id; // DLPack's
  int64_t shape[PINION_DIMS];
} pinion_array;

// Objects of Python. These are called with Python's lock, and return a new
// reference to a capsule, if any. Whoever makes an object in one call of C loses nothing
// to an interrupt, and an object that is freed by C swallows none, as __del__
// would.
//
// pinion_take makes a holder of the hold at the address, which becomes NULL.
// pinion_dlpack makes a DLManagedTensor of an array, or a DLManagedTensorVersioned,
// which adds a holder.
void *pinion_take(pinion_hold **);
void *pinion_dlpack(pinion_hold *, const pinion_array *, int versioned);
// pinion_borrow_give answers a want with the tensor in a capsule, which is taken.
// PINION_END: nobody wants it any more, and it is not.
int pinion_borrow_give(uint64_t borrow, uint64_t want, void *capsule);
// PyCapsule_New, PyCapsule_IsValid, PyCapsule_GetPointer and PyCapsule_SetName of the
// Python that is running.
void pinion_python(void *new_capsule, void *is_valid, void *get_pointer, void *set_name);

typedef struct {
  pinion_hold *hold;                // one holder: the caller
  int32_t epoch, number, arrays, _; // number: of the batch in its epoch
  pinion_array array[PINION_ARRAYS];
} pinion_batch;

enum {
  PINION_FRESH = 1,   // begin an epoch
  PINION_CAPTURE = 2, // a CUDA graph is being captured: record no events
};
// pinion_loader_next gives the next batch of a loader's epoch, or waits for some
// time. Before that it gives back the batches whose last use has ended. Stream is
// the CUstream whose work uses batches, for drivers that cannot record an event
// behind the work of all streams; -1: it is not known.
int pinion_loader_next(uint64_t loader, int32_t milliseconds, int32_t flags, int64_t stream, pinion_batch *);

// Waits some time for a task: PINION_WAIT if it is not over. Otherwise its handle
// ends, and value is its result.
int pinion_task_wait(uint64_t task, int32_t milliseconds, uint64_t *value);

// Device memory that a loader has of the caller's allocator: see borrow.go.
typedef struct {
  uint64_t id;
  int64_t bytes;
  int32_t device_type, device_id; // DLPack's
} pinion_want;

// For torch.cuda.memory.CUDAPluggableAllocator.
void *pinion_torch_malloc(int64_t size, int32_t device, void *stream); // NULL: no memory
void pinion_torch_free(void *, int64_t size, int32_t device, void *stream);

int pinion_abi(void);
int pinion_forked(void); // whether this is a child of the process that loaded the library
int64_t pinion_holds(void); // that are alive
const char *pinion_message(void); // of the last error of this thread
const char *pinion_detail(void);  // JSON about it, or ""
void pinion_free(void *);

// For Go, hidden.
typedef struct pinion_outbox pinion_outbox;
pinion_outbox *pn_outbox_new(void);
void pn_outbox_close(pinion_outbox *);
pinion_hold *pn_outbox_take(pinion_outbox *); // those given back; linked, see pn_hold_done
pinion_hold *pn_hold_new(pinion_outbox *, uint64_t batch);
pinion_hold *pn_hold_done(pinion_hold *, uint64_t *batch); // frees one, returns the next
void pn_give_back(uint64_t tensor); // a DLManagedTensor of the caller's
void pn_settle(void);               // calls the deleters of those, in a thread of the caller's
void pn_fail(const char *message, size_t n, const char *detail, size_t m);
#endif
