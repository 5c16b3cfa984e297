// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace goblin::scheduler {
namespace {

/// So much memory has one host each of as many groups as the policy asks for; of all groups, where
/// they are too few.
std::uint64_t memory_of_replicas(const std::vector<Lent>& workers, std::size_t replicas) {
  std::unordered_map<std::uint64_t, std::uint64_t> by_group;
  for (const Lent& host : workers) {
    std::uint64_t& most = by_group[host.group];
    most = std::max(most, host.memory_bytes);
  }
  std::vector<std::uint64_t> memory;
  for (const auto& [group, most] : by_group) memory.push_back(most);
  if (memory.empty()) return 0;
  std::sort(memory.begin(), memory.end(), std::greater<>());
  return memory[std::clamp<std::size_t>(replicas, 1, memory.size()) - 1];
}

}  // namespace

Cut cut_for(const validation::PolicySpec& policy, const std::vector<Lent>& hosts) {
  std::vector<Lent> workers;
  std::unordered_set<std::uint64_t> groups;
  std::uint64_t trusted_memory = 0;
  for (const Lent& host : hosts) {
    if (host.trusted) {
      trusted_memory = std::max(trusted_memory, host.memory_bytes);
    } else {
      workers.push_back(host);
      groups.insert(host.group);
    }
  }
  const bool replicate = policy.policy == wire::Policy::kReplicate;
  if (workers.empty() || (replicate && groups.size() < policy.replicas)) workers = hosts;
  Cut cut;
  cut.hosts = workers.size();
  for (const Lent& host : workers) {
    cut.memory_bytes = std::max(cut.memory_bytes, host.memory_bytes);
    cut.threads = std::max(cut.threads, host.threads);
  }
  const bool recomputed =
      policy.policy == wire::Policy::kValidator || policy.policy == wire::Policy::kAdaptive;
  if (recomputed && trusted_memory > 0)
    cut.memory_bytes = std::min(cut.memory_bytes, trusted_memory);
  if (replicate) cut.memory_bytes = memory_of_replicas(workers, policy.replicas);
  cut.min_memory_bytes = std::min(worthwhile_memory(std::move(workers)), cut.memory_bytes);
  return cut;
}

std::uint64_t worthwhile_memory(std::vector<Lent> hosts) {
  std::sort(hosts.begin(), hosts.end(),
            [](const Lent& a, const Lent& b) { return a.memory_bytes > b.memory_bytes; });
  double threads = 0;
  double best = -1;
  std::uint64_t memory = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    threads += std::max(hosts[i].threads, 1u);
    if (i + 1 < hosts.size() && hosts[i + 1].memory_bytes == hosts[i].memory_bytes) continue;
    const double score = threads * std::sqrt(std::sqrt(double(hosts[i].memory_bytes)));
    // Equal but for rounding: the smaller one, so that nobody is left out for nothing.
    if (score < best * (1 - 1e-9)) continue;
    best = std::max(best, score);
    memory = hosts[i].memory_bytes;
  }
  return memory;
}

}  // namespace goblin::scheduler
