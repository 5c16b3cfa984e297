// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages between a client (Python, the goblin command) and a lab node, or a command and the
// daemon that it asks. A kRequest frame carries a Request, its kReply the Reply of the same number;
// kEvent frames report on watched jobs. These stay in the lab: text is allowed.
#pragma once

#include <map>
#include <optional>
#include <variant>

#include "core/wire/runner.hpp"

namespace goblin::wire {

/// Where an input's bytes are, or an output's shall go.
enum class Storage : std::uint8_t {
  kStaged = 1,  ///< a file of the lab node that both sides map (see Stage)
  kFile = 2,    ///< a file of the researcher: its descriptor comes with the frame (`fd_index`)
  kBlob = 3,    ///< over TLS: the lab node pulls the digest from the client's connection
};

struct JobInput {
  std::string name;  ///< as the kind's description has it
  DType dtype = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< bytes; empty: row-major
  Storage storage = Storage::kStaged;
  std::uint64_t stage = 0;     ///< kStaged
  std::uint32_t fd_index = 0;  ///< kFile
  std::string path;            ///< kFile: absolute, to open it again after a restart
  std::uint64_t offset = 0;    ///< bytes from the start of the file to element (0, …, 0)
  Digest digest;               ///< kBlob
};
/// An output that shall be written to a file of the researcher rather than to a staged one.
struct JobOutputFile {
  std::string name;
  std::uint32_t fd_index = 0;
  std::string path;
  std::uint64_t offset = 0;
};
struct NamedValue {
  std::string name;
  Value value;
};
enum class Policy : std::uint8_t {
  kDefault = 0,
  kAlgebraic = 1,
  kValidator = 2,
  kReplicate = 3,
  kAdaptive = 4,
};

/// Makes a file of `size` bytes; the reply carries its number and its descriptor.
struct Stage {
  std::uint64_t size = 0;
};
struct Submit {
  std::array<std::uint8_t, 16>
      token{};       ///< chosen by the client: a repeated Submit is the same job
  std::string kind;  ///< "matmul" (newest version) or "matmul/1"
  std::vector<JobInput> inputs;
  std::vector<NamedValue> params;
  std::vector<JobOutputFile> outputs;
  Policy policy = Policy::kDefault;
  std::uint32_t replicas = 0;  ///< kReplicate: how many hosts must agree, 2 to 16
  std::uint32_t weight = 1;    ///< share beside other jobs, 1 to 1000
  bool dry_run = false;        ///< only validate …
  bool forecast = false;       ///< … and, with it, say how long it would take
};
/// Status now; with `watch`, kEvent frames follow until the job ends.
struct GetJob {
  std::uint64_t job = 0;
  bool watch = false;
};
struct GetJobs {};
struct CancelJob {
  std::uint64_t job = 0;
};
struct ExplainJob {
  std::uint64_t job = 0;
};
/// How long what is left of a job will take.
struct EstimateJob {
  std::uint64_t job = 0;
};
/// The outputs of a completed job: the reply carries one descriptor per staged output.
struct GetResult {
  std::uint64_t job = 0;
};
/// Forgets an ended job and its staged files.
struct ForgetJob {
  std::uint64_t job = 0;
};
struct GetHosts {};
struct GetKinds {};
/// What any daemon answers: numbers and words for `goblin … status`.
struct GetStatus {};
/// Commands to a daemon: "pause", "resume", "finish", "stop", …; unknown ones are refused.
struct Control {
  std::string command;
  std::vector<NamedValue> values;
};

using RequestBody = std::variant<Stage, Submit, GetJob, GetJobs, CancelJob, ExplainJob, GetResult,
                                 ForgetJob, GetHosts, GetKinds, GetStatus, Control, EstimateJob>;
struct Request {
  std::uint32_t number = 0;
  RequestBody body;
};

struct Staged {
  std::uint64_t stage = 0;
};
enum class JobState : std::uint8_t {
  kQueued = 1,
  kRunning = 2,
  kFinishing = 3,
  kDone = 4,
  kFailed = 5,
  kCancelled = 6,
};
struct OutputInfo {
  std::string name;
  TensorSpec spec;
  bool staged = true;  ///< false: it was written to the researcher's file
  std::uint64_t offset = 0;
  Digest digest;  ///< of its bytes, once asked for over TLS; else zero
};
struct JobStatus {
  std::uint64_t job = 0;
  std::string kind;
  JobState state = JobState::kQueued;
  std::int32_t status = 0;  ///< of a failed job
  std::string message;      ///< why it failed, or why it waits
  std::vector<OutputInfo> outputs;
  std::uint64_t tasks_planned = 0, tasks_running = 0, tasks_accepted = 0;
  bool plan_done = false;  ///< tasks_planned is the total
  double flops_total = 0, flops_accepted = 0;
  std::uint64_t results_checked = 0, results_refused = 0, recomputed = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t compute_us = 0, check_us = 0, wall_us = 0;
  std::uint32_t hosts = 0;
};
struct JobList {
  std::vector<JobStatus> jobs;
};
struct HostReport {
  Digest host;
  bool connected = false, validator = false;
  HostCapacity capacity;
  HostState state = HostState::kReady;
  std::uint32_t leases = 0;
  std::uint64_t accepted = 0, refused = 0, failed = 0;
  std::uint64_t compute_us = 0, bytes_sent = 0, bytes_received = 0, peak_bytes = 0;
  bool quarantined = false;
  std::string reason;           ///< why it is quarantined, or why it is idle
  std::uint64_t confirmed = 0;  ///< results equal to another host's, which was accepted thereby
  std::uint64_t passed = 0;     ///< found right by a check or a trusted host since its last fault
  std::uint32_t faults = 0;     ///< wrong results, but for …
  std::uint32_t forgiven = 0;   ///< … those that were forgiven
};
struct HostList {
  std::vector<HostReport> hosts;
};
struct KindInfo {
  KindDescription description;
  Digest plugin;
};
struct KindList {
  std::vector<KindInfo> kinds;
};
/// One refused or failed start of a task.
struct Incident {
  std::uint64_t task = 0;
  Digest host;
  std::string what;  ///< "refused by check", "failed: exhausted", "late", …
  std::string detail;
};
struct Explanation {
  JobStatus status;
  Policy policy = Policy::kDefault;
  std::uint32_t replicas = 0;
  std::vector<HostReport> hosts;    ///< their share of this job
  std::vector<Incident> incidents;  ///< the first 1000
  std::uint64_t incident_count = 0;
  std::vector<std::pair<std::string, std::string>> plan;  ///< words for people
};
/// What T = max(flops / ΣR, Q·s / B_lab, max_i Q_i·s / B_i) comes from.
enum class Bound : std::uint8_t { kHostsSpeed = 0, kLabLink = 1, kHostLink = 2 };
struct Estimated {
  std::vector<OutputInfo> outputs;
  double flops = 0, bytes = 0;
  std::uint64_t min_task_bytes = 0;
  // With a forecast. Rates in bytes a second; 0: the link was not seen to be a limit.
  bool forecast = false;
  double seconds = 0;
  Bound bound = Bound::kHostsSpeed;
  double hosts_speed_s = 0, lab_link_s = 0, host_link_s = 0;
  double bytes_to_hosts = 0, bytes_from_hosts = 0;
  double flops_computed = 0;  ///< replicas included
  double flops_per_s = 0;     ///< of all hosts
  double lab_to_hosts = 0, lab_from_hosts = 0;
  double slowest_to_host = 0, slowest_from_host = 0, longest_rtt_s = 0;
  std::uint32_t hosts = 0;
  std::uint64_t starts = 0;  ///< of tasks
  /// Of the flops that the planner planned ahead; the rest is taken to go on like that. 0: nobody
  /// knows how much more there will be, and it is not counted.
  double planned_share = 0;
  std::uint32_t speeds_assumed = 0;  ///< hosts that have not computed this kind yet
  std::uint32_t jobs_beside = 0;     ///< that run and share hosts and links
  double remaining = 1;              ///< share of the job that is still to be done
};
/// Names and values for people and scripts, in order.
struct StatusReport {
  std::vector<std::pair<std::string, std::string>> fields;
};
struct Ok {};

using ReplyBody = std::variant<Ok, Staged, JobStatus, JobList, HostList, KindList, Explanation,
                               Estimated, StatusReport>;
struct Reply {
  std::uint32_t number = 0;
  std::int32_t status = 0;  ///< GOBLIN_OK or a code, with `message`
  std::string message;
  ReplyBody body;
};
/// kEvent.
struct Event {
  JobStatus status;
};

#define GOBLIN_WIRE_CLIENT_MESSAGES(X) X(Request, request) X(Reply, reply) X(Event, event)
GOBLIN_WIRE_CLIENT_MESSAGES(GOBLIN_WIRE_DECLARE)

}  // namespace goblin::wire
