// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a host may be told.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "core/net/loop.hpp"
#include "core/plugin/runner_client.hpp"
#include "core/wire/peer.hpp"
#include "hosts/link/catalogue.hpp"
#include "hosts/volunteer/cache_watch.hpp"

namespace goblin::volunteer {

/// Seam for the lying host of the tests (tests/testing/lying_host): sees every result before it is
/// hashed and may change it. A volunteer's program has none, and pays nothing for it.
class ResultFilter {
 public:
  struct Computed {
    const wire::Lease& lease;
    const std::vector<wire::Bytes>& inputs;  ///< copies of what the runner read
    std::vector<wire::TensorSpec>& specs;    ///< what is said of the outputs
    std::vector<std::span<std::byte>> outputs;
    wire::TaskResult& said;  ///< with a status other than GOBLIN_OK no output is sent
  };

  virtual ~ResultFilter() = default;
  /// Changes the output bytes, or what is said of them. Answers how long to wait before the result
  /// is sent.
  virtual net::Milliseconds apply(Computed result) = 0;
  /// After hashing: changes bytes that were committed to.
  virtual void after_commit(const wire::Lease& lease,
                            std::vector<std::span<std::byte>> outputs) = 0;
};

struct HostConfig {
  std::string state_dir;    ///< identity, cache, plugins
  std::string socket;       ///< of `goblin host status`; empty: state_dir/host.sock
  std::string coordinator;  ///< host name or address
  std::uint16_t coordinator_port = 0;
  wire::Digest coordinator_pin;
  std::uint32_t threads = 1;       ///< of one runner
  std::uint64_t memory_bytes = 0;  ///< cap: runner, its maps and held results together
  std::uint64_t cache_bytes = 0;   ///< cap of the input cache on disk
  std::uint64_t plugin_cache_bytes = 1ULL << 30;
  std::uint32_t slots = 1024;  ///< leases at once, queue included
  double cpu_fraction = 1.0;   ///< of `threads` processors, 0.01 to 1
  int nice = 10;
  link::CatalogueSettings catalogue;  ///< root, and what the volunteer allows
  plugin::RunnerOptions runner;       ///< program, backend, device
  net::Milliseconds heartbeat{2'000};
  net::Milliseconds runner_idle{60'000};  ///< an unused runner is ended after this
  /// What a lab node does not collect is given up where others wait for the memory: when it has
  /// collected nothing for `uncollected`, and whatever is older than ten times that.
  net::Milliseconds uncollected{60'000};
  net::Milliseconds cancel_grace{3'000};  ///< a runner told to stop that does not is killed
  CacheWatch::Pace cache_pace;
  log::Options log;
  int ready_fd = -1;  ///< told "pin\n" once the host is up
  std::shared_ptr<ResultFilter> filter;
};

}  // namespace goblin::volunteer
