// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/metadata.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <set>

#include "core/net/sha256.hpp"
#include "core/wire/bounds.hpp"

namespace goblin::trust {
namespace {

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

tl::unexpected<Error> invalid(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message));
}

/// A name for a message: bounded, and nothing that a terminal would obey.
std::string quoted(std::string_view name) {
  std::string text = "'";
  for (const char c : name.substr(0, 80)) {
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text + "'";
}

Result<void> validate_times(std::string_view what, std::uint64_t version, std::uint64_t issued_s,
                            std::uint64_t expires_s) {
  if (version == 0) {
    return invalid(std::string(what) + ": version 0; versions begin at 1");
  }
  if (issued_s >= expires_s || expires_s > kMaxTimeS) {
    return invalid(std::string(what) + ": issued " + time_text(issued_s) + ", expires " +
                   time_text(expires_s) +
                   "; it must expire after it was issued, before the year 10000");
  }
  return {};
}

Result<void> validate_role(std::string_view name, const wire::TrustRole& role,
                           std::map<PublicKey, std::string>& used) {
  const std::string what = "role " + std::string(name) + " of the root";
  if (role.keys.size() > wire::kMaxTrustKeys) {
    return invalid(what + ": " + std::to_string(role.keys.size()) + " keys, at most " +
                   std::to_string(wire::kMaxTrustKeys) + " may stand there");
  }
  for (const PublicKey& key : role.keys) {
    if (auto good = check_public_key(key); !good) {
      return fail(good.error().with_context(what));
    }
    const auto [place, added] = used.emplace(key, what);
    if (!added) {
      return invalid("key " + key_id(key).hex() + " stands in " + place->second + " and in " +
                     what + "; each key serves one role, once: make another one");
    }
  }
  if (role.threshold < 1 || role.threshold > role.keys.size()) {
    return invalid(what + ": " + std::to_string(role.threshold) + " signatures of " +
                   std::to_string(role.keys.size()) +
                   " keys; at least 1 and at most as many as there are keys must be asked for");
  }
  return {};
}

Result<void> validate_plugin(const wire::TrustPlugin& plugin) {
  const std::string what = "plugin " + quoted(plugin.name);
  if (!is_identifier(plugin.name)) {
    return invalid(what + ": the name is no identifier of a-z, 0-9, '-', '_' and '.', at most " +
                   std::to_string(wire::kMaxTrustNameBytes) +
                   ", beginning with a letter or digit, without '..'");
  }
  if (plugin.plugin == wire::Digest{}) {
    return invalid(what + ": it has no digest");
  }
  if (plugin.size == 0 || plugin.size > kMaxPluginBytes) {
    return invalid(what + ": " + std::to_string(plugin.size) + " bytes; 1 to " +
                   std::to_string(kMaxPluginBytes) + " were expected");
  }
  if (plugin.abi_major == 0) {
    return invalid(what + ": ABI 0; ABIs begin at 1.0");
  }
  if (plugin.kinds.empty() || plugin.kinds.size() > wire::kMaxPluginKinds) {
    return invalid(what + ": " + std::to_string(plugin.kinds.size()) + " kinds; 1 to " +
                   std::to_string(wire::kMaxPluginKinds) + " were expected");
  }
  std::set<wire::TrustKind> kinds;
  for (const wire::TrustKind& kind : plugin.kinds) {
    if (!is_kind_name(kind.name) || kind.version == 0) {
      return invalid(what + ": " + quoted(kind.name) + "/" + std::to_string(kind.version) +
                     " is no kind; lower-case letters, digits and '-', and a version from 1 were "
                     "expected");
    }
    if (!kinds.insert(kind).second) {
      return invalid(what + ": kind " + kind.name + "/" + std::to_string(kind.version) +
                     " stands twice");
    }
  }
  if (plugin.backends.size() > wire::kMaxTrustBackends) {
    return invalid(what + ": " + std::to_string(plugin.backends.size()) + " backends, at most " +
                   std::to_string(wire::kMaxTrustBackends) + " may stand there");
  }
  std::set<wire::TrustBackend> backends;
  for (const wire::TrustBackend& backend : plugin.backends) {
    if (!is_identifier(backend.name)) {
      return invalid(what + ": " + quoted(backend.name) +
                     " names no backend; an identifier such "
                     "as cpu was expected");
    }
    if (!backends.insert(backend).second) {
      return invalid(what + ": backend " + backend.name + " stands twice");
    }
  }
  return {};
}

/// What a publisher would call a wrong argument is damage to whoever got it by the network.
template <typename T>
Result<T> judge(std::string_view what, Result<T> message) {
  if (!message) {
    return fail(message.error().with_context(what));
  }
  if (message->format != wire::kTrustFormat) {
    return fail(Code::kUnsupported,
                std::string(what) + " has format " + std::to_string(message->format) +
                    ", this side knows format " + std::to_string(wire::kTrustFormat) +
                    "; upgrade GPU Goblin on this computer");
  }
  if (auto valid = validate(*message); !valid) {
    return fail(Code::kCorrupt, std::string(what) + ": " + valid.error().message);
  }
  return message;
}

std::string abi_text(std::uint32_t major, std::uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace

bool is_identifier(std::string_view name) {
  return !name.empty() && name.size() <= wire::kMaxTrustNameBytes && is_lower_or_digit(name[0]) &&
         name.find("..") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_lower_or_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

bool is_kind_name(std::string_view name) {
  return !name.empty() && name.size() <= wire::kMaxTrustNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

std::string time_text(std::uint64_t time_s) {
  const auto time = static_cast<std::time_t>(std::min(time_s, kMaxTimeS));
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string release_text(std::uint32_t release) {
  return std::to_string(release >> 16) + "." + std::to_string(release >> 8 & 0xff) + "." +
         std::to_string(release & 0xff);
}

Result<void> validate(const wire::TrustRoot& root) {
  GOBLIN_TRY_VOID(validate_times("root", root.version, root.issued_s, root.expires_s));
  std::map<PublicKey, std::string> used;
  GOBLIN_TRY_VOID(validate_role("root", root.root, used));
  GOBLIN_TRY_VOID(validate_role("targets", root.targets, used));
  return validate_role("timestamp", root.timestamp, used);
}

Result<void> validate(const wire::TrustTargets& targets) {
  GOBLIN_TRY_VOID(validate_times("targets", targets.version, targets.issued_s, targets.expires_s));
  if (targets.plugins.size() > wire::kMaxPlugins) {
    return invalid("targets: " + std::to_string(targets.plugins.size()) + " plugins, at most " +
                   std::to_string(wire::kMaxPlugins) + " may stand there");
  }
  std::set<std::string_view> names;
  std::set<wire::Digest> digests;
  for (const wire::TrustPlugin& plugin : targets.plugins) {
    GOBLIN_TRY_VOID(validate_plugin(plugin));
    if (!names.insert(plugin.name).second) {
      return invalid("two plugins have the name " + plugin.name + "; give one another name");
    }
    if (!digests.insert(plugin.plugin).second) {
      return invalid("the plugin file " + plugin.plugin.hex() + " stands twice");
    }
  }
  return {};
}

Result<void> validate(const wire::TrustTimestamp& timestamp) {
  GOBLIN_TRY_VOID(
      validate_times("timestamp", timestamp.version, timestamp.issued_s, timestamp.expires_s));
  const wire::TrustFile& targets = timestamp.targets;
  if (targets.version == 0 || targets.digest == wire::Digest{} || targets.size == 0 ||
      targets.size > max_file_bytes(MetadataRole::kTargets)) {
    return invalid("timestamp: targets version " + std::to_string(targets.version) + " of " +
                   std::to_string(targets.size) + " bytes cannot be; a version from 1, 1 to " +
                   std::to_string(max_file_bytes(MetadataRole::kTargets)) +
                   " bytes and a digest were expected");
  }
  return {};
}

Result<wire::TrustRoot> read_root(wire::ByteView message) {
  return judge("root metadata", wire::decode_trust_root(message));
}
Result<wire::TrustTargets> read_targets(wire::ByteView message) {
  return judge("targets metadata", wire::decode_trust_targets(message));
}
Result<wire::TrustTimestamp> read_timestamp(wire::ByteView message) {
  return judge("timestamp metadata", wire::decode_trust_timestamp(message));
}

Result<OwnRoot> read_own_root(wire::ByteView file) {
  OwnRoot own;
  GOBLIN_TRY(own.envelope, parse_envelope(MetadataRole::kRoot, file));
  GOBLIN_TRY(own.root, read_root(own.envelope.message));
  const auto signers = check_signatures(own.envelope, own.root.root,
                                        "root version " + std::to_string(own.root.version));
  if (!signers) {
    return fail(signers.error());
  }
  return own;
}

wire::TrustFile file_of(std::uint64_t version, wire::ByteView file) {
  return {version, file.size(), net::sha256(file)};
}

Result<void> check_plugin_bytes(const wire::TrustPlugin& plugin, wire::ByteView bytes) {
  if (bytes.size() != plugin.size) {
    return fail(Code::kCorrupt, "plugin " + plugin.name + ": " + std::to_string(bytes.size()) +
                                    " bytes, " + std::to_string(plugin.size) +
                                    " were signed; download it again");
  }
  if (const wire::Digest digest = net::sha256(bytes); digest != plugin.plugin) {
    return fail(Code::kCorrupt, "plugin " + plugin.name + ": SHA-256 " + digest.hex() + ", " +
                                    plugin.plugin.hex() + " was signed; download it again");
  }
  return {};
}

Result<void> check_runtime(const wire::TrustPlugin& plugin, const Runtime& runtime) {
  const std::string what = "plugin " + plugin.name;
  if (plugin.min_release > runtime.release) {
    return fail(Code::kUnsupported, what + " needs GPU Goblin " + release_text(plugin.min_release) +
                                        "; this side is " + release_text(runtime.release) +
                                        ": upgrade it");
  }
  if (plugin.abi_major != runtime.abi_major || plugin.abi_minor > runtime.abi_minor) {
    const bool newer = plugin.abi_major >= runtime.abi_major;
    return fail(Code::kUnsupported,
                what + " was built for ABI " + abi_text(plugin.abi_major, plugin.abi_minor) +
                    "; this side has ABI " + abi_text(runtime.abi_major, runtime.abi_minor) + ": " +
                    (newer ? "upgrade GPU Goblin on this computer"
                           : "ask for the plugin built with a newer SDK"));
  }
  if (plugin.backends.empty()) {
    return {};
  }
  std::string wanted;
  for (const wire::TrustBackend& backend : plugin.backends) {
    if (std::find(runtime.backends.begin(), runtime.backends.end(), backend.name) !=
        runtime.backends.end()) {
      return {};
    }
    wanted += (wanted.empty() ? "" : ", ") + backend.name;
  }
  std::string have;
  for (const std::string& backend : runtime.backends) {
    have += (have.empty() ? "" : ", ") + backend;
  }
  return fail(Code::kUnsupported, what + " runs on the backends " + wanted + "; this side has " +
                                      (have.empty() ? "none" : have) +
                                      ": install one of them, or leave its tasks to others");
}

Result<void> check_restriction(const wire::TrustPlugin& plugin,
                               std::span<const wire::Digest> signers,
                               const Restriction& restriction) {
  for (const wire::Digest& signer : restriction.signers) {
    if (std::find(signers.begin(), signers.end(), signer) == signers.end()) {
      return fail(Code::kUnsupported, "plugin " + plugin.name + ": key " + signer.hex() +
                                          ", which this computer's owner asks for, has not signed "
                                          "the catalogue");
    }
  }
  if (restriction.kinds.empty()) {
    return {};
  }
  for (const wire::TrustKind& kind : plugin.kinds) {
    if (std::none_of(restriction.kinds.begin(), restriction.kinds.end(),
                     [&kind](const wire::TrustKind& allowed) {
                       return allowed == kind ||
                              (allowed.name == kind.name && allowed.version == 0);
                     })) {
      return fail(Code::kUnsupported, "plugin " + plugin.name + ": kind " + kind.name + "/" +
                                          std::to_string(kind.version) +
                                          " is not among those that this computer's owner allows");
    }
  }
  return {};
}

}  // namespace goblin::trust
