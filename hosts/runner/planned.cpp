// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/planned.hpp"

#include <cmath>
#include <string>

namespace goblin::runner {
namespace {

// Of one task: with the tasks of one answer (plan.cpp) these keep it under its frame's cap.
constexpr std::uint64_t kMaxTaskTensors = 64;
constexpr std::uint64_t kMaxTaskParams = 256;

tl::unexpected<Error> invalid(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message));
}

std::string range(const Extent& e) {
  return "[" + std::to_string(e.low) + ", " + std::to_string(e.high) + ")";
}

Result<const goblin_tensor_v1*> find_source(const goblin_view_v1& view,
                                            const PlanSources& sources) {
  if (view.source == GOBLIN_SOURCE_JOB_INPUT) {
    if (view.index >= sources.inputs.size() || sources.inputs[view.index].dtype == 0) {
      return invalid("the job has no input " + std::to_string(view.index));
    }
    return &sources.inputs[view.index];
  }
  if (view.source == GOBLIN_SOURCE_TASK_RESULT) {
    const auto kept = sources.kept->find(view.task);
    if (kept == sources.kept->end() || view.index >= kept->second.list.size()) {
      return invalid("no output " + std::to_string(view.index) + " of task " +
                     std::to_string(view.task) + " was kept");
    }
    return &kept->second.list[view.index];
  }
  return invalid("source " + std::to_string(view.source) +
                 " is neither a job's input nor a "
                 "task's result");
}

Result<wire::View> copy_view(const goblin_view_v1& raw, const PlanSources& sources) {
  GOBLIN_TRY(const goblin_tensor_v1* source, find_source(raw, sources));
  GOBLIN_TRY(Extent touched, extent(raw.spec));
  if (raw.spec.dtype != source->dtype) {
    return invalid("its dtype " + std::string(wire::dtype_name(raw.spec.dtype)) +
                   " is not the source's " + std::string(wire::dtype_name(source->dtype)));
  }
  GOBLIN_TRY(const Extent allowed, extent(*source));
  if (__builtin_add_overflow(touched.low, raw.offset, &touched.low) ||
      __builtin_add_overflow(touched.high, raw.offset, &touched.high) ||
      touched.low < allowed.low || touched.high > allowed.high) {
    return invalid("its window leaves the source: at offset " + std::to_string(raw.offset) +
                   " it touches bytes " + range(touched) + " of " + range(allowed));
  }
  if (raw.offset % static_cast<std::int64_t>(wire::dtype_size(source->dtype)) != 0) {
    return invalid("its offset " + std::to_string(raw.offset) + " is no multiple of the item size");
  }
  wire::View view;
  view.source = raw.source;
  view.index = raw.index;
  view.task = raw.source == GOBLIN_SOURCE_TASK_RESULT ? raw.task : 0;
  view.offset = raw.offset;
  view.dtype = raw.spec.dtype;
  view.shape.assign(raw.spec.shape, raw.spec.shape + raw.spec.rank);
  view.strides.assign(raw.spec.strides, raw.spec.strides + raw.spec.rank);
  return view;
}

Result<wire::TensorSpec> copy_output(const goblin_tensor_v1& raw) {
  GOBLIN_TRY([[maybe_unused]] const Extent touched, extent(raw));
  wire::TensorSpec spec{raw.dtype, {raw.shape, raw.shape + raw.rank}};
  GOBLIN_TRY([[maybe_unused]] const std::uint64_t bytes, spec.size_bytes());
  return spec;
}

}  // namespace

