// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/dry_plan.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/net/blob_hash.hpp"
#include "goblin/abi/plugin.h"

namespace goblin::lab {
namespace {

/// Reads as zeros, takes no memory until it is written to.
Result<net::UniqueFd> make_empty_file(std::uint64_t bytes) {
  net::UniqueFd fd(::memfd_create("goblin-dry-plan", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(Code::kExhausted,
                "a file of " + std::to_string(bytes) +
                    " bytes to plan with cannot be made: " + std::string(std::strerror(errno)));
  }
  return fd;
}

/// Equal views have equal names, as equal bytes would; which bytes is not known yet.
wire::Digest name_of(const wire::View& view) {
  net::BlobHash hash;
  const auto add = [&hash](const auto& value) { hash.update(std::as_bytes(std::span(&value, 1))); };
  add(view.source);
  add(view.index);
  add(view.task);
  add(view.offset);
  add(view.dtype);
  for (const auto* list : {&view.shape, &view.strides}) {
    for (const std::int64_t number : *list) {
      add(number);
    }
  }
  return hash.finish();
}

scheduler::ReadyTask ready_task(const wire::PlannedTask& planned) {
  scheduler::ReadyTask ready;
  ready.task = planned.id;
  ready.flops = planned.flops;
  ready.memory_bytes = planned.memory_bytes;
  for (const auto& output : planned.outputs) {
    ready.output_bytes += output.size_bytes().value_or(0);
  }
  for (const wire::View& view : planned.inputs) {
    const std::uint64_t bytes = wire::tensor_bytes(view.dtype, view.shape).value_or(0);
    if (bytes > wire::kInlineBytes) {
      ready.inputs.push_back({name_of(view), bytes});
    }
  }
  return ready;
}

net::Task<Result<wire::TensorAt>> tensor_at(std::shared_ptr<MappedRunner> runner, std::uint64_t key,
                                            wire::TensorSpec spec, bool writable) {
  GOBLIN_CO_TRY(const std::uint64_t bytes, spec.size_bytes());
  GOBLIN_CO_TRY(const net::UniqueFd fd, make_empty_file(std::max<std::uint64_t>(bytes, 1)));
  wire::TensorAt at;
  at.dtype = spec.dtype;
  at.shape = spec.shape;
  at.strides = TensorFile::row_major(spec.dtype, spec.shape);
  GOBLIN_CO_TRY(at.segment, co_await runner->segment(key, fd.get(),
                                                     std::max<std::uint64_t>(bytes, 1), writable));
  co_return at;
}

}  // namespace

net::Task<Result<DryPlan>> dry_plan(std::shared_ptr<MappedRunner> runner, DryPlanRequest request,
                                    net::Milliseconds deadline) {
  wire::PlanOpen open;
  open.kind = request.kind;
  open.params = request.params;
  open.capacity = request.capacity;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    wire::TensorSpec spec;
    spec.dtype = request.inputs[i].dtype;
    spec.shape = request.inputs[i].shape;
    if (spec.dtype == 0) {
      open.inputs.emplace_back();
      continue;
    }
    GOBLIN_CO_TRY(wire::TensorAt at,
                  co_await tensor_at(runner, MappedRunner::input_key(i), spec, false));
    open.inputs.push_back(std::move(at));
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    GOBLIN_CO_TRY(wire::TensorAt at, co_await tensor_at(runner, MappedRunner::output_key(i),
                                                        request.outputs[i], true));
    open.outputs.push_back(std::move(at));
  }
  GOBLIN_CO_TRY(const wire::PlanOpened opened, co_await runner->client().plan_open(open, deadline));
  if (opened.status != GOBLIN_OK) {
    co_return fail(code_from_status(opened.status), opened.message);
  }
  DryPlan plan;
  for (std::uint32_t progress = GOBLIN_PLAN_MORE;
       progress == GOBLIN_PLAN_MORE && plan.tasks.size() < request.max_tasks;) {
    wire::PlanNext next;
    next.capacity = request.capacity;
    next.max_tasks = static_cast<std::uint32_t>(request.max_tasks - plan.tasks.size());
    GOBLIN_CO_TRY(const wire::Planned planned, co_await runner->client().plan_next(next, deadline));
    if (planned.status != GOBLIN_OK) {
      co_return fail(code_from_status(planned.status), planned.message);
    }
    for (const wire::PlannedTask& task : planned.tasks) {
      plan.tasks.push_back(ready_task(task));
      plan.flops += task.flops;
    }
    progress = planned.progress;
    plan.complete = progress == GOBLIN_PLAN_DONE;
    if (planned.tasks.empty()) {
      break;
    }
  }
  co_return plan;
}

}  // namespace goblin::lab
