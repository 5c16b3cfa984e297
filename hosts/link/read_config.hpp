// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Settings that every daemon has: where it keeps its state, whom it talks to, how it logs.
#pragma once

#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "core/net/unique_fd.hpp"
#include "core/plugin/runner_client.hpp"
#include "core/wire/values.hpp"
#include "hosts/common/config_reader.hpp"
#include "hosts/link/catalogue.hpp"

namespace goblin::link {

inline constexpr std::uint16_t kCoordinatorPort = 7420;
inline constexpr std::uint16_t kLabPort = 7421;

/// "state-dir", made absolute.
std::string read_state_dir(hosts::ConfigReader& reader, std::string_view role);
/// Makes it (0700) unless it is there.
Result<void> make_state_dir(const std::string& directory);
/// Keeps other daemons out of a state directory, which is made if need be, while it lives; a killed
/// process' hold ends with it. `role`: "coordinator", "lab", "host". kUnavailable names the
/// directory when one runs there. One for each directory and process.
Result<net::UniqueFd> hold_state_dir(const std::string& directory, const std::string& role);
/// "log.level", "log.file", "log.rotate", "log.keep"; the file defaults to STATE/ROLE.log.
log::Options read_log(hosts::ConfigReader& reader, std::string_view role,
                      const std::string& state_dir);
/// A list of 64-digit pins.
std::vector<wire::Digest> read_pins(hosts::ConfigReader& reader, const std::string& key);
/// Whether the list names the pin.
bool contains(const std::vector<wire::Digest>& pins, const wire::Digest& pin);

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  wire::Digest pin;
};
/// "name:port", "name", "[2001:db8::1]:port", "192.0.2.1": kInvalidArgument, with what is
/// wrong with it ("has no …"), for anything else. The pin stays empty. Nothing is looked up.
Result<Endpoint> parse_endpoint(const std::string& address, std::uint16_t default_port);
/// "coordinator.address" ("name:port") and "coordinator.pin".
Endpoint read_coordinator(hosts::ConfigReader& reader);

/// "trust.root": the root file of the network; by default root.signed in the folder of settings, or
/// that of the installation. The verifier's directory is STATE/trust.
CatalogueSettings read_catalogue(hosts::ConfigReader& reader, const std::string& state_dir);
/// "plugins.kinds" ("matmul", "matmul/1") and "plugins.signers" (key ids).
trust::Restriction read_restriction(hosts::ConfigReader& reader);
/// Of this computer, in bytes; 1 GiB where the system does not say.
std::uint64_t physical_memory();

/// "libdir", "runner.backend", "runner.device", "jail.require": program, backend and jail of
/// runners.
plugin::RunnerOptions read_runner(hosts::ConfigReader& reader);

}  // namespace goblin::link
