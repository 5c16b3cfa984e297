/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* A backend by hand in C, without operators. It keeps nothing, and counts who asks it to. */
#include <stddef.h>

#include "goblin/abi/backend.h"

#ifndef PLAIN_BACKEND_SIZE
#define PLAIN_BACKEND_SIZE sizeof(goblin_backend_v1)
#endif
#ifndef PLAIN_BACKEND_OPEN
#define PLAIN_BACKEND_OPEN opened(to)
#endif
/* What is wrong with the table that is opened. */
#ifndef PLAIN_BACKEND_SPOIL
#define PLAIN_BACKEND_SPOIL (void)0
#endif

#define PLAIN_EXPORT __attribute__((visibility("default")))

/* Tables that are open now. */
extern PLAIN_EXPORT int plain_backend_open;
PLAIN_EXPORT int plain_backend_open = 0;

static uint64_t device_count(const goblin_backend_v1* self) {
  (void)self;
  return 1;
}
static goblin_status_v1 describe_device(const goblin_backend_v1* self, uint64_t index,
                                        goblin_device_v1* out) {
  (void)self;
  (void)index;
  out->name[0] = 'x';
  out->name[1] = out->description[0] = '\0';
  out->memory_bytes = 0;
  return GOBLIN_OK;
}
static uint64_t operator_count(const goblin_backend_v1* self) {
  (void)self;
  return 0;
}
static const goblin_operator_v1* operator_at(const goblin_backend_v1* self, uint64_t index) {
  (void)self;
  (void)index;
  return NULL;
}
static const goblin_operator_v1* find_operator(const goblin_backend_v1* self, const char* name,
                                               uint32_t version) {
  (void)self;
  (void)name;
  (void)version;
  return NULL;
}

static goblin_backend_v1 copy;

static goblin_status_v1 opened(const goblin_backend_v1** to) {
  PLAIN_BACKEND_SPOIL;
  *to = &copy;
  ++plain_backend_open;
  return GOBLIN_OK;
}
static goblin_status_v1 no_memory(goblin_text_v1* message) {
  static const char words[] = "the cupboard is bare";
  for (size_t i = 0; i < sizeof words && i < message->capacity; ++i) message->data[i] = words[i];
  return GOBLIN_EXHAUSTED;
}
static goblin_status_v1 open_backend(const goblin_backend_v1* self, const goblin_backend_v1** to,
                                     goblin_text_v1* message) {
  (void)self;
  (void)&opened;
  (void)&no_memory;
  (void)to;
  (void)message;
  return PLAIN_BACKEND_OPEN;
}
static void close_backend(const goblin_backend_v1* backend) {
  if (backend == &copy) --plain_backend_open;
}

static const goblin_backend_v1 kTable = {
    PLAIN_BACKEND_SIZE, GOBLIN_ABI_MAJOR, 0,           "plain",       device_count,
    describe_device,    operator_count,   operator_at, find_operator, open_backend,
    close_backend};

PLAIN_EXPORT const goblin_backend_v1* goblin_backend_entry_v1(void) {
  copy = kTable;
  return &kTable;
}
