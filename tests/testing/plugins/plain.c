/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* A plugin in plain C, without the SDK's C++ layer: the kind "plain/1" doubles a vector. Knobs make
 * it wrong in one way each. Built as it is, it is also the frozen plugin of tests/abi/frozen. */
#include <stdlib.h>
#include <string.h>

#include "goblin/abi/plugin.h"

#ifndef PLAIN_NOTE_MAJOR
#define PLAIN_NOTE_MAJOR GOBLIN_ABI_MAJOR
#endif
#ifndef PLAIN_NOTE_MINOR
#define PLAIN_NOTE_MINOR GOBLIN_ABI_MINOR
#endif
#ifndef PLAIN_TABLE_MAJOR
#define PLAIN_TABLE_MAJOR PLAIN_NOTE_MAJOR
#endif
#ifndef PLAIN_TABLE_MINOR
#define PLAIN_TABLE_MINOR PLAIN_NOTE_MINOR
#endif
#ifndef PLAIN_MAGIC
#define PLAIN_MAGIC GOBLIN_NOTE_MAGIC
#endif
#ifndef PLAIN_KIND_COUNT
#define PLAIN_KIND_COUNT 1u
#endif
#ifndef PLAIN_SECOND_KIND
#define PLAIN_SECOND_KIND "plain"
#endif
#ifndef PLAIN_TABLE_NAME
#define PLAIN_TABLE_NAME "plain"
#endif
#ifndef PLAIN_TABLE_SIZE
#define PLAIN_TABLE_SIZE sizeof(goblin_plugin_v1)
#endif
#ifndef PLAIN_EXECUTE
#define PLAIN_EXECUTE execute
#endif
#ifndef PLAIN_RECALL
#define PLAIN_RECALL planner_recall
#endif
#ifndef PLAIN_CHECK
#define PLAIN_CHECK NULL
#endif

/* What both volatile knobs below need: a loop that a compiler may not remove. */
void plain_spin(void);
void plain_spin(void) {
  static volatile int forever = 1;
  while (forever) {
  }
}

static goblin_status_v1 refuse(goblin_status_v1 status, const char* text, goblin_text_v1* message) {
  if (message != NULL && message->data != NULL && message->capacity > 0) {
    size_t n = strlen(text);
    if (n >= message->capacity) n = (size_t)message->capacity - 1;
    memcpy(message->data, text, n);
    message->data[n] = '\0';
  }
  return status;
}

static goblin_tensor_v1 vector(int64_t length) {
  goblin_tensor_v1 tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.dtype = GOBLIN_F64;
  tensor.rank = 1;
  tensor.shape[0] = length;
  tensor.strides[0] = (int64_t)sizeof(double);
  return tensor;
}

static const goblin_description_v1* describe(void* self) {
  static const goblin_input_desc_v1 inputs[] = {
      {"x", "a vector", GOBLIN_DTYPE_BIT(GOBLIN_F64), 1, 1, 0, 0}};
  static const goblin_output_desc_v1 outputs[] = {{"y", "twice x"}};
  static const goblin_description_v1 description = {sizeof(goblin_description_v1),
                                                    "doubles a vector",
                                                    inputs,
                                                    1,
                                                    NULL,
                                                    0,
                                                    outputs,
                                                    1,
                                                    GOBLIN_POLICY_REPLICATE,
                                                    2};
  (void)self;
  return &description;
}

static goblin_status_v1 validate(void* self, const goblin_job_v1* job, goblin_tensor_v1* outputs,
                                 goblin_estimate_v1* estimate, goblin_text_v1* message) {
  (void)self;
  (void)message;
  outputs[0] = vector(job->inputs[0].shape[0]);
  estimate->flops = (double)job->inputs[0].shape[0];
  estimate->bytes = 16.0 * (double)job->inputs[0].shape[0];
  estimate->min_task_bytes = 16u * (uint64_t)job->inputs[0].shape[0];
  return GOBLIN_OK;
}

/* One task for the whole vector, merged into the job's output. */
typedef struct Planner {
  goblin_tensor_v1 input, output;
  int emitted;
} Planner;

static goblin_status_v1 planner_create(void* self, const goblin_job_v1* job,
                                       const goblin_capacity_v1* capacity,
                                       const goblin_planner_services_v1* services,
                                       const void* state, uint64_t state_size, void** out,
                                       goblin_text_v1* message) {
  Planner* made = calloc(1, sizeof *made);
  (void)self;
  (void)capacity;
  (void)services;
  (void)state;
  (void)state_size;
  if (made == NULL) return refuse(GOBLIN_EXHAUSTED, "out of memory", message);
  made->input = job->inputs[0];
  made->output = job->outputs[0];
  *out = made;
  return GOBLIN_OK;
}

static goblin_status_v1 planner_state(void* self, const void** state, uint64_t* size) {
  (void)self;
  *state = NULL;
  *size = 0;
  return GOBLIN_OK;
}

