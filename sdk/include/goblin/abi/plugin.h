/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* A plugin: one or more kinds of computation, as tables of C functions.
 *
 * A plugin is a shared library that exports one function, `goblin_plugin_entry_v1`, and carries a
 * `goblin_plugin_note_v1` that can be read without loading it. Authors derive the classes of
 * goblin/kind.hpp and write GOBLIN_PLUGIN(MyKind) rather than fill these tables by hand.
 *
 * Which side calls what:
 *   lab side (in a runner):  describe, validate, planner_*, check, compare
 *   host side (in a runner): describe, execute
 * A runner calls one plugin from one thread at a time.
 */
#ifndef GOBLIN_ABI_PLUGIN_H_
#define GOBLIN_ABI_PLUGIN_H_

#include "goblin/abi/backend.h"
#include "goblin/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a kind's specification may contain ------------------------------------------------ */

typedef struct goblin_input_desc_v1 {
  const char* name; /* as the researcher writes it: lab.submit(kind, name=array) */
  const char* doc;
  uint64_t dtypes; /* set of GOBLIN_DTYPE_BIT */
  uint32_t min_rank;
  uint32_t max_rank;
  uint32_t optional; /* 1: may be left out; its tensor then has dtype 0 */
  uint32_t reserved;
} goblin_input_desc_v1;

typedef struct goblin_param_desc_v1 {
  const char* name;
  const char* doc;
  goblin_value_v1 default_value; /* its type is the parameter's type */
  goblin_value_v1 min_value;     /* same type, inclusive */
  goblin_value_v1 max_value;     /* same type, inclusive */
  uint32_t required;             /* 1: no default */
  uint32_t reserved;
} goblin_param_desc_v1;

typedef struct goblin_output_desc_v1 {
  const char* name;
  const char* doc;
} goblin_output_desc_v1;

/* How a kind wants its results checked unless the job says otherwise. */
enum { GOBLIN_POLICY_ALGEBRAIC = 1, GOBLIN_POLICY_VALIDATOR = 2, GOBLIN_POLICY_REPLICATE = 3 };

typedef struct goblin_description_v1 {
  uint64_t struct_size;
  const char* doc;
  const goblin_input_desc_v1* inputs;
  uint64_t input_count;
  const goblin_param_desc_v1* params;
  uint64_t param_count;
  const goblin_output_desc_v1* outputs;
  uint64_t output_count;
  uint32_t default_policy; /* GOBLIN_POLICY_* */
  uint32_t default_replicas;
} goblin_description_v1;

/* ---- jobs ------------------------------------------------------------------------------------ */

/* A job as the lab side sees it. Inputs and parameters stand in the description's order. In
 * `validate` no tensor has data. In the planner, inputs' data is readable and outputs' writable:
 * both are maps of files that may be larger than memory, so touch only what is needed. */
typedef struct goblin_job_v1 {
  uint64_t struct_size;
  const goblin_tensor_v1* inputs;
  uint64_t input_count;
  const goblin_value_v1* params;
  uint64_t param_count;
  const goblin_tensor_v1* outputs; /* row-major; absent (count 0) in `validate` */
  uint64_t output_count;
} goblin_job_v1;

typedef struct goblin_estimate_v1 {
  uint64_t struct_size;
  double flops;            /* of the whole job */
  double bytes;            /* least that must reach hosts and come back */
  uint64_t min_task_bytes; /* least memory that a host must offer */
} goblin_estimate_v1;

/* ---- tasks ----------------------------------------------------------------------------------- */

/* An input of a planned task: a window on a tensor of the job. The wire carries its elements in
 * row-major order and nothing else. The lab node refuses a window that leaves its source. */
enum { GOBLIN_SOURCE_JOB_INPUT = 1, GOBLIN_SOURCE_TASK_RESULT = 2 };
typedef struct goblin_view_v1 {
  uint32_t source;       /* GOBLIN_SOURCE_* */
  uint32_t index;        /* which input of the job, or which output of the task */
  uint64_t task;         /* GOBLIN_SOURCE_TASK_RESULT: an accepted task whose result was kept */
  int64_t offset;        /* bytes from the source's element (0, …, 0) */
  goblin_tensor_v1 spec; /* dtype of the source; shape and byte strides of the window; no data */
} goblin_view_v1;

