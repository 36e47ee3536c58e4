// PyTorch calls these from any thread, also in a forked child.
#include "pinion.h"
#include "_cgo_export.h"

void *pinion_torch_malloc(int64_t size, int32_t device, void *stream) {
  if (pinion_forked()) return NULL;
  return (void *)(uintptr_t)pnMalloc(size, device, (uint64_t)(uintptr_t)stream);
}

void pinion_torch_free(void *p, int64_t size, int32_t device, void *stream) {
  (void)size, (void)device, (void)stream;
  if (p && !pinion_forked()) pnFree((uint64_t)(uintptr_t)p);
}
