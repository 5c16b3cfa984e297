// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/read_config.hpp"
#include "hosts/lab/node.hpp"

namespace goblin::lab {

Result<LabConfig> read_config(hosts::ConfigReader& reader) {
  using std::chrono::milliseconds;
  LabConfig config;
  config.state_dir = link::read_state_dir(reader, "lab");
  config.address = reader.string("listen.address", "0.0.0.0");
  config.port = static_cast<std::uint16_t>(reader.u64("listen.port", link::kLabPort, {0, 65535}));
  config.public_address = reader.string("listen.public-address", "");
  config.socket = reader.string("socket", config.state_dir + "/lab.sock");
  config.socket_group = reader.boolean("socket-group", false);
  const link::Endpoint coordinator = link::read_coordinator(reader);
  config.coordinator = coordinator.host;
  config.coordinator_port = coordinator.port;
  config.coordinator_pin = coordinator.pin;
  config.catalogue = link::read_catalogue(reader, config.state_dir);
  config.hosts_wanted =
      static_cast<std::uint32_t>(reader.u64("hosts.wanted", 1000, {0, 1'000'000}));
  config.listener.connections =
      static_cast<std::uint32_t>(reader.u64("limits.peers", 10'000, {1, 1'000'000}));
  config.listener.per_address =
      static_cast<std::uint32_t>(reader.u64("limits.per-address", 1000, {1, 1'000'000}));
  config.hosts = link::read_pins(reader, "hosts.allow");
  config.validators = link::read_pins(reader, "hosts.validators");
  config.network_validators = reader.boolean("hosts.network-validators", false);
  config.clients = link::read_pins(reader, "clients.allow");
  config.staging_bytes = reader.bytes("staging.cap", 0);
  config.engine.stage_keep_ms = static_cast<std::uint64_t>(
      reader
          .duration("staging.keep", milliseconds(24LL * 3600 * 1000),
                    {milliseconds(60'000), milliseconds(3650LL * 24 * 3600 * 1000)})
          .count());
  config.engine.max_jobs =
      static_cast<std::uint32_t>(reader.u64("jobs.most", config.engine.max_jobs, {1, 100'000}));
  config.synchronous_full = reader.boolean("journal.power-safe", false);
  config.heartbeat =
      reader.duration("heartbeat", milliseconds(3'000), {milliseconds(100), milliseconds(20'000)});
  config.engine.runner = link::read_runner(reader);
  config.engine.runner.memory_bytes =
      reader.bytes("runner.memory", link::physical_memory() / 2, {64u << 20, 1ULL << 50});
  config.engine.runner.threads =
      static_cast<std::uint32_t>(reader.u64("runner.threads", 1, {1, 1024}));
  config.engine.result_keep_ms = static_cast<std::uint64_t>(
      reader
          .duration("results.keep", milliseconds(7LL * 24 * 3600 * 1000),
                    {milliseconds(60'000), milliseconds(3650LL * 24 * 3600 * 1000)})
          .count());
  config.engine.plan_deadline = reader.duration("runner.plan-deadline", milliseconds(120'000),
                                                {milliseconds(100), milliseconds(86'400'000)});
  config.engine.check_deadline = reader.duration("runner.check-deadline", milliseconds(600'000),
                                                 {milliseconds(100), milliseconds(86'400'000)});
  const auto micros = [&reader](const char* key, std::uint64_t fallback) {
    return 1000ULL *
           static_cast<std::uint64_t>(reader
                                          .duration(key, milliseconds(fallback / 1000),
                                                    {milliseconds(1), milliseconds(86'400'000)})
                                          .count());
  };
  auto& scheduler = config.engine.scheduler;
  scheduler.deadline_floor = micros("deadline.floor", scheduler.deadline_floor);
  scheduler.first_deadline = micros("deadline.first", scheduler.first_deadline);
  scheduler.deadline_factor =
      reader.real("deadline.factor", scheduler.deadline_factor, {1.5, 1000.0});
  scheduler.straggler_factor =
      reader.real("straggler.factor", scheduler.straggler_factor, {1.1, 1000.0});
  scheduler.max_attempts = static_cast<std::uint32_t>(
      reader.u64("tasks.max-attempts", scheduler.max_attempts, {1, 100}));
  auto& trust = config.engine.trust;
  trust.faulty = reader.real("trust.assumed-faulty", trust.faulty, {0.001, 0.49});
  trust.target_error = reader.real("trust.target-error", trust.target_error, {1e-9, 0.1});
  trust.floor = reader.real("trust.floor", trust.floor, {0.02, 1.0});
  scheduler.forgive_after =
      reader.u64("trust.forgive-after", scheduler.forgive_after, {100, 1'000'000'000});
  scheduler.suspend_min =
      1000ULL * static_cast<std::uint64_t>(
                    reader
                        .duration("trust.suspend", milliseconds(scheduler.suspend_min / 1000),
                                  {milliseconds(0), milliseconds(604'800'000)})
                        .count());
  config.log = link::read_log(reader, "lab", config.state_dir);
  GOBLIN_TRY_VOID(reader.finish());
  return config;
}

}  // namespace goblin::lab
