// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/conformance/play.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "goblin/tensor.hpp"

namespace goblin::conformance {
namespace {

// A job with more tasks is too large to be tried in every way.
constexpr std::size_t kMaxTasks = 20'000;

std::string task_name(std::uint64_t id) { return "task " + std::to_string(id); }

std::uint64_t bytes_of(const wire::TensorSpec& spec) { return spec.size_bytes().value_or(0); }

/// Calls `visit(offset)` for every element of a strided shape in row-major order.
template <typename Visit>
void for_each_offset(const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, Visit&& visit) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return;
  }
  std::vector<std::int64_t> index(shape.size(), 0);
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      offset += index[i] * strides[i];
    }
    visit(offset);
    std::size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) {
      index[--axis] = 0;
    }
    if (axis == 0) {
      return;
    }
  }
}

std::vector<std::int64_t> row_major(const wire::TensorSpec& spec) {
  std::vector<std::int64_t> strides(spec.shape.size());
  auto stride = static_cast<std::int64_t>(wire::dtype_size(spec.dtype));
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(spec.shape[i], 1);
  }
  return strides;
}

}  // namespace

wire::Capacity offer(std::uint64_t memory, std::uint64_t hosts, std::uint32_t threads) {
  wire::Capacity capacity;
  capacity.memory_bytes = memory;
  capacity.min_memory_bytes = memory;
  capacity.hosts = hosts;
  capacity.threads = threads;
  return capacity;
}

Error broken(const std::string& call, const Error& why) { return why.with_context(call); }

Result<void> expect_ok(const std::string& call, std::int32_t status, const std::string& message) {
  if (status == GOBLIN_OK) {
    return {};
  }
  return fail(
      code_from_status(status),
      call + " was refused (" + std::string(code_name(code_from_status(status))) + "): " + message);
}

wire::RunnerTask Computed::for_check(std::uint32_t kind) const {
  return {planned.id, kind, planned.params, windows, outputs};
}
wire::RunnerTask Computed::for_execute(std::uint32_t kind) const {
  return {planned.id, kind, planned.params, inputs, outputs};
}

Play::Play(const Job& job, Arena& arena, Runner& lab, Runner& host, Random& random)
    : job_(job), arena_(arena), lab_(&lab), host_(host), random_(random) {}

Result<wire::TensorAt> Play::take(const wire::TensorSpec& spec) {
  wire::TensorAt at;
  at.dtype = spec.dtype;
  at.shape = spec.shape;
  at.segment = Runner::kWritable;
  GOBLIN_TRY(at.offset, arena_.take(bytes_of(spec)));
  return at;
}

Result<wire::TensorAt> Play::place_input(std::size_t index, Layout layout) {
  const wire::TensorSpec& spec = job_.spec.inputs[index];
  wire::TensorAt at;
  if (spec.dtype == 0) {
    return at;
  }
  const auto item = static_cast<std::int64_t>(wire::dtype_size(spec.dtype));
  const std::int64_t gap = layout == Layout::kSpread ? 3 : 1;
  GOBLIN_TRY(const std::uint64_t base,
             arena_.take(bytes_of(spec) * static_cast<std::uint64_t>(gap)));
  at.dtype = spec.dtype;
  at.shape = spec.shape;
  at.segment = Runner::kReadOnly;
  at.offset = base;
  at.strides = row_major(spec);
  if (layout == Layout::kColumnMajor) {
    std::int64_t stride = item;
    for (std::size_t i = 0; i < spec.shape.size(); ++i) {
      at.strides[i] = stride;
      stride *= std::max<std::int64_t>(spec.shape[i], 1);
    }
  }
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    at.strides[i] *= gap;
    if (layout == Layout::kReversed && spec.shape[i] > 0) {
      at.offset += static_cast<std::uint64_t>((spec.shape[i] - 1) * at.strides[i]);
      at.strides[i] = -at.strides[i];
    }
  }
  const std::byte* from = job_.elements[index].data();
  for_each_offset(at.shape, at.strides, [&](std::int64_t offset) {
    std::memcpy(arena_.at(at.offset) + offset, from, static_cast<std::size_t>(item));
    from += item;
  });
  return at;
}

