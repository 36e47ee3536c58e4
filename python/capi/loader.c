// The way of a batch to the caller: one call into Go, and none in a forked child.
#include "pinion.h"
#include "_cgo_export.h"

int pinion_abi(void) { return PINION_ABI; }

int pinion_loader_next(uint64_t loader, int32_t milliseconds, int32_t flags, int64_t stream, pinion_batch *b) {
  if (pinion_forked()) return PINION_FORKED;
  int result = pnLoaderNext(loader, milliseconds, flags, stream, b);
  pn_settle();
  return result;
}

int pinion_task_wait(uint64_t task, int32_t milliseconds, uint64_t *value) {
  int result = pnTaskWait(task, milliseconds, value);
  pn_settle();
  return result;
}
