// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>
#include <thread>

#include "hosts/link/read_config.hpp"
#include "hosts/volunteer/host.hpp"

namespace goblin::volunteer {

Result<HostConfig> read_config(hosts::ConfigReader& reader) {
  using std::chrono::milliseconds;
  HostConfig config;
  config.state_dir = link::read_state_dir(reader, "host");
  config.socket = reader.string("socket", config.state_dir + "/host.sock");
  const link::Endpoint coordinator = link::read_coordinator(reader);
  config.coordinator = coordinator.host;
  config.coordinator_port = coordinator.port;
  config.coordinator_pin = coordinator.pin;
  const std::uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
  config.threads =
      static_cast<std::uint32_t>(reader.u64("threads", std::max(1u, processors / 2), {1, 4096}));
  if (config.threads > processors) {
    reader.complain("threads", "is more than this machine's processors: give at most " +
                                   std::to_string(processors));
  }
  config.memory_bytes =
      reader.bytes("memory", link::physical_memory() / 4, {64u << 20, 1ULL << 50});
  config.cache_bytes = reader.bytes("cache", 4ULL << 30, {16u << 20, 1ULL << 50});
  config.cpu_fraction = reader.percent("cpu", 1.0, {0.01, 1.0});
  config.nice = static_cast<int>(reader.u64("nice", 10, {0, 19}));
  config.slots = static_cast<std::uint32_t>(reader.u64("slots", 1024, {1, 4096}));
  config.catalogue = link::read_catalogue(reader, config.state_dir);
  config.catalogue.restriction = link::read_restriction(reader);
  config.heartbeat =
      reader.duration("heartbeat", milliseconds(2'000), {milliseconds(100), milliseconds(20'000)});
  config.runner_idle = reader.duration("runner.idle", milliseconds(60'000),
                                       {milliseconds(100), milliseconds(86'400'000)});
  config.runner = link::read_runner(reader);
  config.log = link::read_log(reader, "host", config.state_dir);
  GOBLIN_TRY_VOID(reader.finish());
  return config;
}

}  // namespace goblin::volunteer