Result<void> Play::place(Layout layout) {
  for (std::size_t i = 0; i < job_.spec.inputs.size(); ++i) {
    GOBLIN_TRY(wire::TensorAt at, place_input(i, layout));
    inputs_.push_back(std::move(at));
  }
  for (const wire::TensorSpec& spec : job_.validated.outputs) {
    GOBLIN_TRY(wire::TensorAt at, take(spec));
    std::memset(data(at), 0, bytes_of(spec));  // as a new file of results is
    outputs_.push_back(std::move(at));
  }
  return {};
}

wire::PlanOpen Play::open_request(const wire::Capacity& capacity) const {
  wire::PlanOpen request;
  request.kind = job_.kind;
  request.inputs = inputs_;
  request.params = job_.spec.params;
  request.outputs = outputs_;
  request.capacity = capacity;
  return request;
}

Result<void> Play::open(const wire::Capacity& capacity) {
  const auto opened = lab_->plan_open(open_request(capacity));
  if (!opened) {
    return fail(broken("planner_create", opened.error()));
  }
  GOBLIN_TRY_VOID(expect_ok("planner_create", opened->status, opened->message));
  state_ = opened->state;
  opened_for_ = capacity.memory_bytes;
  progress_ = GOBLIN_PLAN_MORE;
  return {};
}

Result<void> Play::reopen(Runner& lab, const wire::Capacity& capacity) {
  lab_ = &lab;
  wire::PlanOpen request = open_request(capacity);
  request.state = state_;
  const auto opened = lab_->plan_open(request);
  if (!opened) {
    return fail(broken("planner_create from its state", opened.error()));
  }
  GOBLIN_TRY_VOID(expect_ok("planner_create from its state", opened->status, opened->message));
  std::vector<std::uint64_t> order;
  for (const auto& [id, accepted] : accepted_) {
    order.push_back(id);
  }
  std::shuffle(order.begin(), order.end(), random_);
  for (const std::uint64_t id : order) {
    const Accepted& was = accepted_.at(id);
    wire::Accept again;
    again.tasks.emplace_back();
    again.tasks[0].task = was.task.planned;
    again.tasks[0].has_outputs = was.disposition == GOBLIN_ACCEPT_KEEP;
    if (again.tasks[0].has_outputs) {
      again.tasks[0].outputs = was.task.outputs;
    }
    const std::string call = "planner_accept of " + task_name(id) + " after a restart";
    const auto answer = lab_->accept(again);
    if (!answer) {
      return fail(broken(call, answer.error()));
    }
    GOBLIN_TRY_VOID(expect_ok(call, answer->tasks.at(0).status, answer->tasks[0].message));
    restored_.insert(id);
  }
  pending_.clear();
  progress_ = GOBLIN_PLAN_MORE;
  return {};
}

Result<void> Play::take_task(const wire::PlannedTask& task, const wire::Capacity& capacity) {
  const std::string name = "planner_next: " + task_name(task.id);
  if (pending_.contains(task.id)) {
    return fail(Code::kInternal, name + " was planned before");
  }
  if (const auto known = accepted_.find(task.id); known != accepted_.end()) {
    if (restored_.erase(task.id) == 0) {
      return fail(Code::kInternal, name + " was planned and accepted before");
    }
    // The memory that it says to take may depend on the host that asks.
    wire::PlannedTask same = task;
    same.memory_bytes = known->second.task.planned.memory_bytes;
    if (!(same == known->second.task.planned)) {
      return fail(Code::kInternal, name + " is another task than before the restart");
    }
    return {};
  }
  if (task.memory_bytes > capacity.memory_bytes) {
    return fail(Code::kInternal, name + " needs " + std::to_string(task.memory_bytes) +
                                     " bytes; the host that asked offers " +
                                     std::to_string(capacity.memory_bytes));
  }
  std::uint64_t tensors = 0;
  for (const wire::View& view : task.inputs) {
    tensors += bytes_of({view.dtype, view.shape});
  }
  for (const wire::TensorSpec& spec : task.outputs) {
    tensors += bytes_of(spec);
  }
  if (task.memory_bytes < tensors) {
    return fail(Code::kInternal, name + " says that it needs " + std::to_string(task.memory_bytes) +
                                     " bytes of memory; its inputs and outputs alone have " +
                                     std::to_string(tensors));
  }
  if (accepted_.size() + pending_.size() >= kMaxTasks) {
    return fail(Code::kExhausted,
                "the job has over " + std::to_string(kMaxTasks) + " tasks: name a smaller one");
  }
  flops_ += task.flops;
  most_memory_ = std::max(most_memory_, task.memory_bytes);
  pending_.emplace(task.id, task);
  return {};
}

