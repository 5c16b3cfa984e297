// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/job_plan.hpp"

#include <cstring>

namespace goblin::sim {

wire::Digest result_of(std::uint64_t key, TaskId task, std::uint64_t before,
                       std::uint64_t variant) {
  Random random(key * 0x10001 + task * 0x100000001b3 + before * 0x9e3779b1 +
                variant * 0x9e3779b97f4a7c15);
  wire::Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(digest.bytes.data() + i, &word, 8);
  }
  return digest;
}

std::uint64_t short_of(const wire::Digest& digest) {
  std::uint64_t word = 0;
  std::memcpy(&word, digest.bytes.data(), sizeof word);
  return word;
}

std::uint64_t add_result(std::uint64_t before, TaskId task, const wire::Digest& digest) {
  return before + (short_of(digest) ^ (task * 0x9e3779b97f4a7c15)) * 0xff51afd7ed558ccd;
}

JobPlan JobPlan::draw(Random& r, const Options& o, std::uint64_t key) {
  constexpr std::uint64_t kMiB = 1u << 20;
  JobPlan p;
  p.key = key;
  // One case a policy.
  switch (r.below(5)) {
    case 0:
    case 1:
      p.policy.policy = wire::Policy::kAlgebraic;
      break;
    case 2:
      p.policy.policy = wire::Policy::kValidator;
      break;
    case 3:
      p.policy.policy = o.trusted > 0 ? wire::Policy::kAdaptive : wire::Policy::kValidator;
      break;
    default:
      p.policy = {wire::Policy::kReplicate, 2 + std::uint32_t(r.below(2))};
  }
  p.weight = 1 + std::uint32_t(r.below(3));
  p.tasks = r.chance(0.03) ? 0 : 1 + r.below(o.tasks);
  p.round = r.chance(0.3) ? 1 + r.below(12) : 0;
  p.flops = r.chance(0.5) ? 1e6 : r.uniform(1e8, 4e9);
  p.spread = r.uniform(0, 0.9);
  p.memory = r.below(12) * kMiB;
  p.panels = r.chance(0.5) ? 1 + std::uint32_t(r.below(8)) : 0;
  p.state_bytes = 1 + r.below(o.large + 1);
  p.abstain = r.chance(0.5) ? o.abstain : 0;
  if (p.policy.policy == wire::Policy::kAdaptive) p.round = 0;
  // What rests on a result that is withdrawn is not withdrawn (docs/open-points.md), so a check
  // that misses goes with jobs of one round only.
  p.miss = p.round == 0 && r.chance(0.7) ? o.miss : 0;
  p.submitted = r.below(r.chance(0.7) ? 100'000 : 20'000'000);
  if (o.fair) {
    // Tasks differ a hundredfold, weights are 1, 2 and 4.
    const std::uint64_t i = (key - 1) % 3;
    p = {};
    p.key = key;
    p.tasks = 10'000'000;
    p.state_bytes = 1;
    p.flops = i == 0 ? 1e7 : i == 1 ? 1e8 : 1e9;
    p.weight = 1u << i;
  }
  if (r.chance(o.cancel)) p.cancelled = 1 + p.submitted + r.below(o.faults_end / 8);
  return p;
}

scheduler::ReadyTask JobPlan::task(JobId job, TaskId number) const {
  scheduler::ReadyTask t;
  t.job = job;
  t.task = number;
  Random r(key * 7919 + number);
  t.flops = flops * (1 + spread * (2 * r.uniform() - 1));
  t.memory_bytes = memory;
  t.output_bytes = 1 + r.below(1u << 20);
  if (panels > 0) {
    t.inputs.push_back({result_of(key, 1'000'000 + number / panels, 0, 1), 1u << 20});
    t.inputs.push_back({result_of(key, 2'000'000 + number % panels, 0, 1), 1u << 20});
  }
  return t;
}

store::JobRecord JobPlan::record() const {
  store::JobRecord record;
  std::memcpy(record.token.data(), &key, sizeof key);
  record.kind = "simulated/1";
  record.policy = policy.policy;
  record.replicas = policy.policy == wire::Policy::kReplicate ? policy.replicas : 0;
  record.weight = weight;
  record.state = wire::JobState::kQueued;
  record.created_unix_ms = 1;
  return record;
}

wire::Bytes JobPlan::state() const {
  wire::Bytes bytes(state_bytes);
  std::uint64_t word = key;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 8 == 0) word = word * 0x9e3779b97f4a7c15 + 1;
    bytes[i] = static_cast<std::byte>(word >> (8 * (i % 8)));
  }
  return bytes;
}

RightResults::RightResults(const JobPlan& plan) : key_(plan.key) {
  if (plan.round == 0) return;
  digests_.resize(plan.tasks);
  std::uint64_t before = 0;
  std::uint64_t next = 0;
  for (TaskId task = 0; task < plan.tasks; ++task) {
    if (task % plan.round == 0) before = std::exchange(next, 0);
    digests_[task] = result_of(plan.key, task, before, 0);
    next = add_result(next, task, digests_[task]);
  }
}

}  // namespace goblin::sim
