/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* Values that cross the edge between a GPU Goblin process and a plugin or a backend.
 *
 * C11, stdint and stddef only. Layouts here are frozen: a later 1.x may append to a table that
 * begins with `struct_size`, and never moves a slot. Nothing that crosses the edge is owned by the
 * other side: a pointer handed to a call is valid until that call returns, unless said otherwise.
 */
#ifndef GOBLIN_ABI_TYPES_H_
#define GOBLIN_ABI_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GOBLIN_ABI_MAJOR 1u
#define GOBLIN_ABI_MINOR 1u

/* Most dimensions a tensor may have. */
#define GOBLIN_MAX_RANK 16u

/* What a call came to; each code is named by what its caller can do about it. */
typedef int32_t goblin_status_v1;
enum {
  GOBLIN_OK = 0,
  GOBLIN_INVALID_ARGUMENT = 1, /* mend the argument that the message names */
  GOBLIN_NOT_FOUND = 2,        /* ask for something that exists */
  GOBLIN_UNSUPPORTED = 3,      /* use another version, backend or option */
  GOBLIN_UNAVAILABLE = 4,      /* try again later or elsewhere */
  GOBLIN_EXHAUSTED = 5,        /* offer more memory, disk or time, or ask for less */
  GOBLIN_CORRUPT = 6,          /* the bytes are not what they claim to be: fetch them again */
  GOBLIN_CANCELLED = 7,        /* somebody asked for it to stop */
  GOBLIN_INTERNAL = 8          /* a bug on the side that says so */
};

/* Element types. The numbers are on the wire: they never change. */
typedef uint32_t goblin_dtype_v1;
enum {
  GOBLIN_BOOL = 1, /* one byte, 0 or 1 */
  GOBLIN_I8 = 2,
  GOBLIN_I16 = 3,
  GOBLIN_I32 = 4,
  GOBLIN_I64 = 5,
  GOBLIN_U8 = 6,
  GOBLIN_U16 = 7,
  GOBLIN_U32 = 8,
  GOBLIN_U64 = 9,
  GOBLIN_F16 = 10,  /* IEEE binary16 */
  GOBLIN_BF16 = 11, /* upper half of a binary32 */
  GOBLIN_F32 = 12,
  GOBLIN_F64 = 13,
  GOBLIN_C64 = 14, /* real f32, imaginary f32 */
  GOBLIN_C128 = 15 /* real f64, imaginary f64 */
};
/* Bit of a dtype in a set of dtypes. */
#define GOBLIN_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))

/* A number with its type: parameters of jobs and tasks, attributes of operators. */
enum { GOBLIN_VALUE_I64 = 1, GOBLIN_VALUE_F64 = 2 };
typedef struct goblin_value_v1 {
  uint32_t type; /* GOBLIN_VALUE_* */
  uint32_t reserved;
  union {
    int64_t i;
    double f;
  } as;
} goblin_value_v1;

/* A strided window on memory. `data` is element (0, …, 0) and may be NULL when the tensor has no
 * elements or when only its type is meant. Strides are bytes and multiples of the item size; an
 * input's may be zero or negative, an output's elements never overlap. */
typedef struct goblin_tensor_v1 {
  void* data;
  goblin_dtype_v1 dtype;
  uint32_t rank; /* ≤ GOBLIN_MAX_RANK */
  int64_t shape[GOBLIN_MAX_RANK];
  int64_t strides[GOBLIN_MAX_RANK];
} goblin_tensor_v1;

/* Room for a message to a human, given by the caller; the callee writes at most `capacity` bytes,
 * the closing NUL included, and cuts what does not fit. May be NULL. */
typedef struct goblin_text_v1 {
  char* data;
  uint64_t capacity;
} goblin_text_v1;

/* How a computation may run. Made by the caller of `run` or `execute`. */
enum { GOBLIN_NUMERICS_CANONICAL = 0, GOBLIN_NUMERICS_FAST = 1 };
typedef struct goblin_exec_v1 {
  uint64_t struct_size;
  uint32_t threads;  /* ≥ 1: at most so many threads run, the caller's included */
  uint32_t device;   /* index of a device of the backend; 0 is its best */
  uint32_t numerics; /* GOBLIN_NUMERICS_* */
  uint32_t reserved;
  void* scratch;         /* 64-byte aligned; at least what `scratch_bytes` asked for */
  uint64_t scratch_size; /* bytes */
  void* context;         /* handed back to `cancelled` */
  /* Nonzero when the work is no longer wanted: poll it every few milliseconds, return
   * GOBLIN_CANCELLED. NULL: never. Any thread. */
  int32_t (*cancelled)(void* context);
} goblin_exec_v1;

#ifdef __cplusplus
}
#endif
#endif /* GOBLIN_ABI_TYPES_H_ */
