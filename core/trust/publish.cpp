// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/publish.hpp"

#include <algorithm>

#include "core/net/sha256.hpp"

namespace goblin::trust {
namespace {

template <typename T>
Result<wire::Bytes> make_file(MetadataRole role, const T& message) {
  GOBLIN_TRY_VOID(validate(message));
  wire::Bytes file =
      encode_envelope({.role = role, .signatures = {}, .message = wire::encode(message)});
  if (file.size() > max_file_bytes(role)) {
    return fail(Code::kInvalidArgument, std::string(role_name(role)) + " metadata of " +
                                            std::to_string(file.size()) + " bytes, at most " +
                                            std::to_string(max_file_bytes(role)) +
                                            " may be published; list fewer plugins");
  }
  return file;
}

/// Version and times of a message, decoded and validated.
struct Head {
  std::uint64_t version;
  std::uint64_t issued_s;
  std::uint64_t expires_s;
};
template <typename T>
Result<Head> head_of(const Result<T>& message) {
  if (!message) {
    return fail(message.error());
  }
  return Head{message->version, message->issued_s, message->expires_s};
}
Result<Head> read_head(const Envelope& envelope) {
  switch (envelope.role) {
    case MetadataRole::kRoot:
      return head_of(read_root(envelope.message));
    case MetadataRole::kTargets:
      return head_of(read_targets(envelope.message));
    case MetadataRole::kTimestamp:
      return head_of(read_timestamp(envelope.message));
  }
  return fail(Code::kInternal, "unknown role");
}

/// The roles whose keys count for a file, each with the words for it.
struct Authority {
  std::string whose;
  wire::TrustRole keys;
};
Result<std::vector<Authority>> authorities(const Envelope& envelope, const wire::TrustRoot* root) {
  std::vector<Authority> all;
  if (root != nullptr) {
    all.push_back({"root version " + std::to_string(root->version), keys_of(*root, envelope.role)});
  }
  if (envelope.role == MetadataRole::kRoot) {
    GOBLIN_TRY(wire::TrustRoot own, read_root(envelope.message));
    all.push_back({"root version " + std::to_string(own.version) + " itself", std::move(own.root)});
  } else if (root == nullptr) {
    return fail(Code::kInvalidArgument, "whose signatures count for " +
                                            std::string(role_name(envelope.role)) +
                                            " metadata stands in a root; give the one in force");
  }
  return all;
}

}  // namespace

wire::TrustRole& keys_of(wire::TrustRoot& root, MetadataRole role) {
  return role == MetadataRole::kRoot      ? root.root
         : role == MetadataRole::kTargets ? root.targets
                                          : root.timestamp;
}
const wire::TrustRole& keys_of(const wire::TrustRoot& root, MetadataRole role) {
  return keys_of(const_cast<wire::TrustRoot&>(root), role);
}

wire::TrustRoot next_root(const wire::TrustRoot& current, std::uint64_t issued_s,
                          std::uint64_t expires_s) {
  wire::TrustRoot next = current;
  ++next.version;
  next.issued_s = issued_s;
  next.expires_s = expires_s;
  return next;
}

Result<void> add_key(wire::TrustRoot& root, MetadataRole role, const PublicKey& key) {
  GOBLIN_TRY_VOID(check_public_key(key));
  for (const MetadataRole other :
       {MetadataRole::kRoot, MetadataRole::kTargets, MetadataRole::kTimestamp}) {
    const auto& keys = keys_of(root, other).keys;
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return fail(Code::kInvalidArgument, "key " + key_id(key).hex() + " serves the role " +
                                              std::string(role_name(other)) +
                                              " already; each key serves one: make another key");
    }
  }
  keys_of(root, role).keys.push_back(key);
  return {};
}

Result<void> remove_key(wire::TrustRoot& root, MetadataRole role, const wire::Digest& key) {
  auto& keys = keys_of(root, role).keys;
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const PublicKey& one) { return key_id(one) == key; });
  if (found == keys.end()) {
    return fail(Code::kNotFound, "the role " + std::string(role_name(role)) + " of root version " +
                                     std::to_string(root.version) + " has no key " + key.hex());
  }
  keys.erase(found);
  return {};
}

wire::TrustPlugin plugin_entry(const PluginFacts& facts, wire::ByteView file) {
  wire::TrustPlugin plugin{.name = facts.name,
                           .plugin = net::sha256(file),
                           .size = file.size(),
                           .abi_major = facts.abi_major,
                           .abi_minor = facts.abi_minor,
                           .kinds = facts.kinds,
                           .backends = {},
                           .min_release = facts.min_release};
  for (const std::string& backend : facts.backends) {
    plugin.backends.push_back({backend});
  }
  return plugin;
}

wire::TrustTargets next_targets(const wire::TrustTargets& current, std::uint64_t issued_s,
                                std::uint64_t expires_s) {
  wire::TrustTargets next = current;
  ++next.version;
  next.issued_s = issued_s;
  next.expires_s = expires_s;
  return next;
}

