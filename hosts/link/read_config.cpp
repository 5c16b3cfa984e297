// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/read_config.hpp"

#include <algorithm>
#include <filesystem>

#include "hosts/common/installation.hpp"
#include "hosts/common/paths.hpp"
#include "hosts/common/units.hpp"

namespace goblin::link {

std::string read_state_dir(hosts::ConfigReader& reader, std::string_view role) {
  auto fallback = hosts::default_state_directory(role, hosts::Environment::process());
  std::string directory = reader.string("state-dir", fallback.value_or(""));
  if (directory.empty()) {
    reader.complain("state-dir", fallback ? "is empty: name a directory"
                                          : fallback.error().message + ": name a directory");
    return directory;
  }
  std::error_code error;
  const auto absolute = std::filesystem::absolute(directory, error);
  return error ? directory : absolute.string();
}

Result<void> make_state_dir(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::create_directories(directory, error) && !error) {
    fs::permissions(directory, fs::perms::owner_all, error);
  }
  if (error) {
    return fail(Code::kUnavailable, "state directory '" + directory + "': " + error.message() +
                                        "; name another with --state-dir");
  }
  return {};
}

log::Options read_log(hosts::ConfigReader& reader, std::string_view role,
                      const std::string& state_dir) {
  log::Options options;
  const std::string level =
      reader.choice("log.level", "info", {"debug", "info", "warn", "error", "off"});
  options.level = log::parse_level(level).value_or(log::Level::kInfo);
  options.file = reader.string("log.file", state_dir + "/" + std::string(role) + ".log");
  options.rotate_bytes = reader.bytes("log.rotate", 10u << 20, {64u << 10, 1ULL << 40});
  options.keep_files = static_cast<std::uint32_t>(reader.u64("log.keep", 5, {1, 100}));
  options.to_stderr = reader.boolean("log.stderr", true);
  return options;
}

std::vector<wire::Digest> read_pins(hosts::ConfigReader& reader, const std::string& key) {
  std::vector<wire::Digest> pins;
  for (const auto& text : reader.list(key, {})) {
    auto pin = wire::Digest::from_hex(text);
    if (pin) {
      pins.push_back(*pin);
    } else {
      reader.complain(key, "'" + text + "' is no pin: 64 hexadecimal digits, as `goblin pin` says");
    }
  }
  return pins;
}

bool contains(const std::vector<wire::Digest>& pins, const wire::Digest& pin) {
  return std::find(pins.begin(), pins.end(), pin) != pins.end();
}

Endpoint read_coordinator(hosts::ConfigReader& reader) {
  Endpoint endpoint;
  const std::string address = reader.required_string(
      "coordinator.address", "the coordinator's name and port, such as \"science.example:7420\"");
  const std::string pin = reader.required_string(
      "coordinator.pin",
      "the coordinator's pin, 64 hexadecimal digits that it shows when it starts");
  std::string host = address;
  endpoint.port = kCoordinatorPort;
  const auto colon = address.rfind(':');
  const bool bare_v6 = address.find(':') != colon && address.find(']') == std::string::npos;
  if (colon != std::string::npos && !bare_v6 && address.back() != ']') {
    host = address.substr(0, colon);
    const auto port = hosts::parse_u64(address.substr(colon + 1));
    if (port && *port > 0 && *port < 65536) {
      endpoint.port = static_cast<std::uint16_t>(*port);
    } else {
      reader.complain("coordinator.address",
                      "'" + address + "' has no port between 1 and 65535 after the colon");
    }
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  endpoint.host = host;
  if (!pin.empty()) {
    auto digest = wire::Digest::from_hex(pin);
    if (digest) {
      endpoint.pin = *digest;
    } else {
      reader.complain("coordinator.pin", "'" + pin + "' is no pin: 64 hexadecimal digits");
    }
  }
  return endpoint;
}

plugin::RunnerOptions read_runner(hosts::ConfigReader& reader) {
  plugin::RunnerOptions options;
  const std::string libdir = reader.string("libdir", "");
  const std::string backend = reader.string("runner.backend", "cpu");
  options.device = reader.string("runner.device", "");
  auto installation = hosts::Installation::locate(libdir);
  if (!installation) {
    reader.complain("libdir", installation.error().message);
    return options;
  }
  auto runner = installation->runner();
  auto library = installation->backend(backend);
  if (!runner) {
    reader.complain("libdir", runner.error().message);
  } else if (!library) {
    reader.complain("runner.backend", library.error().message);
  } else {
    options.runner = *runner;
    options.backend = *library;
  }
  return options;
}

}  // namespace goblin::link
