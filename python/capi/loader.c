// The way of a batch to the caller: one call into Go, and none in a forked child.
#include "pinion.h"
#include "_cgo_export.h"

int pinion_abi(void) { return PINION_ABI; }

int pinion_loader_next(uint64_t loader, int32_t milliseconds, int32_t flags, int64_t stream, pinion_batch *b) {
  return pinion_forked() ? PINION_FORKED : pnLoaderNext(loader, milliseconds, flags, stream, b);
}
