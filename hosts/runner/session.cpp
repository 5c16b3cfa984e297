// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/session.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "core/plugin/describe.hpp"
#include "core/plugin/runner_exit.hpp"
#include "goblin/tensor.hpp"
#include "hosts/runner/call.hpp"

namespace goblin::runner {
namespace {

using wire::FrameType;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMaxThreads = 4096;

// What a lab node's runners may keep of a job's arrays in memory. Checks of tasks that share
// operands would have the same pages brought in again and again with less; merges share none.
constexpr std::uint64_t kCheckMemory = 256u << 20;
constexpr std::uint64_t kMergeMemory = 96u << 20;

std::uint64_t microseconds_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

/// Of all threads of this process. A lab node's runner shares its cores with whatever else runs
/// there: elapsed time would say more of that than of the check.
std::uint64_t processor_microseconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(used.tv_nsec) / 1'000;
}

template <typename Message>
Message failed(const Error& error) {
  Message message;
  message.status = static_cast<std::int32_t>(error.code);
  message.message = error.message;
  return message;
}

std::string task_name(std::uint64_t id) { return "task " + std::to_string(id); }

/// Is there a tensor of the right type for each of these outputs?
Result<void> expect_types(std::span<const wire::TensorAt> tensors,
                          std::span<const wire::TensorSpec> outputs, const std::string& what) {
  if (tensors.size() != outputs.size()) {
    return fail(Code::kInvalidArgument, what + " has " + std::to_string(outputs.size()) +
                                            " outputs; tensors for " +
                                            std::to_string(tensors.size()) + " were given");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (tensors[i].dtype != outputs[i].dtype || tensors[i].shape != outputs[i].shape) {
      return fail(Code::kInvalidArgument, "output " + std::to_string(i) + " of " + what + " is " +
                                              describe_type(outputs[i].dtype, outputs[i].shape) +
                                              "; the tensor for it is " +
                                              describe_type(tensors[i].dtype, tensors[i].shape));
    }
  }
  return {};
}

/// Runs a handler that allocates; memory may be capped.
template <typename Message, typename Handler>
Message guarded(Handler&& handler) {
  try {
    return handler();
  } catch (const std::bad_alloc&) {
    return failed<Message>({Code::kExhausted, "the runner is out of memory"});
  }
}

/// For what an earlier execute may have made read only.
Result<void> allow_writes(const Tensors& outputs) {
  for (const auto& segment : outputs.hold) {
    GOBLIN_TRY_VOID(segment->allow_writes(true));
  }
  return {};
}

}  // namespace

