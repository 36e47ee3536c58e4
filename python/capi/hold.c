// Holds of memory, and what becomes of them when the last use ends.
#include "pinion.h"
#include "_cgo_export.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// A forked child has none of the threads of Go's runtime: nothing may enter Go
// there. The flag is C's, so that it can be asked without Go.
static atomic_int forked;
static void child(void) { atomic_store(&forked, 1); }
__attribute__((constructor)) static void start(void) { pthread_atfork(NULL, NULL, child); }
int pinion_forked(void) { return atomic_load(&forked); }

// An outbox collects the holds of a loader whose last use has ended. Go empties
// it when the loader is asked for the next batch: the last use may end anywhere,
// inside a CUDA graph's capture for one, and must cost its thread nothing.
// After close nobody asks any more, so whoever ends the last use empties it.
struct pinion_outbox {
  _Atomic(pinion_hold *) head;
  atomic_int closed;
  atomic_long refs; // holds, and Go
};

struct pinion_hold {
  atomic_long refs;
  uint64_t batch;
  pinion_outbox *box;
  pinion_hold *next;
};

static atomic_long live;
int64_t pinion_holds(void) { return atomic_load(&live); }

pinion_outbox *pn_outbox_new(void) {
  pinion_outbox *b = calloc(1, sizeof *b);
  if (b) atomic_init(&b->refs, 1);
  return b;
}

static void outbox_drop(pinion_outbox *b) {
  if (atomic_fetch_sub(&b->refs, 1) == 1) free(b);
}

void pn_outbox_close(pinion_outbox *b) {
  atomic_store(&b->closed, 1);
  pnDrain(b);
  outbox_drop(b);
}

pinion_hold *pn_outbox_take(pinion_outbox *b) { return atomic_exchange(&b->head, NULL); }

pinion_hold *pn_hold_new(pinion_outbox *b, uint64_t batch) {
  pinion_hold *h = malloc(sizeof *h);
  if (!h) return NULL;
  atomic_init(&h->refs, 1);
  h->batch = batch;
  h->box = b;
  atomic_fetch_add(&b->refs, 1);
  atomic_fetch_add(&live, 1);
  return h;
}

pinion_hold *pn_hold_done(pinion_hold *h, uint64_t *batch) {
  pinion_hold *next = h->next;
  *batch = h->batch;
  outbox_drop(h->box);
  free(h);
  return next;
}

void pinion_retain(pinion_hold *h) { atomic_fetch_add(&h->refs, 1); }

void pinion_release(pinion_hold *h) {
  if (atomic_fetch_sub(&h->refs, 1) != 1) return;
  atomic_fetch_sub(&live, 1);
  if (pinion_forked()) return;
  pinion_outbox *b = h->box;
  atomic_fetch_add(&b->refs, 1); // whoever empties the outbox frees the hold
  pinion_hold *head = atomic_load(&b->head);
  do h->next = head;
  while (!atomic_compare_exchange_weak(&b->head, &head, h));
  int closed = atomic_load(&b->closed);
  if (closed) pnDrain(b);
  outbox_drop(b);
  if (closed) pn_settle();
}

void pinion_free(void *p) { free(p); }

static __thread char *message, *detail;

void pn_fail(const char *m, size_t n, const char *d, size_t k) {
  free(message);
  free(detail);
  message = strndup(m, n);
  detail = strndup(d, k);
}
const char *pinion_message(void) { return message ? message : ""; }
const char *pinion_detail(void) { return detail ? detail : ""; }
