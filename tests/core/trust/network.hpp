// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A network for tests: keys, what was published, and a server of it that can be made to lie.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/trust/publish.hpp"
#include "core/trust/verifier.hpp"
#include "tests/core/store/support.hpp"

namespace goblin::trust::test {

using store::test::TempDir;
using wire::Bytes;
using wire::ByteView;

inline constexpr std::uint64_t kDay = 86400;
inline constexpr std::uint64_t kNow = 1'800'000'000;  // 2027-01-15

inline Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// The same key for the same number, so that failures repeat.
inline SecretKey numbered_key(std::uint8_t number) {
  std::array<std::uint8_t, kSeedBytes> seed{};
  seed.fill(number);
  return SecretKey::from_seed(seed);
}

inline Bytes plugin_bytes(const std::string& name) { return bytes_of("library of " + name); }
inline wire::TrustPlugin plugin_of(const std::string& name, const std::string& kind = "matmul") {
  return plugin_entry({.name = name,
                       .abi_major = 1,
                       .abi_minor = 1,
                       .kinds = {{kind, 1}},
                       .backends = {},
                       .min_release = 0},
                      plugin_bytes(name));
}

/// Serves files from memory; `lie` may answer in its stead.
class Server final : public Fetch {
 public:
  using Place = std::pair<MetadataRole, std::uint64_t>;

  Result<Bytes> get(MetadataRole role, std::uint64_t version, std::uint64_t max_bytes) override {
    asked.push_back({role, version, max_bytes});
    if (lie) {
      if (auto answer = lie(role, version)) {
        return std::move(*answer);
      }
    }
    const auto found = files.find({role, version});
    if (found == files.end()) {
      return fail(Code::kNotFound, "nothing of that name");
    }
    return found->second;
  }

  std::map<Place, Bytes> files;
  std::function<std::optional<Result<Bytes>>(MetadataRole, std::uint64_t)> lie;
  std::vector<Wanted> asked;
};

/// Root and targets with three keys of which two must sign, a timestamp with one.
class Network {
 public:
  Network() {
    for (std::uint8_t i = 0; i < 3; ++i) {
      root_keys.push_back(numbered_key(static_cast<std::uint8_t>(10 + i)));
      targets_keys.push_back(numbered_key(static_cast<std::uint8_t>(20 + i)));
    }
    timestamp_key.push_back(numbered_key(30));
    root.version = 1;
    root.issued_s = kNow - kDay;
    root.expires_s = kNow + 365 * kDay;
    for (const SecretKey& key : root_keys) root.root.keys.push_back(key.public_key());
    for (const SecretKey& key : targets_keys) root.targets.keys.push_back(key.public_key());
    root.timestamp.keys.push_back(timestamp_key[0].public_key());
    root.root.threshold = root.targets.threshold = 2;
    root.timestamp.threshold = 1;
    first_root = signed_by(make_root_file(root).value(), {&root_keys[0], &root_keys[1]});
    server.files[{MetadataRole::kRoot, 1}] = first_root;
    targets.version = 0;
    targets.plugins = {plugin_of("matmul-1"), plugin_of("graph-1", "graph")};
    publish_targets(kNow - kDay);
  }

  /// Signs with each of the keys, whether they may or not.
  static Bytes signed_by(const Bytes& file, const std::vector<const SecretKey*>& keys) {
    Envelope envelope = parse_envelope(role_of(file).value(), file).value();
    std::map<wire::Digest, Signature> signatures;
    for (const KeySignature& one : envelope.signatures) signatures[one.key] = one.signature;
    for (const SecretKey* key : keys)
      signatures[key->id()] = key->sign(signed_input(envelope.role, envelope.message));
    envelope.signatures.clear();
    for (const auto& [key, signature] : signatures) envelope.signatures.push_back({key, signature});
    return encode_envelope(envelope);
  }
  template <typename T>
  static Bytes unsigned_file(MetadataRole role, const T& message) {
    return encode_envelope({role, {}, wire::encode(message)});
  }

  /// Publishes `targets` as the next version, with a timestamp.
  void publish_targets(std::uint64_t now_s) {
    targets = next_targets(targets, now_s, now_s + 90 * kDay);
    targets_file =
        signed_by(make_targets_file(targets).value(), {&targets_keys[0], &targets_keys[1]});
    server.files[{MetadataRole::kTargets, targets.version}] = targets_file;
    publish_timestamp(now_s);
  }
  void publish_timestamp(std::uint64_t now_s) {
    ++timestamp_version;
    server.files[{MetadataRole::kTimestamp, 0}] = timestamp_file(timestamp_version, now_s);
  }
  [[nodiscard]] Bytes timestamp_file(std::uint64_t version, std::uint64_t now_s) const {
    return signed_by(make_timestamp_file(version, now_s, now_s + 7 * kDay, targets_file).value(),
                     {&timestamp_key.back()});
  }
  /// Publishes a root with `change`, signed by `signers` (by default two old keys).
  void publish_root(const std::function<void(wire::TrustRoot&)>& change,
                    std::vector<const SecretKey*> signers = {}) {
    root = next_root(root, kNow - kDay, kNow + 365 * kDay);
    change(root);
    if (signers.empty()) signers = {&root_keys[0], &root_keys[1]};
    server.files[{MetadataRole::kRoot, root.version}] =
        signed_by(unsigned_file(MetadataRole::kRoot, root), signers);
  }
  Bytes& served(MetadataRole role, std::uint64_t version) { return server.files[{role, version}]; }
  Bytes& timestamp() { return served(MetadataRole::kTimestamp, 0); }

  std::vector<SecretKey> root_keys, targets_keys, timestamp_key;
  wire::TrustRoot root;
  Bytes first_root;
  wire::TrustTargets targets;
  Bytes targets_file;
  std::uint64_t timestamp_version = 0;
  Server server;
};

/// A host's verifier, and its directory.
class TrustTest : public ::testing::Test {
 protected:
  void open() {
    verifier_.reset();
    auto opened = Verifier::open({.directory = path(), .root = network_.first_root});
    ASSERT_TRUE(opened) << opened.error().message;
    verifier_ = std::move(*opened);
  }
  /// Opened, with the network's first catalogue.
  void start() {
    open();
    GOBLIN_ASSERT_OK(update());
  }
  Result<UpdateOutcome> update(std::uint64_t now_s = kNow) {
    return verifier_->update(network_.server, now_s);
  }
  [[nodiscard]] std::string path() const { return directory_ / "trust"; }
  [[nodiscard]] bool allows(const std::string& name) const {
    return verifier_->catalogue() != nullptr &&
           verifier_->catalogue()->find(plugin_of(name).plugin) != nullptr;
  }
  [[nodiscard]] std::uint64_t version() const {
    return verifier_->catalogue() == nullptr ? 0 : verifier_->catalogue()->version;
  }
  /// The update fails with that code and words, and leaves the catalogue as it was, also on disk.
  void expect_refused(Code code, const std::string& words, std::uint64_t now_s = kNow) {
    const std::uint64_t before = version();
    const auto refused = update(now_s);
    GOBLIN_EXPECT_CODE(code, refused);
    if (!refused) {
      EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
    }
    EXPECT_EQ(version(), before);
    open();
    EXPECT_EQ(version(), before);
  }

  TempDir directory_;
  Network network_;
  std::unique_ptr<Verifier> verifier_;
};

}  // namespace goblin::trust::test