Result<std::optional<Answer>> Session::handle(Incoming frame) {
  auto answer = [](FrameType type, const auto& message) -> std::optional<Answer> {
    return Answer{type, encode(message)};
  };
  const wire::ByteView bytes = frame.message;
  if (frame.type == FrameType::kRunnerLoad) {
    GOBLIN_TRY(const auto request, wire::decode_runner_load(bytes));
    if (plugin_) {
      return fail(Code::kCorrupt, "a second plugin for one runner");
    }
    return answer(FrameType::kRunnerLoaded,
                  guarded<wire::RunnerLoaded>([&] { return load(request, frame.fds); }));
  }
  if (!plugin_) {
    return fail(Code::kCorrupt, "a request before a plugin was loaded");
  }
  const Error no_plan{Code::kInvalidArgument, "no plan is open"};
  switch (frame.type) {
    case FrameType::kSegmentMap: {
      GOBLIN_TRY(const auto request, wire::decode_segment_map(bytes));
      const net::UniqueFd none;
      segments_.map(request, frame.fds.size() == 1 ? frame.fds[0] : none);
      return std::nullopt;
    }
    case FrameType::kSegmentUnmap: {
      GOBLIN_TRY(const auto request, wire::decode_segment_unmap(bytes));
      segments_.unmap(request.segments);
      return std::nullopt;
    }
    case FrameType::kExecute: {
      GOBLIN_TRY(const auto request, wire::decode_execute(bytes));
      return answer(FrameType::kExecuted, execute(request));
    }
    case FrameType::kValidate: {
      GOBLIN_TRY(const auto request, wire::decode_validate(bytes));
      return answer(FrameType::kValidated,
                    guarded<wire::Validated>([&] { return validate(request); }));
    }
    case FrameType::kPlanOpen: {
      GOBLIN_TRY(const auto request, wire::decode_plan_open(bytes));
      return answer(FrameType::kPlanOpened,
                    guarded<wire::PlanOpened>([&] { return plan_open(request); }));
    }
    case FrameType::kPlanNext: {
      GOBLIN_TRY(const auto request, wire::decode_plan_next(bytes));
      return answer(FrameType::kPlanned, guarded<wire::Planned>([&] {
                      return plan_ ? plan_->next(request) : failed<wire::Planned>(no_plan);
                    }));
    }
    case FrameType::kAccept: {
      GOBLIN_TRY(const auto request, wire::decode_accept(bytes));
      return answer(FrameType::kAccepted, accept(request));
    }
    case FrameType::kRecall: {
      GOBLIN_TRY(const auto request, wire::decode_recall(bytes));
      return answer(FrameType::kDone, guarded<wire::Done>([&]() -> wire::Done {
                      if (!plan_) {
                        return failed<wire::Done>(no_plan);
                      }
                      auto outputs = segments_.resolve(request.outputs, Access::kWrite, "output");
                      const auto fit = expect_types(request.outputs, request.task.outputs,
                                                    task_name(request.task.id));
                      if (!outputs || !fit) {
                        return failed<wire::Done>(outputs ? fit.error() : outputs.error());
                      }
                      if (auto opened = allow_writes(*outputs); !opened) {
                        return failed<wire::Done>(opened.error());
                      }
                      return plan_->recall(request, *outputs);
                    }));
    }
    case FrameType::kFinish: {
      GOBLIN_TRY_VOID(wire::decode_finish(bytes).map([](const auto&) {}));
      return answer(FrameType::kDone, guarded<wire::Done>([&] {
                      return plan_ ? plan_->finish() : failed<wire::Done>(no_plan);
                    }));
    }
    case FrameType::kCheck: {
      GOBLIN_TRY(const auto request, wire::decode_check(bytes));
      return answer(FrameType::kChecked, check(request));
    }
    case FrameType::kCompare: {
      GOBLIN_TRY(const auto request, wire::decode_compare(bytes));
      return answer(FrameType::kChecked, compare(request));
    }
    default:
      return fail(Code::kCorrupt, "frame type " +
                                      std::to_string(static_cast<unsigned>(frame.type)) +
                                      " is no request to a runner");
  }
}

wire::RunnerLoaded Session::load(const wire::RunnerLoad& request,
                                 const std::vector<net::UniqueFd>& fds) {
  auto prepare = [&]() -> Result<void> {
    if (fds.size() != 1) {
      return fail(Code::kInvalidArgument, "the plugin's descriptor is missing");
    }
    if (request.threads == 0 || request.threads > kMaxThreads) {
      return fail(Code::kInvalidArgument,
                  "a runner cannot have " + std::to_string(request.threads) + " threads");
    }
    threads_ = request.threads;
    GOBLIN_TRY_VOID(cap_memory(request.memory_bytes, threads_));
    GOBLIN_TRY(backend_, plugin::BackendLibrary::load(request.backend, request.device));
    GOBLIN_TRY_VOID(close_jail_(plugin::most_threads(threads_)));
    GOBLIN_TRY(plugin_, plugin::PluginLibrary::load(fds[0].get()));
    return {};
  };
  if (auto done = prepare(); !done) {
    return failed<wire::RunnerLoaded>(done.error());
  }
  wire::RunnerLoaded loaded;
  loaded.kinds = plugin_->descriptions();
  loaded.device = backend_->device_name();
  return loaded;
}

