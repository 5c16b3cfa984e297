// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The signed catalogue: files as an attacker serves them (byte 0: 0), messages as somebody with the
// keys might sign them (1 to 3: root, targets, timestamp). What is taken keeps the rules.
#include <algorithm>
#include <set>

#include "core/trust/trusted.hpp"
#include "tests/core/trust/network.hpp"
#include "tests/fuzz/guarded.hpp"

namespace goblin::fuzz {
namespace {

using trust::MetadataRole;
using trust::test::Network;

const Network& network() {
  static const Network only;
  return only;
}

constexpr MetadataRole kRoles[] = {MetadataRole::kRoot, MetadataRole::kTargets,
                                   MetadataRole::kTimestamp};

void judged(const Error& error) {
  expect(error.code == Code::kCorrupt || error.code == Code::kUnsupported,
         "what is served and wrong is kCorrupt or kUnsupported");
  expect(!error.message.empty(), "a refusal says why");
}

/// A file nobody with a key has seen: however it reads, it opens nothing.
void run_file(ByteView file) {
  const auto role = trust::role_of(file);
  for (const MetadataRole one : kRoles) {
    const auto envelope = trust::parse_envelope(one, file);
    if (!envelope) {
      judged(envelope.error());
      continue;
    }
    expect(role && *role == one, "a file has one role");
    const Bytes again = trust::encode_envelope(*envelope);
    expect(std::ranges::equal(again, file), "a file that parses is written the same");
    expect(std::ranges::is_sorted(envelope->signatures, {}, &trust::KeySignature::key),
           "signatures are in order");
  }
  const wire::TrustRoot& root = network().root;
  if (const auto next = trust::read_next_root(file, root); !next)
    judged(next.error());
  else
    expect(next->version == root.version + 1, "roots follow each other");
  if (const auto targets = trust::read_signed_targets(file, root); !targets) {
    judged(targets.error());
  } else {
    expect(targets->signers.size() >= root.targets.threshold, "targets have enough signers");
  }
  if (const auto timestamp = trust::read_signed_timestamp(file, root); !timestamp) {
    judged(timestamp.error());
  }
  if (const auto own = trust::read_own_root(file); !own) judged(own.error());
}

template <typename Keys>
Bytes sign(MetadataRole role, ByteView message, const Keys& keys) {
  return Network::signed_by(
      trust::encode_envelope({role, {}, Bytes(message.begin(), message.end())}),
      {&keys[0], &keys[keys.size() - 1]});
}

void check_targets(const wire::TrustTargets& targets) {
  std::set<std::string> names;
  for (const wire::TrustPlugin& plugin : targets.plugins) {
    expect(trust::is_identifier(plugin.name) && plugin.name.find('/') == std::string::npos &&
               plugin.name.find("..") == std::string::npos && plugin.name.front() != '.',
           "no name is a path");
    expect(names.insert(plugin.name).second, "no name stands twice");
    expect(plugin.size > 0 && plugin.size <= trust::kMaxPluginBytes, "sizes are bounded");
  }
}

/// The keys' owners sign whatever they are given: its reader is the last barrier.
void run_message(MetadataRole role, ByteView message) {
  if (message.size() < 8 || message.size() % 8 != 0) {
    return;  // no envelope holds that
  }
  const Network& net = network();
  if (role == MetadataRole::kRoot) {
    const auto next = trust::read_next_root(sign(role, message, net.root_keys), net.root);
    if (!next) return judged(next.error());
    expect(next->version == net.root.version + 1, "roots follow each other");
    expect(
        next->root.threshold >= 1 && next->targets.threshold >= 1 && next->timestamp.threshold >= 1,
        "no role has the threshold 0");
  } else if (role == MetadataRole::kTargets) {
    const auto targets =
        trust::read_signed_targets(sign(role, message, net.targets_keys), net.root);
    if (!targets) return judged(targets.error());
    expect(targets->signers.size() == 2, "two keys signed");
    check_targets(targets->targets);
  } else {
    const auto timestamp =
        trust::read_signed_timestamp(sign(role, message, net.timestamp_key), net.root);
    if (!timestamp) return judged(timestamp.error());
    expect(timestamp->issued_s < timestamp->expires_s, "times are in order");
  }
}

void run(ByteView input) {
  if (input.size() < 8) {
    return;
  }
  const auto mode = std::to_integer<unsigned>(input[0]) % 4;
  const ByteView bytes = guarded(input.subspan(8), Against::kEnd);
  if (mode == 0) {
    run_file(bytes);
  } else {
    run_message(kRoles[mode - 1], bytes);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&all](unsigned mode, ByteView bytes) {
    all.push_back(Script().u64(mode).bytes(bytes).take());
  };
  Network net;
  net.publish_root([](wire::TrustRoot&) {});
  for (const auto& [place, file] : net.server.files) {
    add(0, file);
    const auto envelope = trust::parse_envelope(place.first, file).value();
    add(static_cast<unsigned>(place.first), envelope.message);
  }
  return all;
}

}  // namespace

Target catalogue_target() { return {"catalogue", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