Result<bool> Play::next(const wire::Capacity& capacity, std::uint32_t max_tasks) {
  const std::string call =
      "planner_next for " + std::to_string(capacity.memory_bytes) + " bytes of memory";
  const auto planned = lab_->plan_next({capacity, max_tasks});
  if (!planned) {
    return fail(broken(call, planned.error()));
  }
  exhausted_ = planned->status == GOBLIN_EXHAUSTED && capacity.memory_bytes < opened_for_;
  if (exhausted_) {
    return true;
  }
  GOBLIN_TRY_VOID(expect_ok(call, planned->status, planned->message));
  for (const wire::PlannedTask& task : planned->tasks) {
    GOBLIN_TRY_VOID(take_task(task, capacity));
  }
  progress_ = planned->progress;
  return progress_ == GOBLIN_PLAN_MORE;
}

Result<wire::TensorAt> Play::window(const wire::View& view) const {
  const wire::TensorAt* source = nullptr;
  if (view.source == GOBLIN_SOURCE_JOB_INPUT) {
    source = &inputs_.at(view.index);
  } else {
    source = &accepted_.at(view.task).task.outputs.at(view.index);
  }
  wire::TensorAt at;
  at.dtype = view.dtype;
  at.shape = view.shape;
  at.strides = view.strides;
  at.segment = Runner::kReadOnly;
  at.offset = source->offset + static_cast<std::uint64_t>(view.offset);
  return at;
}

Result<Computed> Play::compute(const wire::PlannedTask& task) {
  Computed computed;
  computed.planned = task;
  std::string key;
  auto add = [&](const void* bytes, std::size_t size) {
    key.append(static_cast<const char*>(bytes), size);
  };
  for (const wire::Value& value : task.params) {
    add(&value.type, sizeof value.type);
    add(&value.i, sizeof value.i);
    add(&value.f, sizeof value.f);
  }
  for (const wire::TensorSpec& spec : task.outputs) {
    GOBLIN_TRY(wire::TensorAt at, take(spec));
    // What the plugin does not write is seen in the bits.
    std::memset(data(at), static_cast<int>(random_() & 0xFF), bytes_of(spec));
    computed.outputs.push_back(std::move(at));
    key += describe_type(spec.dtype, spec.shape);
  }
  for (const wire::View& view : task.inputs) {
    GOBLIN_TRY(wire::TensorAt at, window(view));
    GOBLIN_TRY(wire::TensorAt dense, take({view.dtype, view.shape}));
    dense.segment = Runner::kReadOnly;
    const std::size_t item = wire::dtype_size(view.dtype);
    std::byte* to = arena_.at(dense.offset);
    for_each_offset(at.shape, at.strides, [&](std::int64_t offset) {
      std::memcpy(to, arena_.at(at.offset) + offset, item);
      to += item;
    });
    key += describe_type(view.dtype, view.shape);
    add(arena_.at(dense.offset), bytes_of({view.dtype, view.shape}));
    computed.windows.push_back(std::move(at));
    computed.inputs.push_back(std::move(dense));
  }
  if (cache_ != nullptr) {
    if (const auto found = cache_->find(key); found != cache_->end()) {
      for (std::size_t i = 0; i < computed.outputs.size(); ++i) {
        std::copy(found->second[i].begin(), found->second[i].end(), data(computed.outputs[i]));
      }
      return computed;
    }
  }
  GOBLIN_TRY_VOID(execute(computed));
  if (cache_ != nullptr) {
    auto& kept = (*cache_)[key];
    for (std::size_t i = 0; i < computed.outputs.size(); ++i) {
      const std::byte* from = data(computed.outputs[i]);
      kept.emplace_back(from, from + bytes_of(task.outputs[i]));
    }
  }
  return computed;
}