Result<const goblin_kind_v1*> Session::kind(std::uint32_t index) const {
  if (index >= plugin_->size()) {
    return fail(Code::kNotFound, "the plugin has " + std::to_string(plugin_->size()) +
                                     " kinds; number " + std::to_string(index) + " was asked for");
  }
  return &plugin_->kind(index);
}

goblin_exec_v1 Session::exec() const {
  goblin_exec_v1 exec{};
  exec.struct_size = sizeof exec;
  exec.threads = threads_;
  exec.device = backend_->device_index();
  exec.numerics = GOBLIN_NUMERICS_CANONICAL;
  exec.context = const_cast<Cancellation*>(&cancellation_);
  exec.cancelled = [](void* context) -> std::int32_t {
    return static_cast<const Cancellation*>(context)->now() ? 1 : 0;
  };
  return exec;
}

Result<std::unique_ptr<Session::Mapped>> Session::map_task(const wire::RunnerTask& task,
                                                           Access inputs, Access outputs) const {
  auto mapped = std::make_unique<Mapped>();
  GOBLIN_TRY(mapped->kind, kind(task.kind));
  mapped->params = to_abi(task.params);
  GOBLIN_TRY(mapped->inputs, segments_.resolve(task.inputs, inputs, "input"));
  GOBLIN_TRY(mapped->outputs, segments_.resolve(task.outputs, outputs, "output"));
  mapped->task = {sizeof mapped->task,         task.id,
                  mapped->params.data(),       mapped->params.size(),
                  mapped->inputs.list.data(),  mapped->inputs.list.size(),
                  mapped->outputs.list.data(), mapped->outputs.list.size()};
  return mapped;
}

