// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages between clients and lab nodes, commands and daemons (client.capnp).
#include "core/wire/client.hpp"

#include "client.capnp.h"
#include "core/wire/codec_runner.hpp"

namespace goblin::wire {
/// A line of a report; the schema calls it Words.
using Words = std::pair<std::string, std::string>;
}  // namespace goblin::wire

namespace goblin::wire::codec {

GOBLIN_WIRE_STRUCT(JobInput) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_DTYPE(dtype, Dtype, GOBLIN_BOOL);
  GOBLIN_NUMBERS(shape, Shape, GOBLIN_MAX_RANK);
  GOBLIN_STRIDES(strides, Strides, true);
  GOBLIN_ENUM(storage, Storage, Storage::kStaged, Storage::kBlob);
  GOBLIN_NUMBER(stage, Stage);
  GOBLIN_NUMBER(fd_index, FdIndex);
  GOBLIN_TEXT(path, Path, kMaxPathBytes);
  GOBLIN_NUMBER(offset, Offset);
  GOBLIN_DIGEST(digest, Digest);
  if constexpr (Pass::kGet) {
    GOBLIN_AT(shape);
    pass.extents(m.dtype, m.shape);
  }
}
GOBLIN_WIRE_STRUCT(JobOutputFile) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_NUMBER(fd_index, FdIndex);
  GOBLIN_TEXT(path, Path, kMaxPathBytes);
  GOBLIN_NUMBER(offset, Offset);
}
GOBLIN_WIRE_STRUCT(NamedValue) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_STRUCT(value, Value);
}
GOBLIN_WIRE_STRUCT(Words) {
  GOBLIN_MESSAGE(first, Name);
  GOBLIN_MESSAGE(second, Value);
}

GOBLIN_WIRE_STRUCT(Stage) { GOBLIN_NUMBER(size, Size); }
GOBLIN_WIRE_STRUCT(Submit) {
  if constexpr (Pass::kPut) {
    const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(m.token);
    s.setTokenLow(halves[0]);
    s.setTokenHigh(halves[1]);
  }
  if constexpr (Pass::kGet)
    m.token = std::bit_cast<std::array<std::uint8_t, 16>>(
        std::array<std::uint64_t, 2>{s.getTokenLow(), s.getTokenHigh()});
  GOBLIN_TEXT(kind, Kind, kMaxNameBytes);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(params, Params, kMaxParams);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_ENUM(policy, Policy, Policy::kDefault, Policy::kAdaptive);
  GOBLIN_NUMBER(replicas, Replicas);
  GOBLIN_NUMBER(weight, Weight);
  GOBLIN_NUMBER(dry_run, DryRun);
  GOBLIN_NUMBER(forecast, Forecast);
}
GOBLIN_WIRE_STRUCT_AS(GetJob, JobNumber) {
  GOBLIN_NUMBER(job, Job);
  GOBLIN_NUMBER(watch, Watch);
}
GOBLIN_WIRE_STRUCT_AS(CancelJob, JobNumber) { GOBLIN_NUMBER(job, Job); }
GOBLIN_WIRE_STRUCT_AS(ExplainJob, JobNumber) { GOBLIN_NUMBER(job, Job); }
GOBLIN_WIRE_STRUCT_AS(GetResult, JobNumber) { GOBLIN_NUMBER(job, Job); }
GOBLIN_WIRE_STRUCT_AS(ForgetJob, JobNumber) { GOBLIN_NUMBER(job, Job); }
GOBLIN_WIRE_STRUCT_AS(EstimateJob, JobNumber) { GOBLIN_NUMBER(job, Job); }
GOBLIN_WIRE_STRUCT(Control) {
  GOBLIN_TEXT(command, Command, kMaxNameBytes);
  GOBLIN_LIST(values, Values, kMaxParams);
}
GOBLIN_WIRE_STRUCT(Request) {
  GOBLIN_NUMBER(number, Number);
  GOBLIN_CASE(Stage, Stage);
  GOBLIN_CASE(Submit, Submit);
  GOBLIN_CASE(GetJob, GetJob);
  GOBLIN_CASE_EMPTY(GetJobs, GetJobs);
  GOBLIN_CASE(CancelJob, CancelJob);
  GOBLIN_CASE(ExplainJob, ExplainJob);
  GOBLIN_CASE(GetResult, GetResult);
  GOBLIN_CASE(ForgetJob, ForgetJob);
  GOBLIN_CASE_EMPTY(GetHosts, GetHosts);
  GOBLIN_CASE_EMPTY(GetKinds, GetKinds);
  GOBLIN_CASE_EMPTY(GetStatus, GetStatus);
  GOBLIN_CASE(Control, Control);
  GOBLIN_CASE(EstimateJob, EstimateJob);
  GOBLIN_NO_OTHER_CASE();
}

