/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* A backend: operators on a kind of device, as a table of C functions.
 *
 * A backend is a shared library that exports `goblin_backend_entry_v1`. Operators are found by name
 * and version, so a new one needs no change here. Every call may come from any thread, several at
 * once, unless said otherwise. Nothing here throws.
 */
#ifndef GOBLIN_ABI_BACKEND_H_
#define GOBLIN_ABI_BACKEND_H_

#include "goblin/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an operator works on. */
typedef struct goblin_operands_v1 {
  uint64_t struct_size;
  const goblin_tensor_v1* inputs;
  uint64_t input_count;
  const goblin_tensor_v1* outputs; /* allocated by the caller; overlap with inputs is refused */
  uint64_t output_count;
  const goblin_value_v1* attributes; /* meaning and order: the operator's */
  uint64_t attribute_count;
} goblin_operands_v1;

typedef struct goblin_operator_v1 goblin_operator_v1;
struct goblin_operator_v1 {
  uint64_t struct_size;
  const char* name; /* such as "matmul" */
  uint32_t version; /* 1 for now; a change of bits is a new version */
  uint32_t reserved;
  /* Checks types, shapes, strides and attributes; data pointers are not read. */
  goblin_status_v1 (*check)(const goblin_operator_v1* self, const goblin_operands_v1* operands,
                            goblin_text_v1* message);
  /* Bytes of scratch that `run` needs with so many threads on that device. */
  goblin_status_v1 (*scratch_bytes)(const goblin_operator_v1* self,
                                    const goblin_operands_v1* operands, const goblin_exec_v1* exec,
                                    uint64_t* bytes, goblin_text_v1* message);
  /* Computes the outputs: the canonical bits unless exec->numerics says fast. */
  goblin_status_v1 (*run)(const goblin_operator_v1* self, const goblin_operands_v1* operands,
                          const goblin_exec_v1* exec, goblin_text_v1* message);
};

/* One device of a backend. A CPU counts as one device per instruction level it can run
 * ("avx512", "avx2", "baseline"), best first. */
typedef struct goblin_device_v1 {
  uint64_t struct_size;
  char name[64];         /* such as "avx512" */
  char description[128]; /* for people */
  uint64_t memory_bytes; /* 0: the process's own */
} goblin_device_v1;

typedef struct goblin_backend_v1 goblin_backend_v1;
struct goblin_backend_v1 {
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  const char* name; /* such as "cpu" */
  uint64_t (*device_count)(const goblin_backend_v1* self);
  goblin_status_v1 (*describe_device)(const goblin_backend_v1* self, uint64_t index,
                                      goblin_device_v1* out);
  uint64_t (*operator_count)(const goblin_backend_v1* self);
  const goblin_operator_v1* (*operator_at)(const goblin_backend_v1* self, uint64_t index);
  /* NULL when the backend has no such operator. */
  const goblin_operator_v1* (*find_operator)(const goblin_backend_v1* self, const char* name,
                                             uint32_t version);
  /* Since ABI 1.1; both NULL in a backend that keeps nothing between calls. */
  /* Gives in `opened` a table of the same backend that may keep threads, memory or a device's state
   * from one call to the next; operators found through it use them, those of `self` make do
   * without. Nothing is taken before a call needs it. What is opened is independent of all else
   * opened. */
  goblin_status_v1 (*open)(const goblin_backend_v1* self, const goblin_backend_v1** opened,
                           goblin_text_v1* message);
  /* Once all calls through `opened` have returned: frees what it kept. The table and the operators
   * found through it are gone then. Only for what `open` gave, once. */
  void (*close)(const goblin_backend_v1* opened);
};

/* The one exported function of a backend: a static table, valid for the life of the process, or
 * NULL when this machine cannot run it at all. */
#define GOBLIN_BACKEND_ENTRY_V1 "goblin_backend_entry_v1"
typedef const goblin_backend_v1* (*goblin_backend_entry_fn_v1)(void);

#ifdef __cplusplus
}
#endif
#endif /* GOBLIN_ABI_BACKEND_H_ */