typedef struct goblin_planned_task_v1 {
  uint64_t struct_size;
  uint64_t id; /* the planner's own number: unique in the job, the same when it plans again */
  const goblin_value_v1* params;
  uint64_t param_count;
  const goblin_view_v1* inputs;
  uint64_t input_count;
  const goblin_tensor_v1* outputs; /* types only, row-major */
  uint64_t output_count;
  double flops;          /* work, to predict time */
  uint64_t memory_bytes; /* peak in the host's runner: inputs, outputs, scratch */
} goblin_planned_task_v1;

/* A task as execute, check and compare see it: everything is mapped. In `execute`, inputs are
 * row-major; in `check` and `compare` they may be strided windows straight on the job's inputs. */
typedef struct goblin_task_v1 {
  uint64_t struct_size;
  uint64_t id; /* 0 in `execute`: a host learns nothing of the plan */
  const goblin_value_v1* params;
  uint64_t param_count;
  const goblin_tensor_v1* inputs;
  uint64_t input_count;
  const goblin_tensor_v1* outputs;
  uint64_t output_count;
} goblin_task_v1;

/* ---- planner --------------------------------------------------------------------------------- */

/* What hosts can take now. */
typedef struct goblin_capacity_v1 {
  uint64_t struct_size;
  uint64_t memory_bytes;     /* of the host that asks, or of who decides if that is less */
  uint64_t min_memory_bytes; /* of the smallest host worth cutting tasks for */
  uint64_t hosts;            /* how many serve it */
  uint32_t threads;          /* of the host that asks */
  uint32_t reserved;
} goblin_capacity_v1;

typedef struct goblin_task_sink_v1 {
  uint64_t struct_size;
  void* context;
  uint64_t max_tasks; /* emit at most so many */
  /* Copies the task. GOBLIN_OK, or why the task was refused (message says more). */
  goblin_status_v1 (*emit)(void* context, const goblin_planned_task_v1* task,
                           goblin_text_v1* message);
} goblin_task_sink_v1;

enum {
  GOBLIN_PLAN_MORE = 1, /* ask again when there is room */
  GOBLIN_PLAN_WAIT = 2, /* nothing until another result is accepted */
  GOBLIN_PLAN_DONE = 3  /* every task has been emitted */
};

/* What the lab side lends to a planner; valid until planner_destroy. */
typedef struct goblin_planner_services_v1 {
  uint64_t struct_size;
  void* context;
  /* Maps an accepted result that was kept (read only, until the calling planner call returns). */
  goblin_status_v1 (*read_result)(void* context, uint64_t task, uint32_t output,
                                  goblin_tensor_v1* out);
} goblin_planner_services_v1;

/* What planner_accept did with a result. */
enum {
  GOBLIN_ACCEPT_MERGED = 1, /* its elements now stand in the job's outputs; `planner_recall` finds
                               them there: the lab node may drop the result */
  GOBLIN_ACCEPT_KEEP = 2    /* the lab node keeps the result until the job ends */
};

enum { GOBLIN_VERDICT_ACCEPT = 1, GOBLIN_VERDICT_REJECT = 2, GOBLIN_VERDICT_ABSTAIN = 3 };

typedef struct goblin_kind_v1 goblin_kind_v1;
struct goblin_kind_v1 {
  uint64_t struct_size;
  const char* name; /* such as "matmul": lower case, digits, '-', at most 63 bytes */
  uint32_t version; /* "matmul/1" */
  uint32_t reserved;
  void* self; /* handed back to every call below */

  /* Static data, valid for the life of the process. */
  const goblin_description_v1* (*describe)(void* self);

  /* Checks a job and fills in the types of its outputs (as many as described) and its estimate.
   * The message of a refusal names the argument, its value and the remedy. */
  goblin_status_v1 (*validate)(void* self, const goblin_job_v1* job, goblin_tensor_v1* outputs,
                               goblin_estimate_v1* estimate, goblin_text_v1* message);

