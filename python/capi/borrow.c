// Tensors of the caller's, whose memory a loader uses, and their way back.
#include "pinion.h"
#include <stdatomic.h>
#include <stdlib.h>

typedef struct node {
  DLManagedTensor *tensor;
  struct node *next;
} node;

static _Atomic(node *) returned;

// A deleter may wait for Python's lock, which whoever waits for Go may have. So it is
// not called here, in a thread of Go's.
void pn_give_back(uint64_t tensor) {
  node *n = malloc(sizeof *n);
  if (!n) return; // there are worse losses then
  n->tensor = (DLManagedTensor *)(uintptr_t)tensor;
  node *head = atomic_load(&returned);
  do n->next = head;
  while (!atomic_compare_exchange_weak(&returned, &head, n));
}

void pn_settle(void) {
  if (!atomic_load(&returned)) return;
  for (node *n = atomic_exchange(&returned, NULL); n;) {
    node *next = n->next;
    if (n->tensor->deleter) n->tensor->deleter(n->tensor);
    free(n);
    n = next;
  }
}