wire::Executed Session::execute(const wire::Execute& request) {
  wire::Executed executed;
  const goblin_exec_v1 exec = this->exec();
  // Results are hashed and sent from where they lie, so nobody here may write to them once they are
  // answered for: a thread that a plugin left behind would make its host look like a liar.
  std::vector<std::shared_ptr<const Segment>> open;
  const auto open_outputs = [&open](const Tensors& outputs) -> Result<void> {
    for (const auto& segment : outputs.hold) {
      if (std::find(open.begin(), open.end(), segment) == open.end()) {
        GOBLIN_TRY_VOID(segment->allow_writes(true));
        open.push_back(segment);
      }
    }
    return {};
  };
  for (const wire::RunnerTask& task : request.tasks) {
    const auto start = Clock::now();
    Outcome said;
    if (cancellation_.now()) {
      said = {GOBLIN_CANCELLED, "cancelled before it began"};
    } else {
      said = guarded<Outcome>([&] {
        auto mapped = map_task(task, Access::kReadRowMajor, Access::kWrite);
        if (!mapped) {
          return outcome(mapped.error());
        }
        Mapped& m = **mapped;
        m.task.id = 0;  // a host's plugin learns nothing of the plan
        if (auto opened = open_outputs(m.outputs); !opened) {
          return outcome(opened.error());
        }
        return call_plugin([&](goblin_text_v1* message) {
          return m.kind->execute(m.kind->self, &m.task, &backend_->table(), &exec, message);
        });
      });
    }
    executed.tasks.push_back({task.id, said.status, said.message, microseconds_since(start)});
  }
  // Beside a plan (a lab node's, or a test's that plays both sides) the memory may be the plan's.
  if (plan_) {
    open.clear();
  }
  for (const auto& segment : open) {
    if (auto closed = segment->allow_writes(false); !closed) {
      for (auto& task : executed.tasks) {
        task.status = static_cast<std::int32_t>(closed.error().code);
        task.message = closed.error().message;
      }
    }
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  executed.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  auto microseconds = [](const timeval& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(t.tv_usec);
  };
  executed.cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  return executed;
}

wire::Validated Session::validate(const wire::Validate& request) {
  auto run = [&]() -> Result<wire::Validated> {
    GOBLIN_TRY(const goblin_kind_v1* kind, this->kind(request.kind));
    const wire::KindDescription& described = plugin_->descriptions()[request.kind];
    std::vector<wire::TensorSpec> specs;
    std::vector<goblin_tensor_v1> inputs;
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      const wire::TensorAt& at = request.inputs[i];
      specs.push_back({at.dtype, at.shape});
      if (at.dtype == 0) {
        inputs.push_back({});
        continue;
      }
      auto tensor = make_tensor(at.dtype, at.shape, at.strides);
      if (!tensor) {
        return fail(tensor.error().with_context(i < described.inputs.size()
                                                    ? "argument '" + described.inputs[i].name + "'"
                                                    : "input " + std::to_string(i)));
      }
      inputs.push_back(*tensor);
    }
    GOBLIN_TRY_VOID(plugin::check_specification(described, specs, request.params));
    const std::vector<goblin_value_v1> params = to_abi(request.params);
    const goblin_job_v1 job{
        sizeof job, inputs.data(), inputs.size(), params.data(), params.size(), nullptr, 0};
    std::vector<goblin_tensor_v1> outputs(described.outputs.size());
    goblin_estimate_v1 estimate{};
    estimate.struct_size = sizeof estimate;
    const Outcome said = call_plugin([&](goblin_text_v1* message) {
      return kind->validate(kind->self, &job, outputs.data(), &estimate, message);
    });
    if (!said.ok()) {
      return fail(code_from_status(said.status), said.message);
    }
    wire::Validated validated;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      // Checked before rank is believed.
      GOBLIN_TRY([[maybe_unused]] const Extent touched, extent(outputs[i]));
      wire::TensorSpec spec{outputs[i].dtype,
                            {outputs[i].shape, outputs[i].shape + outputs[i].rank}};
      if (auto size = spec.size_bytes(); !size) {
        return fail(size.error().with_context("output '" + described.outputs[i].name + "'"));
      }
      validated.outputs.push_back(std::move(spec));
    }
    if (!(estimate.flops >= 0) || !(estimate.bytes >= 0) || std::isinf(estimate.flops) ||
        std::isinf(estimate.bytes)) {
      return fail(Code::kInternal, "the kind's estimate of flops or bytes is no number");
    }
    validated.flops = estimate.flops;
    validated.bytes = estimate.bytes;
    validated.min_task_bytes = estimate.min_task_bytes;
    return validated;
  };
  auto validated = run();
  return validated ? std::move(*validated) : failed<wire::Validated>(validated.error());
}

wire::PlanOpened Session::plan_open(const wire::PlanOpen& request) {
  plan_.reset();
  wire::PlanOpened opened;
  auto run = [&]() -> Result<void> {
    GOBLIN_TRY(const goblin_kind_v1* kind, this->kind(request.kind));
    // A planner is made for jobs that the kind accepts, and writes outputs of the types that it
    // promised: whoever asks for anything else must not reach it.
    const wire::Validated validated = validate({request.kind, request.inputs, request.params});
    if (validated.status != GOBLIN_OK) {
      return fail(code_from_status(validated.status), validated.message);
    }
    GOBLIN_TRY(Tensors inputs, segments_.resolve(request.inputs, Access::kRead, "input"));
    GOBLIN_TRY(Tensors outputs, segments_.resolve(request.outputs, Access::kWrite, "output"));
    GOBLIN_TRY_VOID(expect_types(request.outputs, validated.outputs, "the job"));
    GOBLIN_TRY_VOID(allow_writes(outputs));
    plan_ = Plan::open(*kind, request, std::move(inputs), std::move(outputs), opened);
    return {};
  };
  if (auto done = run(); !done) {
    return failed<wire::PlanOpened>(done.error());
  }
  return opened;
}

