// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/read_config.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/net/channel.hpp"
#include "core/plugin/note.hpp"
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

Result<net::UniqueFd> hold_state_dir(const std::string& directory, const std::string& role) {
  GOBLIN_TRY_VOID(make_state_dir(directory));
  const std::string path = directory + "/" + role + ".lock";
  net::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  // The process', not the descriptor's: a child between fork and exec does not hold it.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fd && ::fcntl(fd.get(), F_SETLK, &lock) == 0) {
    return fd;
  }
  const int reason = errno;
  if (fd && (reason == EAGAIN || reason == EACCES)) {
    return fail(Code::kUnavailable, "a " + (role == "lab" ? std::string("lab node") : role) +
                                        " already runs here (state directory '" + directory +
                                        "'): end it with `goblin " + role +
                                        " stop`, or name another --state-dir");
  }
  return fail(Code::kUnavailable, "'" + path + "' cannot be locked: " + std::strerror(reason) +
                                      "; name another --state-dir");
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

namespace {

/// A numeric IPv4 or IPv6 address; the latter perhaps with a scope, fe80::1%eth0.
bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return inet_pton(AF_INET, text.c_str(), parsed.data()) == 1 ||
         inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), parsed.data()) == 1;
}

}  // namespace

Result<Endpoint> parse_endpoint(const std::string& address, std::uint16_t default_port) {
  const auto wrong = [](const std::string& what) {
    return fail(Code::kInvalidArgument,
                what +
                    "; write a name or an address and a port, such as \"science.example:7420\" or "
                    "\"[2001:db8::1]:7420\"");
  };
  std::string host = address;
  std::string port;
  bool has_port = false;
  if (address.starts_with('[')) {
    const auto end = address.find(']');
    if (end == std::string::npos || (end + 1 < address.size() && address[end + 1] != ':')) {
      return wrong("has no closing bracket, or something else than a port after it");
    }
    host = address.substr(1, end - 1);
    has_port = end + 1 < address.size();
    port = has_port ? address.substr(end + 2) : "";
    if (!is_address(host) || host.find(':') == std::string::npos) {
      return wrong("has no IPv6 address between its brackets");
    }
  } else if (const auto colon = address.find(':');
             colon != std::string::npos && colon == address.rfind(':')) {
    host = address.substr(0, colon);
    port = address.substr(colon + 1);
    has_port = true;
  }
  Endpoint endpoint;
  endpoint.host = host;
  endpoint.port = default_port;
  if (has_port) {
    const auto number = hosts::parse_u64(port);
    if (!number || *number == 0 || *number > 65535) {
      return wrong("has no port between 1 and 65535 after the colon");
    }
    endpoint.port = static_cast<std::uint16_t>(*number);
  }
  // RFC 1123, and the underscore that some networks use.
  const bool named = !host.empty() && host.size() <= 253 && host.front() != '.' &&
                     host.front() != '-' && host.find("..") == std::string::npos &&
                     std::all_of(host.begin(), host.end(), [](unsigned char c) {
                       return c < 128 && (std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_');
                     });
  if (!named && !is_address(host)) {
    return wrong(host.empty() ? "has no name before the port" : "is no name or address");
  }
  return endpoint;
}

Endpoint read_coordinator(hosts::ConfigReader& reader) {
  Endpoint endpoint;
  const std::string address = reader.required_string(
      "coordinator.address", "the coordinator's name and port, such as \"science.example:7420\"");
  const std::string pin = reader.required_string(
      "coordinator.pin",
      "the coordinator's pin, 64 hexadecimal digits that it shows when it starts");
  if (!address.empty()) {
    auto place = parse_endpoint(address, kCoordinatorPort);
    if (place) {
      endpoint.host = place->host;
      endpoint.port = place->port;
    } else {
      reader.complain("coordinator.address", place.error().message);
    }
  }
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

CatalogueSettings read_catalogue(hosts::ConfigReader& reader, const std::string& state_dir) {
  CatalogueSettings settings;
  settings.directory = state_dir + "/trust";
  settings.release = net::own_release_number();
  settings.backends = {reader.string("runner.backend", "cpu")};
  std::string fallback;
  std::string looked;
  if (const auto file = hosts::default_config_file("host", hosts::Environment::process())) {
    fallback = (std::filesystem::path(*file).parent_path() / "root.signed").string();
    looked = "there is no '" + fallback + "'";
    std::error_code error;
    if (!std::filesystem::exists(fallback, error)) {
      fallback.clear();
    }
  }
  if (const auto installation = hosts::Installation::locate(reader.string("libdir", ""));
      installation && fallback.empty()) {
    if (auto file = installation->root_file()) {
      fallback = *file;
    } else {
      looked += (looked.empty() ? "" : ", and ") + file.error().message;
    }
  }
  settings.root_file = reader.string("trust.root", fallback);
  if (settings.root_file.empty()) {
    reader.complain("trust.root",
                    "is not set, and " + looked +
                        ": name the root file of the network, which its operator gives you (of "
                        "your own network: root-1.signed, which `goblin plugin keys init` made)");
  }
  return settings;
}

trust::Restriction read_restriction(hosts::ConfigReader& reader) {
  trust::Restriction restriction;
  for (const auto& text : reader.list("plugins.kinds", {})) {
    const auto slash = text.find('/');
    const auto id = plugin::KindId::parse(slash == std::string::npos ? text + "/1" : text);
    if (id) {
      restriction.kinds.push_back({id->name, slash == std::string::npos ? 0 : id->version});
    } else {
      reader.complain("plugins.kinds",
                      "'" + text + "' is no kind: write \"matmul\", or \"matmul/1\"");
    }
  }
  for (const auto& text : reader.list("plugins.signers", {})) {
    if (const auto key = wire::Digest::from_hex(text)) {
      restriction.signers.push_back(*key);
    } else {
      reader.complain("plugins.signers", "'" + text +
                                             "' is no key id: 64 hexadecimal digits, as `goblin "
                                             "plugin keys show` says");
    }
  }
  return restriction;
}

std::uint64_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
             : 1ULL << 30;
}

plugin::RunnerOptions read_runner(hosts::ConfigReader& reader) {
  plugin::RunnerOptions options;
  const std::string libdir = reader.string("libdir", "");
  const std::string backend = reader.string("runner.backend", "cpu");
  options.device = reader.string("runner.device", "");
  for (const std::string& name : reader.list("jail.require", {})) {
    if (auto layer = jail::parse_layer(name)) {
      options.require.push_back(*layer);
    } else {
      reader.complain("jail.require", layer.error().message);
    }
  }
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
