// Arrays as DLPack: https://dmlc.github.io/dlpack/latest/
#include "pinion.h"
#include "_cgo_export.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  DLManagedTensor managed;
  pinion_hold *hold;
  int64_t shape[PINION_DIMS];
} plain;

typedef struct {
  DLManagedTensorVersioned managed;
  pinion_hold *hold;
  int64_t shape[PINION_DIMS];
} versioned;

static void delete_plain(DLManagedTensor *m) {
  pinion_release(((plain *)m)->hold);
  free(m);
}

static void delete_versioned(DLManagedTensorVersioned *m) {
  pinion_release(((versioned *)m)->hold);
  free(m);
}

static DLTensor tensor(const pinion_array *a, int64_t *shape) {
  return (DLTensor){(void *)(uintptr_t)a->data, {a->device_type, a->device_id}, a->ndim, a->dtype, shape, NULL, 0};
}

// Strides are NULL, which is row-major, in DLPack 0.x; since 1.2 they must be
// there.
static void strides(versioned *v) {
  int64_t *s = (int64_t *)(v + 1), n = 1;
  for (int i = v->managed.tensor.ndim - 1; i >= 0; i--) {
    s[i] = n;
    n *= v->shape[i];
  }
  v->managed.tensor.strides = s;
}

static void *managed(pinion_hold *hold, const pinion_array *a, int with_version) {
  if (with_version) {
    versioned *v = malloc(sizeof *v + sizeof v->shape);
    if (!v) return NULL;
    *v = (versioned){{{1, 0}, NULL, delete_versioned, 0, tensor(a, v->shape)}, hold};
    memcpy(v->shape, a->shape, sizeof v->shape);
    strides(v);
    return v;
  }
  plain *p = malloc(sizeof *p);
  if (!p) return NULL;
  *p = (plain){{tensor(a, p->shape), NULL, delete_plain}, hold};
  memcpy(p->shape, a->shape, sizeof p->shape);
  return p;
}

static void *(*new_capsule)(void *, const char *, void (*)(void *));
static int (*is_valid)(void *, const char *);
static void *(*get_pointer)(void *, const char *);
static int (*set_name)(void *, const char *);
void pinion_python(void *n, void *v, void *g, void *s) { new_capsule = n, is_valid = v, get_pointer = g, set_name = s; }

// A capsule that was taken has another name, and its memory another owner.
static void free_tensor(void *capsule) {
  if (is_valid(capsule, "dltensor")) {
    DLManagedTensor *m = get_pointer(capsule, "dltensor");
    m->deleter(m);
  } else if (is_valid(capsule, "dltensor_versioned")) {
    DLManagedTensorVersioned *m = get_pointer(capsule, "dltensor_versioned");
    m->deleter(m);
  }
}

void *pinion_dlpack(pinion_hold *hold, const pinion_array *a, int with_version) {
  void *m = managed(hold, a, with_version);
  if (!m) return NULL;
  pinion_retain(hold);
  void *capsule = new_capsule(m, with_version ? "dltensor_versioned" : "dltensor", free_tensor);
  if (!capsule) {
    pinion_release(hold);
    free(m);
  }
  return capsule;
}

static void free_hold(void *capsule) { pinion_release(get_pointer(capsule, "pinion_hold")); }

void *pinion_take(pinion_hold **at) {
  void *capsule = new_capsule(*at, "pinion_hold", free_hold);
  if (capsule) *at = NULL;
  return capsule;
}

int pinion_borrow_give(uint64_t borrow, uint64_t want, void *capsule) {
  if (!is_valid(capsule, "dltensor")) return PINION_ARGUMENT;
  DLManagedTensor *m = get_pointer(capsule, "dltensor");
  int result = pnBorrowGive(borrow, want, (uint64_t)(uintptr_t)m->tensor.data + m->tensor.byte_offset, (uint64_t)(uintptr_t)m);
  if (result == PINION_OK) set_name(capsule, "used_dltensor");
  return result;
}
