// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/read_config.hpp"
#include "hosts/coordinator/coordinator.hpp"

namespace goblin::coordinator {

Result<CoordinatorConfig> read_config(hosts::ConfigReader& reader) {
  CoordinatorConfig config;
  config.state_dir = link::read_state_dir(reader, "coordinator");
  config.address = reader.string("listen.address", "0.0.0.0");
  config.port =
      static_cast<std::uint16_t>(reader.u64("listen.port", link::kCoordinatorPort, {0, 65535}));
  config.socket = reader.string("socket", config.state_dir + "/coordinator.sock");
  (void)reader.string("libdir", "");  // for `goblin plugin publish --installed`
  config.publisher = publisher_settings(config.state_dir);
  const auto seconds = [&reader](const char* key, std::uint64_t fallback, std::uint64_t least) {
    using std::chrono::milliseconds;
    const auto ms = [](std::uint64_t value) {
      return milliseconds(static_cast<std::int64_t>(value) * 1000);
    };
    const auto given = reader.duration(key, ms(fallback), {ms(least), ms(365ULL * 86'400)});
    return static_cast<std::uint64_t>(given.count()) / 1000;
  };
  config.publisher.renew_every_s = seconds("timestamp.every", config.publisher.renew_every_s, 1);
  config.publisher.lifetime_s = seconds("timestamp.lifetime", config.publisher.lifetime_s, 2);
  if (config.publisher.lifetime_s < 2 * config.publisher.renew_every_s) {
    reader.complain("timestamp.lifetime",
                    "is less than twice 'timestamp.every': one renewal that fails would stop "
                    "every host");
  }
  config.validators = link::read_pins(reader, "validators");
  config.labs = link::read_pins(reader, "labs");
  config.matchmaking.labs_per_host =
      static_cast<std::uint32_t>(reader.u64("matchmaking.labs-per-host", 3, {1, 64}));
  using std::chrono::milliseconds;
  config.matchmaking.silence =
      1000ULL *
      static_cast<std::uint64_t>(reader
                                     .duration("matchmaking.silence", milliseconds(30'000),
                                               {milliseconds(1'000), milliseconds(3'600'000)})
                                     .count());
  config.matchmaking.lease =
      1000ULL *
      static_cast<std::uint64_t>(reader
                                     .duration("matchmaking.lease", milliseconds(60'000),
                                               {milliseconds(2'000), milliseconds(3'600'000)})
                                     .count());
  config.matchmaking.term =
      1000ULL *
      static_cast<std::uint64_t>(reader
                                     .duration("matchmaking.term", milliseconds(600'000),
                                               {milliseconds(1'000), milliseconds(86'400'000)})
                                     .count());
  config.listener.connections =
      static_cast<std::uint32_t>(reader.u64("limits.peers", 10'000, {1, 1'000'000}));
  config.listener.per_address =
      static_cast<std::uint32_t>(reader.u64("limits.per-address", 1000, {1, 1'000'000}));
  config.log = link::read_log(reader, "coordinator", config.state_dir);
  GOBLIN_TRY_VOID(reader.finish());
  return config;
}

}  // namespace goblin::coordinator