  /* `state` is NULL for a new job; after a restart, what planner_state gave. */
  goblin_status_v1 (*planner_create)(void* self, const goblin_job_v1* job,
                                     const goblin_capacity_v1* capacity,
                                     const goblin_planner_services_v1* services, const void* state,
                                     uint64_t state_size, void** planner, goblin_text_v1* message);
  /* At most 64 KiB that, with the accepted tasks, restores the plan after a restart. Asked once,
   * right after planner_create. Points into the planner. */
  goblin_status_v1 (*planner_state)(void* planner, const void** state, uint64_t* state_size);
  /* Emits tasks that the asking host can hold. GOBLIN_EXHAUSTED, with a message, when the smallest
   * possible task needs more memory than `capacity->memory_bytes`. */
  goblin_status_v1 (*planner_next)(void* planner, const goblin_capacity_v1* capacity,
                                   const goblin_task_sink_v1* sink, uint32_t* progress,
                                   goblin_text_v1* message);
  /* A checked result comes in: tasks may be accepted in any order. `planned` is the task as it was
   * emitted. `outputs` is NULL when, after a restart, a result comes in again that was MERGED
   * before; it then still stands in the job's outputs. A second call for the same task replaces the
   * first one's result. */
  goblin_status_v1 (*planner_accept)(void* planner, const goblin_planned_task_v1* planned,
                                     const goblin_tensor_v1* outputs, uint64_t output_count,
                                     uint32_t* disposition, goblin_text_v1* message);
  /* Gives back a MERGED result (same bits as were accepted) for another check. May be NULL: then
   * nothing may be MERGED. */
  goblin_status_v1 (*planner_recall)(void* planner, const goblin_planned_task_v1* planned,
                                     const goblin_tensor_v1* outputs, uint64_t output_count,
                                     goblin_text_v1* message);
  /* Every task is accepted: completes the outputs. */
  goblin_status_v1 (*planner_finish)(void* planner, goblin_text_v1* message);
  void (*planner_destroy)(void* planner);

  /* Computes the outputs of a task; canonical numbers give the same bits on every host. */
  goblin_status_v1 (*execute)(void* self, const goblin_task_v1* task,
                              const goblin_backend_v1* backend, const goblin_exec_v1* exec,
                              goblin_text_v1* message);

  /* Cheap test of a result against its inputs. `seed` is 32 fresh secret random bytes. ABSTAIN
   * hands the decision to a recomputation. NULL: always abstains. */
  goblin_status_v1 (*check)(void* self, const goblin_task_v1* task,
                            const goblin_backend_v1* backend, const goblin_exec_v1* exec,
                            const uint8_t seed[32], uint32_t* verdict, goblin_text_v1* message);

  /* Do two results of one task agree (GOBLIN_VERDICT_ACCEPT or _REJECT)? NULL: bit equality. */
  goblin_status_v1 (*compare)(void* self, const goblin_task_v1* canonical,
                              const goblin_tensor_v1* other_outputs, uint64_t other_count,
                              uint32_t* verdict, goblin_text_v1* message);
};

/* ---- the plugin ------------------------------------------------------------------------------ */

typedef struct goblin_plugin_v1 {
  uint64_t struct_size;
  uint32_t abi_major; /* what it was built against */
  uint32_t abi_minor;
  const goblin_kind_v1* const* kinds;
  uint64_t kind_count;
} goblin_plugin_v1;

/* What a process tells a plugin of itself. */
typedef struct goblin_host_v1 {
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
} goblin_host_v1;

/* The one exported function: a static table, valid for the life of the process, or NULL when the
 * plugin cannot work with this host. */
#define GOBLIN_PLUGIN_ENTRY_V1 "goblin_plugin_entry_v1"
typedef const goblin_plugin_v1* (*goblin_plugin_entry_fn_v1)(const goblin_host_v1* host);

/* ---- the note -------------------------------------------------------------------------------- */

/* Lies in the ELF section ".goblin.note" so that a process can tell what a file claims to be
 * without loading it. Byte for byte as written here, little endian, NUL padded. */
#define GOBLIN_NOTE_SECTION ".goblin.note"
#define GOBLIN_NOTE_MAGIC UINT64_C(0x31304e494c424f47) /* "GOBLIN01" */
#define GOBLIN_NOTE_MAX_KINDS 16u
typedef struct goblin_note_kind_v1 {
  char name[64];
  uint32_t version;
  uint32_t reserved;
} goblin_note_kind_v1;
typedef struct goblin_plugin_note_v1 {
  uint64_t magic;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t kind_count;
  uint32_t reserved;
  goblin_note_kind_v1 kinds[GOBLIN_NOTE_MAX_KINDS];
} goblin_plugin_note_v1;

#ifdef __cplusplus
}
#endif
#endif /* GOBLIN_ABI_PLUGIN_H_ */
