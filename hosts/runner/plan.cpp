// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/plan.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>

#include "core/wire/bounds.hpp"

namespace goblin::runner {
namespace {

// Tasks that a planner is asked for at once: the largest that copy_planned lets through take 8 MiB.
constexpr std::uint64_t kAtOnce = 256;
// Where many hosts share the tasks of one answer, it is asked again for the same answer, while that
// is shorter and took less: a frame for every task or two would cost more than the tasks.
constexpr std::uint64_t kForEachHost = 8;
constexpr std::size_t kAnswerBytes = 4u << 20;
constexpr std::chrono::milliseconds kAnswerTime{50};

/// No fewer bytes than a message takes for it.
std::size_t message_bytes(const wire::PlannedTask& task) {
  std::size_t bytes = 128 + 24 * task.params.size();
  for (const auto& input : task.inputs) bytes += 96 + 16 * input.shape.size();
  for (const auto& output : task.outputs) bytes += 48 + 8 * output.shape.size();
  return bytes;
}

/// Takes tasks from planner_next.
struct Sink {
  const PlanSources& sources;
  std::uint64_t max_tasks;
  std::vector<wire::PlannedTask> tasks;

  static goblin_status_v1 emit(void* context, const goblin_planned_task_v1* task,
                               goblin_text_v1* message) {
    auto& self = *static_cast<Sink*>(context);
    Result<wire::PlannedTask> copy =
        task == nullptr ? Result<wire::PlannedTask>(fail(Code::kInvalidArgument, "no task"))
        : self.tasks.size() >= self.max_tasks
            ? Result<wire::PlannedTask>(
                  fail(Code::kExhausted,
                       "at most " + std::to_string(self.max_tasks) + " tasks were asked for"))
            : copy_planned(*task, self.sources);
    if (copy) {
      self.tasks.push_back(std::move(*copy));
      return GOBLIN_OK;
    }
    if (message != nullptr && message->data != nullptr && message->capacity > 0) {
      const std::string& text = copy.error().message;
      const std::size_t n = std::min<std::size_t>(text.size(), message->capacity - 1);
      std::copy_n(text.data(), n, message->data);
      message->data[n] = '\0';
    }
    return static_cast<goblin_status_v1>(copy.error().code);
  }
};

}  // namespace

Plan::Plan(const goblin_kind_v1& kind, Tensors inputs, Tensors outputs)
    : kind_(kind), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  services_.struct_size = sizeof services_;
  services_.context = this;
  services_.read_result = read_result;
}

Plan::~Plan() {
  if (planner_ != nullptr) {
    kind_.planner_destroy(planner_);
  }
}

goblin_status_v1 Plan::read_result(void* self, std::uint64_t task, std::uint32_t output,
                                   goblin_tensor_v1* out) {
  const auto& kept = static_cast<Plan*>(self)->kept_;
  const auto found = kept.find(task);
  if (out == nullptr || found == kept.end() || output >= found->second.list.size()) {
    return GOBLIN_NOT_FOUND;
  }
  *out = found->second.list[output];
  return GOBLIN_OK;
}

std::unique_ptr<Plan> Plan::open(const goblin_kind_v1& kind, const wire::PlanOpen& request,
                                 Tensors inputs, Tensors outputs, wire::PlanOpened& opened) {
  std::unique_ptr<Plan> plan(new Plan(kind, std::move(inputs), std::move(outputs)));
  plan->params_ = to_abi(request.params);
  const goblin_job_v1 job{sizeof job,
                          plan->inputs_.list.data(),
                          plan->inputs_.list.size(),
                          plan->params_.data(),
                          plan->params_.size(),
                          plan->outputs_.list.data(),
                          plan->outputs_.list.size()};
  const goblin_capacity_v1 capacity = to_abi(request.capacity);
  // No state is a null pointer, an empty state is not.
  static constexpr std::byte kEmpty{};
  const void* state = !request.state           ? nullptr
                      : request.state->empty() ? &kEmpty
                                               : request.state->data();
  Outcome made = call_plugin([&](goblin_text_v1* message) {
    return kind.planner_create(kind.self, &job, &capacity, &plan->services_, state,
                               request.state ? request.state->size() : 0, &plan->planner_, message);
  });
  if (made.ok() && plan->planner_ == nullptr) {
    made = {GOBLIN_INTERNAL, "the plugin made no planner, though it says so"};
  }
  const void* bytes = nullptr;
  std::uint64_t size = 0;
  if (made.ok()) {
    made = call_plugin(
        [&](goblin_text_v1*) { return kind.planner_state(plan->planner_, &bytes, &size); });
  } else {
    plan->planner_ = nullptr;
  }
  if (made.ok() && (size > wire::kMaxStateBytes || (size > 0 && bytes == nullptr))) {
    made = {GOBLIN_INTERNAL, "the planner's state has " + std::to_string(size) +
                                 " bytes; at most " + std::to_string(wire::kMaxStateBytes) +
                                 " are possible"};
  }
  opened.status = made.status;
  opened.message = made.message;
  if (!made.ok()) {
    return nullptr;
  }
  const auto* first = static_cast<const std::byte*>(bytes);
  opened.state.assign(first, first + size);
  return plan;
}