static goblin_status_v1 planner_next(void* self, const goblin_capacity_v1* capacity,
                                     const goblin_task_sink_v1* sink, uint32_t* progress,
                                     goblin_text_v1* message) {
  Planner* p = self;
  (void)capacity;
  if (!p->emitted) {
    goblin_view_v1 view;
    goblin_planned_task_v1 task;
    goblin_tensor_v1 output = vector(p->input.shape[0]);
    goblin_status_v1 status;
    memset(&view, 0, sizeof view);
    view.source = GOBLIN_SOURCE_JOB_INPUT;
    view.spec = p->input;
    view.spec.data = NULL;
    memset(&task, 0, sizeof task);
    task.struct_size = sizeof task;
    task.id = 1;
    task.inputs = &view;
    task.input_count = 1;
    task.outputs = &output;
    task.output_count = 1;
    task.flops = (double)p->input.shape[0];
    task.memory_bytes = 16u * (uint64_t)p->input.shape[0];
    status = sink->emit(sink->context, &task, message);
    if (status != GOBLIN_OK) return status;
    p->emitted = 1;
  }
  *progress = GOBLIN_PLAN_DONE;
  return GOBLIN_OK;
}

static goblin_status_v1 planner_accept(void* self, const goblin_planned_task_v1* planned,
                                       const goblin_tensor_v1* outputs, uint64_t output_count,
                                       uint32_t* disposition, goblin_text_v1* message) {
  Planner* p = self;
  (void)planned;
  (void)message;
  if (outputs != NULL && output_count == 1 && p->output.shape[0] > 0) {
    memcpy(p->output.data, outputs[0].data, (size_t)p->output.shape[0] * sizeof(double));
  }
  *disposition = GOBLIN_ACCEPT_MERGED;
  return GOBLIN_OK;
}

goblin_status_v1 planner_recall(void* self, const goblin_planned_task_v1* planned,
                                const goblin_tensor_v1* outputs, uint64_t output_count,
                                goblin_text_v1* message);
goblin_status_v1 planner_recall(void* self, const goblin_planned_task_v1* planned,
                                const goblin_tensor_v1* outputs, uint64_t output_count,
                                goblin_text_v1* message) {
  Planner* p = self;
  (void)planned;
  (void)message;
  if (output_count == 1 && p->output.shape[0] > 0) {
    memcpy(outputs[0].data, p->output.data, (size_t)p->output.shape[0] * sizeof(double));
  }
  return GOBLIN_OK;
}

static goblin_status_v1 planner_finish(void* self, goblin_text_v1* message) {
  (void)self;
  (void)message;
  return GOBLIN_OK;
}

goblin_status_v1 execute(void* self, const goblin_task_v1* task, const goblin_backend_v1* backend,
                         const goblin_exec_v1* exec, goblin_text_v1* message);
goblin_status_v1 execute(void* self, const goblin_task_v1* task, const goblin_backend_v1* backend,
                         const goblin_exec_v1* exec, goblin_text_v1* message) {
  (void)self;
  (void)backend;
  (void)exec;
  if (task->input_count != 1 || task->output_count != 1 || task->inputs[0].dtype != GOBLIN_F64 ||
      task->outputs[0].dtype != GOBLIN_F64 || task->inputs[0].rank != 1 ||
      task->outputs[0].rank != 1 || task->inputs[0].shape[0] != task->outputs[0].shape[0]) {
    return refuse(GOBLIN_INVALID_ARGUMENT, "plain: x and y must be vectors of f64 of one length",
                  message);
  }
  for (int64_t i = 0; i < task->inputs[0].shape[0]; ++i) {
    ((double*)task->outputs[0].data)[i] = 2.0 * ((const double*)task->inputs[0].data)[i];
  }
  return GOBLIN_OK;
}

/* Unused by the plugin that has no entry. */
__attribute__((unused)) static const goblin_kind_v1 kKind = {sizeof(goblin_kind_v1),
                                                             PLAIN_TABLE_NAME,
                                                             1,
                                                             0,
                                                             NULL,
                                                             describe,
                                                             validate,
                                                             planner_create,
                                                             planner_state,
                                                             planner_next,
                                                             planner_accept,
                                                             PLAIN_RECALL,
                                                             planner_finish,
                                                             free,
                                                             PLAIN_EXECUTE,
                                                             PLAIN_CHECK,
                                                             NULL};

extern const goblin_plugin_note_v1 kPlainNote;
__attribute__((section(GOBLIN_NOTE_SECTION), used))
const goblin_plugin_note_v1 kPlainNote = {PLAIN_MAGIC,
                                          PLAIN_NOTE_MAJOR,
                                          PLAIN_NOTE_MINOR,
                                          PLAIN_KIND_COUNT,
                                          0,
                                          {{"plain", 1, 0}, {PLAIN_SECOND_KIND, 1, 0}}};

#ifdef PLAIN_CONSTRUCTOR
__attribute__((constructor)) static void construct(void) { PLAIN_CONSTRUCTOR; }
#endif

#ifndef PLAIN_NO_ENTRY
__attribute__((visibility("default"))) const goblin_plugin_v1* goblin_plugin_entry_v1(
    const goblin_host_v1* host);
const goblin_plugin_v1* goblin_plugin_entry_v1(const goblin_host_v1* host) {
  static const goblin_kind_v1* const kinds[] = {&kKind};
  static const goblin_plugin_v1 table = {PLAIN_TABLE_SIZE, PLAIN_TABLE_MAJOR, PLAIN_TABLE_MINOR,
                                         kinds, 1};
#ifdef PLAIN_ENTRY
  PLAIN_ENTRY;
#endif
  return host->abi_major == GOBLIN_ABI_MAJOR ? &table : NULL;
}
#endif