Result<wire::PlannedTask> copy_planned(const goblin_planned_task_v1& raw,
                                       const PlanSources& sources) {
  const std::string task = "task " + std::to_string(raw.id);
  constexpr std::uint64_t kSize10 =
      offsetof(goblin_planned_task_v1, memory_bytes) + sizeof(std::uint64_t);
  if (raw.struct_size < kSize10) {
    return invalid("a task's struct_size is " + std::to_string(raw.struct_size));
  }
  if (raw.input_count > kMaxTaskTensors || raw.output_count > kMaxTaskTensors ||
      raw.param_count > kMaxTaskParams || raw.output_count == 0) {
    return invalid(task + " has " + std::to_string(raw.input_count) + " inputs, " +
                   std::to_string(raw.output_count) + " outputs and " +
                   std::to_string(raw.param_count) + " parameters; possible are " +
                   std::to_string(kMaxTaskTensors) + ", 1 to " + std::to_string(kMaxTaskTensors) +
                   " and " + std::to_string(kMaxTaskParams));
  }
  if (!std::isfinite(raw.flops) || raw.flops < 0) {
    return invalid(task + " says that it takes " + std::to_string(raw.flops) + " flops");
  }
  wire::PlannedTask out;
  out.id = raw.id;
  out.flops = raw.flops;
  out.memory_bytes = raw.memory_bytes;
  for (std::uint64_t i = 0; i < raw.param_count; ++i) {
    GOBLIN_TRY(const wire::Value value, from_abi(raw.params[i]));
    out.params.push_back(value);
  }
  for (std::uint64_t i = 0; i < raw.input_count; ++i) {
    auto view = copy_view(raw.inputs[i], sources);
    if (!view) {
      return fail(view.error().with_context(task + ", input " + std::to_string(i)));
    }
    out.inputs.push_back(std::move(*view));
  }
  for (std::uint64_t i = 0; i < raw.output_count; ++i) {
    auto spec = copy_output(raw.outputs[i]);
    if (!spec) {
      return fail(spec.error().with_context(task + ", output " + std::to_string(i)));
    }
    out.outputs.push_back(std::move(*spec));
  }
  return out;
}

PlannedForAbi::PlannedForAbi(const wire::PlannedTask& task) : params_(to_abi(task.params)) {
  auto add = [&](wire::DType dtype, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& strides) {
    auto tensor = make_tensor(dtype, shape, strides);
    if (!tensor) {
      failed_ = true;
      error_ = tensor.error().with_context("task " + std::to_string(task.id));
    }
    return tensor ? *tensor : goblin_tensor_v1{};
  };
  for (const wire::View& view : task.inputs) {
    inputs_.push_back({view.source, view.index, view.task, view.offset,
                       add(view.dtype, view.shape, view.strides)});
  }
  for (const wire::TensorSpec& spec : task.outputs) {
    outputs_.push_back(add(spec.dtype, spec.shape, {}));
  }
  raw_.struct_size = sizeof raw_;
  raw_.id = task.id;
  raw_.params = params_.data();
  raw_.param_count = params_.size();
  raw_.inputs = inputs_.data();
  raw_.input_count = inputs_.size();
  raw_.outputs = outputs_.data();
  raw_.output_count = outputs_.size();
  raw_.flops = task.flops;
  raw_.memory_bytes = task.memory_bytes;
}

goblin_value_v1 to_abi(const wire::Value& value) {
  goblin_value_v1 out{};
  out.type = value.type;
  if (value.type == GOBLIN_VALUE_F64) {
    out.as.f = value.f;
  } else {
    out.as.i = value.i;
  }
  return out;
}

std::vector<goblin_value_v1> to_abi(std::span<const wire::Value> values) {
  std::vector<goblin_value_v1> out;
  out.reserve(values.size());
  for (const wire::Value& value : values) {
    out.push_back(to_abi(value));
  }
  return out;
}

Result<wire::Value> from_abi(const goblin_value_v1& value) {
  if (value.type == GOBLIN_VALUE_I64) {
    return wire::Value::of(value.as.i);
  }
  if (value.type == GOBLIN_VALUE_F64) {
    return wire::Value::of(value.as.f);
  }
  return invalid("a parameter has the unknown type " + std::to_string(value.type));
}

goblin_capacity_v1 to_abi(const wire::Capacity& capacity) {
  return {sizeof(goblin_capacity_v1), capacity.memory_bytes,
          capacity.min_memory_bytes,  capacity.hosts,
          capacity.threads,           0};
}

}  // namespace goblin::runner