Result<void> add_plugin(wire::TrustTargets& targets, const wire::TrustPlugin& plugin) {
  wire::TrustTargets with = targets;
  with.plugins.push_back(plugin);
  GOBLIN_TRY_VOID(validate(with));
  targets = std::move(with);
  return {};
}

Result<void> revoke_plugin(wire::TrustTargets& targets, std::string_view name_or_digest) {
  const auto found =
      std::find_if(targets.plugins.begin(), targets.plugins.end(), [&](const auto& plugin) {
        return plugin.name == name_or_digest || plugin.plugin.hex() == name_or_digest;
      });
  if (found == targets.plugins.end()) {
    return fail(Code::kNotFound,
                "targets version " + std::to_string(targets.version) + " list no plugin '" +
                    std::string(name_or_digest.substr(0, 80)) + "'; give its name or its digest");
  }
  targets.plugins.erase(found);
  return {};
}

Result<wire::Bytes> make_root_file(const wire::TrustRoot& root) {
  return make_file(MetadataRole::kRoot, root);
}
Result<wire::Bytes> make_targets_file(const wire::TrustTargets& targets) {
  return make_file(MetadataRole::kTargets, targets);
}

Result<wire::Bytes> make_timestamp_file(std::uint64_t version, std::uint64_t issued_s,
                                        std::uint64_t expires_s, wire::ByteView targets_file) {
  GOBLIN_TRY(const Envelope envelope, parse_envelope(MetadataRole::kTargets, targets_file));
  GOBLIN_TRY(const wire::TrustTargets targets, read_targets(envelope.message));
  wire::TrustTimestamp timestamp;
  timestamp.version = version;
  timestamp.issued_s = issued_s;
  timestamp.expires_s = expires_s;
  timestamp.targets = file_of(targets.version, targets_file);
  return make_file(MetadataRole::kTimestamp, timestamp);
}

Result<wire::Bytes> sign(wire::ByteView file, const SecretKey& key, const wire::TrustRoot* root) {
  GOBLIN_TRY(const MetadataRole role, role_of(file));
  GOBLIN_TRY(Envelope envelope, parse_envelope(role, file));
  GOBLIN_TRY_VOID(read_head(envelope));
  GOBLIN_TRY(const std::vector<Authority> all, authorities(envelope, root));
  const PublicKey public_key = key.public_key();
  const wire::Digest id = key_id(public_key);
  if (std::none_of(all.begin(), all.end(), [&](const Authority& one) {
        return std::find(one.keys.keys.begin(), one.keys.keys.end(), public_key) !=
               one.keys.keys.end();
      })) {
    return fail(Code::kInvalidArgument, "key " + id.hex() + " is no " +
                                            std::string(role_name(role)) + " key of " +
                                            all.front().whose +
                                            ", so its signature would count for nothing; use one "
                                            "that is, or add it by a new root");
  }
  auto& signatures = envelope.signatures;
  const auto place = std::lower_bound(
      signatures.begin(), signatures.end(), id,
      [](const KeySignature& one, const wire::Digest& other) { return one.key < other; });
  const KeySignature mine{id, key.sign(signed_input(role, envelope.message))};
  if (place != signatures.end() && place->key == id) {
    *place = mine;
  } else if (signatures.size() == kMaxSignatures) {
    return fail(Code::kInvalidArgument, "the file has " + std::to_string(kMaxSignatures) +
                                            " signatures already, as many as it may have");
  } else {
    signatures.insert(place, mine);
  }
  wire::Bytes out = encode_envelope(envelope);
  if (out.size() > max_file_bytes(role)) {
    return fail(Code::kInvalidArgument,
                "no room for another signature: " + std::to_string(max_file_bytes(role)) +
                    " bytes at most; list fewer plugins");
  }
  return out;
}

bool Standing::done() const {
  return std::all_of(duties.begin(), duties.end(), [](const Duty& duty) { return duty.done(); });
}

Result<Standing> standing(wire::ByteView file, const wire::TrustRoot* root) {
  GOBLIN_TRY(const MetadataRole role, role_of(file));
  GOBLIN_TRY(const Envelope envelope, parse_envelope(role, file));
  GOBLIN_TRY(const Head head, read_head(envelope));
  GOBLIN_TRY(const std::vector<Authority> all, authorities(envelope, root));
  Standing standing{role, head.version, head.issued_s, head.expires_s, {}};
  const wire::Bytes input = signed_input(role, envelope.message);
  for (const Authority& one : all) {
    Duty duty{one.whose, one.keys.threshold, {}, {}};
    for (const PublicKey& key : one.keys.keys) {
      const wire::Digest id = key_id(key);
      const auto given = std::find_if(envelope.signatures.begin(), envelope.signatures.end(),
                                      [&](const KeySignature& s) { return s.key == id; });
      if (given == envelope.signatures.end()) {
        duty.missing.push_back(id);
      } else if (verify(key, input, given->signature)) {
        duty.have.push_back(id);
      } else {
        return fail(Code::kCorrupt, std::string(role_name(role)) +
                                        " metadata: the signature of key " + id.hex() +
                                        " does not hold; get the file again from its signer");
      }
    }
    standing.duties.push_back(std::move(duty));
  }
  return standing;
}

}  // namespace goblin::trust