GOBLIN_WIRE_STRUCT(Staged) { GOBLIN_NUMBER(stage, Stage); }
GOBLIN_WIRE_STRUCT(OutputInfo) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_STRUCT(spec, Spec);
  GOBLIN_NUMBER(staged, Staged);
  GOBLIN_NUMBER(offset, Offset);
  GOBLIN_DIGEST(digest, Digest);
}
GOBLIN_WIRE_STRUCT(JobStatus) {
  GOBLIN_NUMBER(job, Job);
  GOBLIN_TEXT(kind, Kind, kMaxNameBytes);
  GOBLIN_ENUM(state, State, JobState::kQueued, JobState::kCancelled);
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_NUMBER(tasks_planned, TasksPlanned);
  GOBLIN_NUMBER(tasks_running, TasksRunning);
  GOBLIN_NUMBER(tasks_accepted, TasksAccepted);
  GOBLIN_NUMBER(plan_done, PlanDone);
  GOBLIN_AMOUNT(flops_total, FlopsTotal);
  GOBLIN_AMOUNT(flops_accepted, FlopsAccepted);
  GOBLIN_NUMBER(results_checked, ResultsChecked);
  GOBLIN_NUMBER(results_refused, ResultsRefused);
  GOBLIN_NUMBER(recomputed, Recomputed);
  GOBLIN_NUMBER(bytes_sent, BytesSent);
  GOBLIN_NUMBER(bytes_received, BytesReceived);
  GOBLIN_NUMBER(compute_us, ComputeUs);
  GOBLIN_NUMBER(check_us, CheckUs);
  GOBLIN_NUMBER(wall_us, WallUs);
  GOBLIN_NUMBER(hosts, Hosts);
}
GOBLIN_WIRE_STRUCT(JobList) { GOBLIN_LIST(jobs, Jobs, kMaxJobs); }
GOBLIN_WIRE_STRUCT(HostReport) {
  GOBLIN_DIGEST(host, Host);
  GOBLIN_NUMBER(connected, Connected);
  GOBLIN_NUMBER(validator, Validator);
  GOBLIN_STRUCT(capacity, Capacity);
  GOBLIN_ENUM(state, State, HostState::kReady, HostState::kStopping);
  GOBLIN_NUMBER(leases, Leases);
  GOBLIN_NUMBER(accepted, Accepted);
  GOBLIN_NUMBER(refused, Refused);
  GOBLIN_NUMBER(failed, Failed);
  GOBLIN_NUMBER(compute_us, ComputeUs);
  GOBLIN_NUMBER(bytes_sent, BytesSent);
  GOBLIN_NUMBER(bytes_received, BytesReceived);
  GOBLIN_NUMBER(peak_bytes, PeakBytes);
  GOBLIN_NUMBER(quarantined, Quarantined);
  GOBLIN_MESSAGE(reason, Reason);
  GOBLIN_NUMBER(confirmed, Confirmed);
  GOBLIN_NUMBER(passed, Passed);
  GOBLIN_NUMBER(faults, Faults);
  GOBLIN_NUMBER(forgiven, Forgiven);
}
GOBLIN_WIRE_STRUCT(HostList) { GOBLIN_LIST(hosts, Hosts, kMaxHosts); }
GOBLIN_WIRE_STRUCT(KindInfo) {
  GOBLIN_STRUCT(description, Description);
  GOBLIN_DIGEST(plugin, Plugin);
}
GOBLIN_WIRE_STRUCT(KindList) { GOBLIN_LIST(kinds, Kinds, kMaxKinds); }
GOBLIN_WIRE_STRUCT(Incident) {
  GOBLIN_NUMBER(task, Task);
  GOBLIN_DIGEST(host, Host);
  GOBLIN_MESSAGE(what, What);
  GOBLIN_MESSAGE(detail, Detail);
}
GOBLIN_WIRE_STRUCT(Explanation) {
  GOBLIN_STRUCT(status, Status);
  GOBLIN_ENUM(policy, Policy, Policy::kDefault, Policy::kAdaptive);
  GOBLIN_NUMBER(replicas, Replicas);
  GOBLIN_LIST(hosts, Hosts, kMaxHosts);
  GOBLIN_LIST(incidents, Incidents, kMaxIncidents);
  GOBLIN_NUMBER(incident_count, IncidentCount);
  GOBLIN_LIST(plan, Plan, kMaxReportLines);
}
GOBLIN_WIRE_STRUCT(Estimated) {
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_AMOUNT(flops, Flops);
  GOBLIN_AMOUNT(bytes, Bytes);
  GOBLIN_NUMBER(min_task_bytes, MinTaskBytes);
  GOBLIN_NUMBER(forecast, Forecast);
  GOBLIN_AMOUNT(seconds, Seconds);
  GOBLIN_ENUM(bound, Bound, Bound::kHostsSpeed, Bound::kHostLink);
  GOBLIN_AMOUNT(hosts_speed_s, HostsSpeedS);
  GOBLIN_AMOUNT(lab_link_s, LabLinkS);
  GOBLIN_AMOUNT(host_link_s, HostLinkS);
  GOBLIN_AMOUNT(bytes_to_hosts, BytesToHosts);
  GOBLIN_AMOUNT(bytes_from_hosts, BytesFromHosts);
  GOBLIN_AMOUNT(flops_computed, FlopsComputed);
  GOBLIN_AMOUNT(flops_per_s, FlopsPerS);
  GOBLIN_AMOUNT(lab_to_hosts, LabToHosts);
  GOBLIN_AMOUNT(lab_from_hosts, LabFromHosts);
  GOBLIN_AMOUNT(slowest_to_host, SlowestToHost);
  GOBLIN_AMOUNT(slowest_from_host, SlowestFromHost);
  GOBLIN_AMOUNT(longest_rtt_s, LongestRttS);
  GOBLIN_NUMBER(hosts, Hosts);
  GOBLIN_NUMBER(starts, Starts);
  GOBLIN_AMOUNT(planned_share, PlannedShare);
  GOBLIN_NUMBER(speeds_assumed, SpeedsAssumed);
  GOBLIN_NUMBER(jobs_beside, JobsBeside);
  GOBLIN_AMOUNT(remaining, Remaining);
}
GOBLIN_WIRE_STRUCT(StatusReport) { GOBLIN_LIST(fields, Fields, kMaxReportLines); }
GOBLIN_WIRE_STRUCT(Reply) {
  GOBLIN_NUMBER(number, Number);
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_CASE_EMPTY(Ok, Ok);
  GOBLIN_CASE(Staged, Staged);
  GOBLIN_CASE(JobStatus, JobStatus);
  GOBLIN_CASE(JobList, JobList);
  GOBLIN_CASE(HostList, HostList);
  GOBLIN_CASE(KindList, KindList);
  GOBLIN_CASE(Explanation, Explanation);
  GOBLIN_CASE(Estimated, Estimated);
  GOBLIN_CASE(StatusReport, StatusReport);
  GOBLIN_NO_OTHER_CASE();
}
GOBLIN_WIRE_STRUCT(Event) { GOBLIN_STRUCT(status, Status); }

}  // namespace goblin::wire::codec

namespace goblin::wire {
GOBLIN_WIRE_CLIENT_MESSAGES(GOBLIN_WIRE_DEFINE)
}  // namespace goblin::wire
