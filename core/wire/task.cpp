// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages about work between hosts and lab nodes (task.capnp).
#include "core/wire/codec_task.hpp"

namespace goblin::wire::codec {

GOBLIN_WIRE_STRUCT(HostOffer) {
  GOBLIN_STRUCT(capacity, Capacity);
  GOBLIN_ENUM(state, State, HostState::kReady, HostState::kStopping);
}

GOBLIN_WIRE_STRUCT(Lease) {
  GOBLIN_NUMBER(lease, Lease);
  GOBLIN_NUMBER(job, Job);
  GOBLIN_DIGEST(plugin, Plugin);
  GOBLIN_NUMBER(kind, Kind);
  GOBLIN_LIST(params, Params, kMaxParams);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_AMOUNT(flops, Flops);
  GOBLIN_NUMBER(memory_bytes, MemoryBytes);
  GOBLIN_NUMBER(deadline_ms, DeadlineMs);
}
GOBLIN_WIRE_STRUCT(Leases) { GOBLIN_LIST(leases, Leases, kMaxTasks); }

GOBLIN_WIRE_STRUCT(TaskResult) {
  GOBLIN_NUMBER(lease, Lease);
  GOBLIN_STATUS(status, Status);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_NUMBER(compute_us, ComputeUs);
  GOBLIN_NUMBER(fetch_us, FetchUs);
  GOBLIN_NUMBER(peak_bytes, PeakBytes);
  if constexpr (Pass::kGet) {
    GOBLIN_AT(outputs);
    if (m.status != GOBLIN_OK && !m.outputs.empty())
      pass.refuse("outputs of a task that failed with status " + std::to_string(m.status));
  }
}
GOBLIN_WIRE_STRUCT(Results) { GOBLIN_LIST(results, Results, kMaxTasks); }

GOBLIN_WIRE_STRUCT(CancelLeases) { GOBLIN_NUMBERS(leases, Leases, kMaxIds); }
GOBLIN_WIRE_STRUCT(HandBack) {
  GOBLIN_NUMBERS(leases, Leases, kMaxIds);
  GOBLIN_ENUM(reason, Reason, Code::kInvalidArgument, Code::kInternal);
}
GOBLIN_WIRE_STRUCT(Heartbeat) { GOBLIN_NUMBERS(running, Running, kMaxIds); }
GOBLIN_WIRE_STRUCT(ReleaseResults) { GOBLIN_NUMBERS(leases, Leases, kMaxIds); }
GOBLIN_WIRE_STRUCT(LinkProbe) {
  GOBLIN_NUMBER(number, Number);
  GOBLIN_AT_MOST(index, Index, kMaxLinkFrames - 1);
  GOBLIN_AT_MOST(count, Count, kMaxLinkFrames);
  GOBLIN_AT_MOST(answers, Answers, kMaxLinkFrames);
}
GOBLIN_WIRE_STRUCT(LinkEcho) {
  GOBLIN_NUMBER(number, Number);
  GOBLIN_AT_MOST(index, Index, kMaxLinkFrames - 1);
  GOBLIN_AT_MOST(count, Count, kMaxLinkFrames);
  GOBLIN_NUMBER(bytes, Bytes);
  GOBLIN_NUMBER(micros, Micros);
}
GOBLIN_WIRE_STRUCT(Standing) {
  GOBLIN_NUMBER(faults, Faults);
  GOBLIN_NUMBER(forgiven, Forgiven);
  GOBLIN_NUMBER(suspended_ms, SuspendedMs);
}

}  // namespace goblin::wire::codec

namespace goblin::wire {
GOBLIN_WIRE_DEFINE(HostOffer, host_offer)
GOBLIN_WIRE_DEFINE(Leases, leases)
GOBLIN_WIRE_DEFINE(Results, results)
GOBLIN_WIRE_DEFINE(CancelLeases, cancel_leases)
GOBLIN_WIRE_DEFINE(HandBack, hand_back)
GOBLIN_WIRE_DEFINE(Heartbeat, heartbeat)
GOBLIN_WIRE_DEFINE(ReleaseResults, release_results)
GOBLIN_WIRE_DEFINE(LinkProbe, link_probe)
GOBLIN_WIRE_DEFINE(LinkEcho, link_echo)
GOBLIN_WIRE_DEFINE(Standing, standing)
}  // namespace goblin::wire