wire::Planned Plan::next(const wire::PlanNext& request) {
  const auto began = std::chrono::steady_clock::now();
  wire::Planned planned;
  std::size_t bytes = 0;
  const std::uint64_t hosts = std::min<std::uint64_t>(request.capacity.hosts, wire::kMaxHosts);
  const std::uint64_t most = std::min<std::uint64_t>(
      request.max_tasks, std::clamp<std::uint64_t>(kForEachHost * hosts, kAtOnce, wire::kMaxTasks));
  do {
    const std::size_t before = planned.tasks.size();
    const Outcome said = ask(request.capacity, most - before, planned);
    if (!said.ok()) {
      // A planner that has nothing for so much memory says so again when it is asked again.
      if (said.status == GOBLIN_EXHAUSTED && before > 0) {
        planned.progress = GOBLIN_PLAN_MORE;
        break;
      }
      planned = {};
      planned.status = said.status;
      planned.message = said.message;
      return planned;
    }
    for (std::size_t i = before; i < planned.tasks.size(); ++i) {
      bytes += message_bytes(planned.tasks[i]);
    }
  } while (planned.progress == GOBLIN_PLAN_MORE && planned.tasks.size() < most &&
           bytes < kAnswerBytes && std::chrono::steady_clock::now() - began < kAnswerTime);
  return planned;
}

Outcome Plan::ask(const wire::Capacity& offered, std::uint64_t room, wire::Planned& planned) {
  const PlanSources sources{inputs_.list, &kept_};
  Sink sink{sources, std::min(room, kAtOnce), {}};
  const goblin_task_sink_v1 raw{sizeof raw, &sink, sink.max_tasks, Sink::emit};
  const goblin_capacity_v1 capacity = to_abi(offered);
  std::uint32_t progress = 0;
  Outcome said = call_plugin([&](goblin_text_v1* message) {
    return kind_.planner_next(planner_, &capacity, &raw, &progress, message);
  });
  if (said.ok() && (progress < GOBLIN_PLAN_MORE || progress > GOBLIN_PLAN_DONE)) {
    said = {GOBLIN_INTERNAL,
            "the planner answered the unknown progress " + std::to_string(progress)};
  }
  if (said.ok() && progress == GOBLIN_PLAN_MORE && sink.tasks.empty() && sink.max_tasks > 0) {
    // The lab node would ask for ever.
    said = {GOBLIN_INTERNAL, "the planner says that there is more, but gives no task"};
  }
  if (said.ok()) {
    planned.progress = progress;
    std::move(sink.tasks.begin(), sink.tasks.end(), std::back_inserter(planned.tasks));
  }
  return said;
}

wire::AcceptedTask Plan::accept(const wire::AcceptTask& task, Tensors outputs) {
  wire::AcceptedTask answer;
  answer.id = task.task.id;
  auto refuse = [&](const Outcome& why) {
    answer.status = why.status;
    answer.message = why.message;
    return answer;
  };
  const PlannedForAbi planned(task.task);
  if (planned.error() != nullptr) {
    return refuse(outcome(*planned.error()));
  }
  std::uint32_t disposition = 0;
  Outcome said = call_plugin([&](goblin_text_v1* message) {
    return kind_.planner_accept(planner_, planned.get(),
                                task.has_outputs ? outputs.list.data() : nullptr,
                                outputs.list.size(), &disposition, message);
  });
  if (!said.ok()) {
    return refuse(said);
  }
  if (disposition == GOBLIN_ACCEPT_KEEP && task.has_outputs) {
    kept_[answer.id] = std::move(outputs);
  } else if (disposition == GOBLIN_ACCEPT_MERGED && kind_.planner_recall != nullptr) {
    kept_.erase(answer.id);
  } else {
    return refuse(
        {GOBLIN_INTERNAL, "the planner answered a disposition that is not possible for task " +
                              std::to_string(answer.id) + ": " + std::to_string(disposition)});
  }
  answer.disposition = disposition;
  return answer;
}

wire::Done Plan::recall(const wire::Recall& request, const Tensors& outputs) {
  const PlannedForAbi planned(request.task);
  if (planned.error() != nullptr) {
    return {static_cast<std::int32_t>(planned.error()->code), planned.error()->message};
  }
  if (kind_.planner_recall == nullptr) {
    return {GOBLIN_UNSUPPORTED, "this kind gives no results back"};
  }
  const Outcome said = call_plugin([&](goblin_text_v1* message) {
    return kind_.planner_recall(planner_, planned.get(), outputs.list.data(), outputs.list.size(),
                                message);
  });
  return {said.status, said.message};
}

wire::Done Plan::finish() {
  const Outcome said =
      call_plugin([&](goblin_text_v1* message) { return kind_.planner_finish(planner_, message); });
  return {said.status, said.message};
}

}  // namespace goblin::runner