wire::Accepted Session::accept(const wire::Accept& request) {
  wire::Accepted accepted;
  for (const wire::AcceptTask& task : request.tasks) {
    auto answer = guarded<wire::AcceptedTask>([&] {
      if (!plan_) {
        return failed<wire::AcceptedTask>({Code::kInvalidArgument, "no plan is open"});
      }
      auto outputs = segments_.resolve(task.outputs, Access::kRead, "output");
      if (outputs && task.has_outputs) {
        const auto fit = expect_types(task.outputs, task.task.outputs, task_name(task.task.id));
        if (!fit) {
          return failed<wire::AcceptedTask>(fit.error());
        }
      }
      if (!outputs) {
        return failed<wire::AcceptedTask>(outputs.error());
      }
      segments_.keep_within(kMergeMemory);
      return plan_->accept(task, std::move(*outputs));
    });
    answer.id = task.task.id;
    accepted.tasks.push_back(std::move(answer));
  }
  return accepted;
}

wire::Checked Session::check(const wire::Check& request) {
  wire::Checked checked;
  goblin_exec_v1 exec = this->exec();
  // A check may read far more than fits: it is asked now and then whether to go on, and then lets
  // go.
  struct Going {
    const Cancellation& cancellation;
    Segments& segments;
  } going{cancellation_, segments_};
  exec.context = &going;
  exec.cancelled = [](void* context) -> std::int32_t {
    const auto& now = *static_cast<const Going*>(context);
    now.segments.keep_within(kCheckMemory);
    return now.cancellation.now() ? 1 : 0;
  };
  for (const wire::CheckTask& item : request.tasks) {
    const std::uint64_t start = processor_microseconds();
    std::uint32_t verdict = GOBLIN_VERDICT_ABSTAIN;
    Outcome said = guarded<Outcome>([&] {
      auto mapped = map_task(item.task, Access::kRead, Access::kRead);
      if (!mapped) {
        return outcome(mapped.error());
      }
      const Mapped& m = **mapped;
      if (m.kind->check == nullptr) {
        return Outcome{};
      }
      return call_plugin([&](goblin_text_v1* message) {
        return m.kind->check(m.kind->self, &m.task, &backend_->table(), &exec, item.seed.data(),
                             &verdict, message);
      });
    });
    if (said.ok() && (verdict < GOBLIN_VERDICT_ACCEPT || verdict > GOBLIN_VERDICT_ABSTAIN)) {
      said = {GOBLIN_INTERNAL, "check answered the unknown verdict " + std::to_string(verdict)};
    }
    checked.tasks.push_back({item.task.id, said.status, said.ok() ? verdict : 0, said.message,
                             processor_microseconds() - start});
  }
  return checked;
}

wire::Checked Session::compare(const wire::Compare& request) {
  const auto start = Clock::now();
  std::uint32_t verdict = 0;
  Outcome said = guarded<Outcome>([&] {
    auto mapped = map_task(request.canonical, Access::kRead, Access::kRead);
    if (!mapped) {
      return outcome(mapped.error());
    }
    auto other = segments_.resolve(request.other, Access::kRead, "other output");
    if (!other) {
      return outcome(other.error());
    }
    const Mapped& m = **mapped;
    if (m.kind->compare != nullptr) {
      return call_plugin([&](goblin_text_v1* message) {
        return m.kind->compare(m.kind->self, &m.task, other->list.data(), other->list.size(),
                               &verdict, message);
      });
    }
    bool same = m.outputs.list.size() == other->list.size();
    for (std::size_t i = 0; same && i < other->list.size(); ++i) {
      same = bits_equal(Tensor(m.outputs.list[i]), Tensor(other->list[i]));
    }
    verdict = same ? GOBLIN_VERDICT_ACCEPT : GOBLIN_VERDICT_REJECT;
    return Outcome{};
  });
  if (said.ok() && verdict != GOBLIN_VERDICT_ACCEPT && verdict != GOBLIN_VERDICT_REJECT) {
    said = {GOBLIN_INTERNAL, "compare answered the unknown verdict " + std::to_string(verdict)};
  }
  wire::Checked checked;
  checked.tasks.push_back({request.canonical.id, said.status, said.ok() ? verdict : 0, said.message,
                           microseconds_since(start)});
  return checked;
}

}  // namespace goblin::runner