Result<void> Play::execute(Computed& task) {
  const std::string call = "execute of " + task_name(task.planned.id);
  wire::Execute request;
  request.tasks.push_back(task.for_execute(job_.kind));
  const auto executed = host_.execute(request);
  if (!executed) {
    return fail(broken(call, executed.error()));
  }
  GOBLIN_TRY_VOID(expect_ok(call, executed->tasks.at(0).status, executed->tasks[0].message));
  if (!arena_.intact()) {
    return fail(Code::kInternal, call + " wrote past its outputs");
  }
  return {};
}

Result<bool> Play::check(const Computed& task, const std::array<std::uint8_t, 32>& seed) {
  const std::string call = "check of " + task_name(task.planned.id);
  wire::Check request;
  request.tasks.push_back({task.for_check(job_.kind), seed});
  const auto checked = lab_->check(request);
  if (!checked) {
    return fail(broken(call, checked.error()));
  }
  GOBLIN_TRY_VOID(expect_ok(call, checked->tasks.at(0).status, checked->tasks[0].message));
  if (checked->tasks[0].verdict == GOBLIN_VERDICT_REJECT) {
    return fail(Code::kInternal, call + " rejects an honest result");
  }
  return checked->tasks[0].verdict == GOBLIN_VERDICT_ACCEPT;
}

Result<void> Play::accept(const Computed& task) {
  const std::uint64_t id = task.planned.id;
  const std::string call = "planner_accept of " + task_name(id);
  wire::Accept request;
  request.tasks.push_back({task.planned, true, task.outputs});
  const auto answer = lab_->accept(request);
  if (!answer) {
    return fail(broken(call, answer.error()));
  }
  GOBLIN_TRY_VOID(expect_ok(call, answer->tasks.at(0).status, answer->tasks[0].message));
  if (!arena_.intact()) {
    return fail(Code::kInternal, call + " wrote past the job's outputs");
  }
  accepted_[id] = {task, answer->tasks[0].disposition};
  pending_.erase(id);
  return {};
}

Result<void> Play::finish() {
  const auto done = lab_->finish();
  if (!done) {
    return fail(broken("planner_finish", done.error()));
  }
  GOBLIN_TRY_VOID(expect_ok("planner_finish", done->status, done->message));
  if (!arena_.all_intact()) {
    return fail(Code::kInternal, "until planner_finish somebody wrote past outputs");
  }
  return {};
}

Result<void> Play::go_on(const Offers& offers, std::size_t until, const Visit& visit) {
  while (accepted_.size() < until) {
    const bool room = pending_.empty() || (pending_.size() < 48 && random_() % 4 == 0);
    if (progress_ == GOBLIN_PLAN_MORE && room) {
      const auto max_tasks = static_cast<std::uint32_t>(1 + random_() % 40);
      GOBLIN_TRY_VOID(next(offers(), max_tasks).map([](bool) {}));
      if (exhausted_) {
        GOBLIN_TRY_VOID(next(offer(opened_for_), max_tasks).map([](bool) {}));
      }
    }
    if (pending_.empty()) {
      if (progress_ == GOBLIN_PLAN_DONE) {
        return {};
      }
      if (progress_ == GOBLIN_PLAN_WAIT) {
        // Asked once more: the last acceptance may have been what it waited for.
        GOBLIN_TRY_VOID(next(offer(opened_for_), 16).map([](bool) {}));
        if (pending_.empty() && progress_ == GOBLIN_PLAN_WAIT) {
          return fail(Code::kInternal,
                      "planner_next waits for a result, but every planned task is accepted");
        }
      }
      continue;
    }
    auto pick = pending_.begin();
    std::advance(pick, static_cast<std::ptrdiff_t>(random_() % pending_.size()));
    GOBLIN_TRY(const Computed task, compute(wire::PlannedTask(pick->second)));
    if (visit) {
      GOBLIN_TRY_VOID(visit(task));
    }
    GOBLIN_TRY_VOID(accept(task));
    if (progress_ == GOBLIN_PLAN_WAIT) {
      progress_ = GOBLIN_PLAN_MORE;
    }
  }
  return {};
}

std::string Play::outputs(std::uint64_t ignore) const {
  std::string bytes;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if ((ignore >> std::min<std::size_t>(i, 63) & 1) == 0) {
      const auto* from = reinterpret_cast<const char*>(arena_.at(outputs_[i].offset));
      bytes.append(from, bytes_of(job_.validated.outputs[i]));
    }
  }
  return bytes;
}

}  // namespace goblin::conformance
