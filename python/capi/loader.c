// The way of a batch to the caller: one call into Go, and none in a forked child.
#include "pinion.h"
#include "_cgo_export.h"

int pinion_abi(void) { return PINION_ABI; }

int pinion_loader_next(uint64_t loader, int32_t milliseconds, int32_t flags, pinion_batch *b) {
  if (pinion_forked()) return PINION_FORKED;
  int code = pnLoaderNext(loader, milliseconds, flags, b);
  if (code != PINION_OK || !(flags & PINION_MANAGED)) return code;
  for (int i = 0; i < b->arrays; i++) {
    if ((b->managed[i] = pinion_dlpack(b->hold, &b->array[i], 0))) continue;
    while (i--) ((DLManagedTensor *)b->managed[i])->deleter(b->managed[i]);
    pinion_release(b->hold);
    pn_fail("no memory for a tensor", 22, "", 0);
    return PINION_HOST_MEMORY;
  }
  pinion_release(b->hold);
  b->hold = NULL;
  return PINION_OK;
}
