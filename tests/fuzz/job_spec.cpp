// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A submission on its way: the lab node's check against the kind's description, views on files that
// hold less than was said, and matmul's own check and planner through the ABI, as a runner calls
// it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "core/plugin/describe.hpp"
#include "goblin/abi/plugin.h"
#include "hosts/lab/job_spec.hpp"
#include "hosts/lab/view.hpp"
#include "hosts/runner/plan.hpp"
#include "hosts/runner/segments.hpp"
#include "tests/fuzz/target.hpp"

extern "C" const goblin_plugin_v1* goblin_plugin_entry_v1(const goblin_host_v1* host);

namespace goblin::fuzz {
namespace {

const goblin_kind_v1& matmul() {
  static const goblin_kind_v1& kind = [&]() -> const goblin_kind_v1& {
    const goblin_host_v1 host{sizeof host, GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR};
    const goblin_plugin_v1* plugin = goblin_plugin_entry_v1(&host);
    expect(plugin != nullptr && plugin->kind_count == 1, "the plugin has its kind");
    return *plugin->kinds[0];
  }();
  return kind;
}
const wire::KindDescription& description() {
  static const wire::KindDescription described = plugin::describe(matmul()).value();
  return described;
}

std::string argument_name(Draw& draw, const char* likely) {
  constexpr const char* kOthers[] = {"a", "b", "out_dtype", "", "c", "A"};
  const std::uint8_t kind = draw.u8();
  return kind < 200 ? likely : kind < 250 ? kOthers[kind % 6] : draw.text(kind % 8);
}

wire::Submit draw_submission(Draw& draw) {
  wire::Submit submit;
  const std::uint64_t inputs = draw.below(4);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    wire::JobInput input;
    input.name = argument_name(draw, i == 0 ? "a" : "b");
    input.dtype = static_cast<wire::DType>(draw.below(GOBLIN_C128 + 2));
    const std::uint64_t rank = draw.below(GOBLIN_MAX_RANK + 2);
    for (std::uint64_t d = 0; d < rank; ++d) input.shape.push_back(draw.integer());
    if (draw.yes()) {
      for (std::uint64_t d = 0; d < rank; ++d) input.strides.push_back(draw.integer());
      if (draw.u8() == 0) input.strides.push_back(4);
    }
    if (draw.yes()) input.offset = static_cast<std::uint64_t>(draw.integer());
    submit.inputs.push_back(std::move(input));
  }
  for (std::uint64_t params = draw.below(3); params > 0; --params) {
    const std::string name = argument_name(draw, "out_dtype");
    const wire::Value value = draw.yes() ? wire::Value::of(draw.integer())
                                         : wire::Value::of(static_cast<double>(draw.integer()) / 3);
    submit.params.push_back({name, value});
  }
  return submit;
}

/// The bytes that a strided tensor touches, by 128-bit arithmetic.
struct Wide {
  __extension__ using Int = __int128;
  Int low = 0, high = 0;
};
Wide touched(const wire::JobInput& input) {
  Wide wide{0, static_cast<Wide::Int>(wire::dtype_size(input.dtype))};
  for (std::size_t d = 0; d < input.shape.size(); ++d) {
    if (input.shape[d] == 0) return {};
    const Wide::Int span = static_cast<Wide::Int>(input.shape[d] - 1) * input.strides[d];
    (span < 0 ? wide.low : wide.high) += span;
  }
  return wide;
}

int empty_file() {
  static const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  return fd;
}

void run_view(const wire::JobInput& input, Draw& draw) {
  const auto extent = lab::extent_of(input.dtype, input.shape, input.strides);
  expect(extent.has_value(), "what the check took has an extent");
  const Wide wide = touched(input);
  expect(extent->low == wide.low && extent->high == wide.high, "an extent is exact");
  lab::TensorFile file;
  file.fd = std::make_shared<const net::UniqueFd>(::dup(empty_file()));
  file.file_bytes = draw.yes() ? 1u << 20 : draw.u64();
  file.offset = input.offset;
  file.dtype = input.dtype;
  file.shape = input.shape;
  file.strides = input.strides;
  if (!lab::check_tensor_file(file, "array")) {
    return;
  }
  const Wide::Int first = static_cast<Wide::Int>(input.offset) + wide.low;
  const Wide::Int last = static_cast<Wide::Int>(input.offset) + wide.high;
  expect(wide.low == wide.high || (first >= 0 && last <= static_cast<Wide::Int>(file.file_bytes)),
         "a tensor that is taken lies in its file");
  wire::View view;
  view.source = GOBLIN_SOURCE_JOB_INPUT;
  view.dtype = draw.u8() == 0 ? static_cast<wire::DType>(draw.below(17)) : input.dtype;
  view.offset = draw.integer();
  for (std::size_t d = 0; d < input.shape.size(); ++d) {
    view.shape.push_back(draw.integer());
    view.strides.push_back(draw.yes() ? input.strides[d] : draw.integer());
  }
  const auto window = lab::window(file, view);
  if (!window) {
    return;
  }
  const auto inner = lab::extent_of(window->dtype, window->shape, window->strides);
  expect(inner.has_value(), "a window has an extent");
  if (inner->low != inner->high) {
    const Wide::Int begin = static_cast<Wide::Int>(window->offset) + inner->low;
    const Wide::Int end = static_cast<Wide::Int>(window->offset) + inner->high;
    expect(begin >= first && end <= last, "a window lies within its source");
  }
}

/// As a runner does with a request to validate: types only. False: refused.
bool run_validate(const std::vector<goblin_tensor_v1>& inputs,
                  const std::vector<goblin_value_v1>& params,
                  std::vector<goblin_tensor_v1>& outputs) {
  const goblin_job_v1 job{
      sizeof job, inputs.data(), inputs.size(), params.data(), params.size(), nullptr, 0};
  outputs.assign(description().outputs.size(), {});
  goblin_estimate_v1 estimate{};
  estimate.struct_size = sizeof estimate;
  std::array<char, 2048> text{};
  goblin_text_v1 message{text.data(), text.size()};
  const goblin_status_v1 status =
      matmul().validate(matmul().self, &job, outputs.data(), &estimate, &message);
  if (status != GOBLIN_OK) {
    expect(status == GOBLIN_INVALID_ARGUMENT || status == GOBLIN_UNSUPPORTED,
           "a kind refuses a specification as such");
    expect(text[0] != '\0' && text.back() == '\0', "a refusal says why");
    return false;
  }
  expect(estimate.flops >= 0 && estimate.bytes >= 0, "estimates are no nonsense");
  for (const goblin_tensor_v1& output : outputs) {
    expect(runner::extent(output).has_value(), "an output's type is sound");
  }
  return true;
}

void run_plan(const lab::ResolvedSpec& spec, std::vector<goblin_tensor_v1> inputs,
              std::vector<goblin_tensor_v1> outputs, Draw& draw) {
  wire::PlanOpen request;
  request.params = spec.params;
  request.capacity.memory_bytes = draw.yes() ? 256u << 20 : draw.u64();
  request.capacity.min_memory_bytes = draw.yes() ? 64u << 20 : draw.u64();
  request.capacity.hosts = draw.u8();
  request.capacity.threads = draw.u8();
  if (draw.u8() < 32) {
    const ByteView state = draw.bytes(draw.u8());
    request.state = Bytes(state.begin(), state.end());
  }
  wire::PlanOpened opened;
  // Nothing may look at data here: tasks are windows, and none is merged.
  const auto plan = runner::Plan::open(matmul(), request, {std::move(inputs), {}},
                                       {std::move(outputs), {}}, opened);
  if (!plan) {
    expect(
        opened.status != GOBLIN_OK && opened.status != GOBLIN_INTERNAL && !opened.message.empty(),
        "a plan that does not open says why");
    return;
  }
  for (int round = 0; round < 3; ++round) {
    const wire::Planned planned = plan->next({request.capacity, 8});
    // copy_planned has held every window against its source: GOBLIN_INTERNAL is a bug of the
    // planner.
    expect(planned.status == GOBLIN_OK || planned.status == GOBLIN_EXHAUSTED ||
               planned.status == GOBLIN_INVALID_ARGUMENT,
           "a planner gives tasks or says what is missing");
    if (planned.status != GOBLIN_OK || planned.progress != GOBLIN_PLAN_MORE) return;
    for (const wire::PlannedTask& task : planned.tasks) {
      expect(task.memory_bytes <= request.capacity.memory_bytes, "tasks fit the host that asks");
    }
  }
}

void run(ByteView input) {
  Draw draw(input);
  const wire::Submit submit = draw_submission(draw);
  const auto spec = lab::resolve_spec(description(), submit);
  if (!spec) {
    expect(spec.error().code == Code::kInvalidArgument && !spec.error().message.empty(),
           "a wrong submission is kInvalidArgument and says why");
    return;
  }
  std::vector<goblin_tensor_v1> inputs;
  std::vector<wire::TensorSpec> types;
  for (const wire::JobInput& one : spec->inputs) {
    if (one.dtype == 0) return;  // matmul has no optional inputs
    run_view(one, draw);
    const auto tensor = runner::make_tensor(one.dtype, one.shape, one.strides);
    if (!tensor) return;  // more bytes than there are: refused by the runner
    inputs.push_back(*tensor);
    types.push_back({one.dtype, one.shape});
  }
  if (!plugin::check_specification(description(), types, spec->params)) {
    return;
  }
  const std::vector<goblin_value_v1> params = runner::to_abi(spec->params);
  std::vector<goblin_tensor_v1> outputs;
  if (run_validate(inputs, params, outputs)) {
    run_plan(*spec, std::move(inputs), std::move(outputs), draw);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto matrix = [](Script& script, unsigned dtype, const std::vector<std::int64_t>& shape) {
    script.u8(0).u32(dtype).u32(shape.size());
    for (const std::int64_t n : shape) script.integer(n);
    script.u8(0).u8(0);  // row-major, from the file's start
  };
  const auto add = [&](unsigned dtype, const std::vector<std::int64_t>& a,
                       const std::vector<std::int64_t>& b) {
    Script script;
    script.u32(2);
    matrix(script, dtype, a);
    matrix(script, dtype, b);
    script.u32(0);                 // no parameters
    for (int i = 0; i < 2; ++i) {  // views on both
      const auto rank = static_cast<unsigned>(i == 0 ? a.size() : b.size());
      script.u8(1).u8(1).integer(0);
      for (unsigned d = 0; d < rank; ++d) script.integer(1).u8(1);
    }
    script.u8(1).u8(1).u8(4).u8(2).u8(255);
    all.push_back(script.take());
  };
  add(GOBLIN_F32, {1000, 700}, {700, 300});
  add(GOBLIN_F64, {3, 5, 7}, {7});
  add(GOBLIN_I8, {64}, {2, 64, 9000});
  add(GOBLIN_C128, {0, 4}, {4, 0});
  add(GOBLIN_F16, {100'000, 100'000}, {100'000, 100'000});
  add(GOBLIN_F32, {std::int64_t{1} << 40, std::int64_t{1} << 20}, {std::int64_t{1} << 20, 3});
  return all;
}

}  // namespace

Target job_spec_target() { return {"job_spec", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
