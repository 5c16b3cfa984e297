// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The sixteen cases of updates of the threat model, by their numbers.
#include "core/plugin/note.hpp"
#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

using UpdateCases = TrustTest;

constexpr auto kRoot = MetadataRole::kRoot;
constexpr auto kTargets = MetadataRole::kTargets;
constexpr auto kTimestamp = MetadataRole::kTimestamp;

TEST_F(UpdateCases, Case01OldTimestamp) {
  start();
  const Bytes old = network_.timestamp();
  network_.targets.plugins.pop_back();
  network_.publish_targets(kNow);
  GOBLIN_ASSERT_OK(update());
  ASSERT_EQ(version(), 2u);
  network_.timestamp() = old;
  expect_refused(Code::kCorrupt,
                 "timestamp version 1 was served, but this computer has seen version 2");
  EXPECT_FALSE(allows("graph-1")) << "what was revoked is back";
  // A newer timestamp for the older targets, as whoever holds the online key could make.
  const Bytes targets_2 = network_.targets_file;
  network_.targets_file = network_.served(kTargets, 1);
  network_.publish_timestamp(kNow);
  expect_refused(Code::kCorrupt,
                 "targets version 1 was served, but this computer has seen version 2");
  EXPECT_FALSE(allows("graph-1"));
}

TEST_F(UpdateCases, Case02Expired) {
  start();
  const std::uint64_t later = kNow + 8 * kDay;
  // Frozen: the same genuine timestamp for ever.
  GOBLIN_EXPECT_CODE(Code::kUnavailable, verifier_->may_start(later));
  expect_refused(Code::kUnavailable, "timestamp version 1 expired at 2027-01-21", later);
  const auto start_now = verifier_->may_start(later);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, start_now);
  EXPECT_NE(start_now.error().message.find("no new tasks"), std::string::npos);
  // What was verified stays readable, with its expiry.
  ASSERT_TRUE(allows("matmul-1"));
  EXPECT_EQ(verifier_->catalogue()->expires_s, kNow + 6 * kDay);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, verifier_->may_start(kNow + 6 * kDay));
  EXPECT_TRUE(verifier_->may_start(kNow + 6 * kDay - 1));
  // A new timestamp ends it.
  network_.publish_timestamp(later);
  GOBLIN_ASSERT_OK(update(later));
  EXPECT_TRUE(verifier_->may_start(later));
}

TEST_F(UpdateCases, Case02ExpiredTargetsAndRoot) {
  start();
  network_.publish_timestamp(kNow + 89 * kDay);
  expect_refused(Code::kUnavailable, "targets version 1 expired", kNow + 89 * kDay);
  network_.publish_targets(kNow + 366 * kDay);
  expect_refused(Code::kUnavailable, "root version 1 expired", kNow + 366 * kDay);
}

TEST_F(UpdateCases, Case03OneOfTwoKeys) {
  start();
  network_.targets = next_targets(network_.targets, kNow, kNow + kDay);
  for (int signer = 0; signer < 3; ++signer) {
    network_.targets_file =
        Network::signed_by(make_targets_file(network_.targets).value(),
                           {&network_.targets_keys[static_cast<std::size_t>(signer)]});
    network_.served(kTargets, 2) = network_.targets_file;
    // Each with a timestamp, as the coordinator's online key can make; later versions each time.
    network_.targets.version = 2;
    network_.publish_timestamp(kNow);
    TempDir fresh;
    auto host = Verifier::open({.directory = fresh / "trust", .root = network_.first_root}).value();
    const auto refused = host->update(network_.server, kNow);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
    EXPECT_NE(refused.error().message.find("signed by 1 of the 2 keys"), std::string::npos);
    EXPECT_EQ(host->catalogue(), nullptr);
  }
  expect_refused(Code::kCorrupt, "signed by 1 of the 2 keys of root version 1 that it needs");
  // A new root by one key, too.
  network_.publish_root([](wire::TrustRoot&) {}, {&network_.root_keys[0]});
  expect_refused(Code::kCorrupt, "root metadata: signed by 1 of the 2 keys");
  // And an installation's root.
  const Bytes weak =
      Network::signed_by(Network::unsigned_file(kRoot, Network().root), {&network_.root_keys[2]});
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument,
                     Verifier::open({.directory = directory_ / "other", .root = weak}));
}

TEST_F(UpdateCases, Case04SameKeyTwice) {
  start();
  network_.targets = next_targets(network_.targets, kNow, kNow + kDay);
  const Bytes unsigned_targets = make_targets_file(network_.targets).value();
  const SecretKey& key = network_.targets_keys[0];
  Envelope envelope = parse_envelope(kTargets, unsigned_targets).value();
  const Signature signature = key.sign(signed_input(kTargets, envelope.message));
  const auto serve = [&](std::vector<KeySignature> signatures) {
    std::sort(signatures.begin(), signatures.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    envelope.signatures = std::move(signatures);
    network_.targets_file = encode_envelope(envelope);
    ++network_.targets.version;  // so that each is a file of its own to the host
    wire::TrustTimestamp timestamp;
    timestamp.version = ++network_.timestamp_version;
    timestamp.issued_s = kNow;
    timestamp.expires_s = kNow + kDay;
    timestamp.targets = file_of(network_.targets.version, network_.targets_file);
    network_.served(kTargets, network_.targets.version) = network_.targets_file;
    network_.timestamp() = Network::signed_by(Network::unsigned_file(kTimestamp, timestamp),
                                              {&network_.timestamp_key[0]});
  };
  serve({{key.id(), signature}, {key.id(), signature}});
  expect_refused(Code::kCorrupt, "two signatures name the same key");
  serve({{key.id(), signature}, {network_.targets_keys[1].id(), signature}});
  expect_refused(Code::kCorrupt, "does not hold");
  serve({{key.id(), signature}, {wire::Digest{}, signature}});
  expect_refused(Code::kCorrupt, "signed by 1 of the 2 keys");
  // A root that lists one key twice to reach its threshold.
  network_.publish_root([](wire::TrustRoot& root) {
    root.targets.keys = {root.targets.keys[0], root.targets.keys[0]};
  });
  expect_refused(Code::kCorrupt, "each key serves one role, once");
}

TEST_F(UpdateCases, Case05ThresholdZero) {
  start();
  network_.publish_root([](wire::TrustRoot& root) { root.targets.threshold = 0; });
  expect_refused(Code::kCorrupt, "0 signatures of 3 keys");
  const Bytes weak = Network::unsigned_file(kRoot, [&] {
    wire::TrustRoot root = Network().root;
    root.root.threshold = 0;
    return root;
  }());
  const auto refused = Verifier::open({.directory = directory_ / "other", .root = weak});
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
}

TEST_F(UpdateCases, Case06SkippedRoot) {
  start();
  network_.publish_root([](wire::TrustRoot&) {});
  network_.publish_root([](wire::TrustRoot&) {});
  ASSERT_EQ(network_.root.version, 3u);
  network_.served(kRoot, 2) = network_.served(kRoot, 3);
  expect_refused(Code::kCorrupt, "root version 3 was served where version 2 must follow");
  EXPECT_EQ(verifier_->root().version, 1u);
  network_.served(kRoot, 2) = network_.first_root;
  expect_refused(Code::kCorrupt, "root version 1 was served where version 2 must follow");
}

TEST_F(UpdateCases, Case07RootSignedByOldOnly) {
  start();
  const SecretKey fresh[] = {numbered_key(40), numbered_key(41)};
  const auto replace = [&](wire::TrustRoot& root) {
    root.root.keys = {fresh[0].public_key(), fresh[1].public_key()};
  };
  const auto& old = network_.root_keys;
  network_.publish_root(replace, {&old[0], &old[1]});
  expect_refused(Code::kCorrupt, "signed by 0 of the 2 keys of the new root version 2");
  --network_.root.version;
  network_.publish_root(replace, {&old[0], &old[1], &fresh[0]});
  expect_refused(Code::kCorrupt, "signed by 1 of the 2 keys of the new root version 2");
  // By the new ones only: anybody could.
  --network_.root.version;
  network_.publish_root(replace, {&fresh[0], &fresh[1]});
  expect_refused(Code::kCorrupt, "signed by 0 of the 2 keys of root version 1");
  --network_.root.version;
  network_.publish_root(replace, {&old[0], &old[2], &fresh[0], &fresh[1]});
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(verifier_->root().version, 2u);
  EXPECT_TRUE(verifier_->may_start(kNow));
}

TEST_F(UpdateCases, Case08RevokedKey) {
  start();
  const SecretKey fresh = numbered_key(50);
  // Key 1, which signed the targets in force, is taken away: they have one good signature left.
  network_.publish_root([&](wire::TrustRoot& root) { root.targets.keys[1] = fresh.public_key(); });
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_EQ(verifier_->root().version, 2u) << "the revocation must stay even so";
  EXPECT_EQ(verifier_->catalogue(), nullptr);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, verifier_->may_start(kNow));
  open();
  EXPECT_EQ(verifier_->root().version, 2u);
  EXPECT_EQ(verifier_->catalogue(), nullptr);
  // New targets with the revoked key are refused, with the new one they are taken.
  network_.publish_targets(kNow);
  expect_refused(Code::kCorrupt, "signed by 1 of the 2 keys of root version 2");
  network_.targets = next_targets(network_.targets, kNow, kNow + kDay);
  network_.targets_file = Network::signed_by(make_targets_file(network_.targets).value(),
                                             {&network_.targets_keys[0], &fresh});
  network_.served(kTargets, network_.targets.version) = network_.targets_file;
  network_.publish_timestamp(kNow);
  GOBLIN_ASSERT_OK(update());
  EXPECT_TRUE(verifier_->may_start(kNow));
  EXPECT_TRUE(allows("matmul-1"));
}

TEST_F(UpdateCases, Case08RevokedTimestampKey) {
  start();
  const SecretKey stolen = std::move(network_.timestamp_key.back());
  network_.timestamp_key.pop_back();
  network_.timestamp_key.push_back(numbered_key(51));
  network_.publish_root([&](wire::TrustRoot& root) {
    root.timestamp.keys = {network_.timestamp_key[0].public_key()};
  });
  network_.timestamp() = Network::signed_by(
      make_timestamp_file(99, kNow, kNow + kDay, network_.targets_file).value(), {&stolen});
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("signed by 0 of the 1 keys"), std::string::npos);
  network_.publish_timestamp(kNow);
  GOBLIN_ASSERT_OK(update());
  EXPECT_TRUE(verifier_->may_start(kNow));
}

TEST_F(UpdateCases, Case09RoleConfusion) {
  start();
  network_.publish_root([](wire::TrustRoot&) {});
  const std::map<Server::Place, Bytes> genuine = network_.server.files;
  const Server::Place places[] = {{kRoot, 2}, {kTargets, 1}, {kTimestamp, 0}};
  for (const auto& place : places) {
    for (const auto& other : places) {
      if (place == other) continue;
      // As it is, and with the role's number rewritten so that it reads like the one asked for.
      for (const bool rewritten : {false, true}) {
        Bytes file = genuine.at(other);
        if (rewritten) file[8] = static_cast<std::byte>(place.first);
        network_.server.files = genuine;
        network_.server.files[place] = file;
        TempDir fresh;
        auto host = Verifier::open({.directory = fresh / "t", .root = network_.first_root}).value();
        const auto refused = host->update(network_.server, kNow);
        GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
        EXPECT_EQ(host->catalogue(), nullptr);
      }
    }
  }
  // Targets signed by the online key and by root's keys.
  network_.server.files = genuine;
  network_.targets = next_targets(network_.targets, kNow, kNow + kDay);
  network_.targets_file = Network::signed_by(
      make_targets_file(network_.targets).value(),
      {&network_.timestamp_key[0], &network_.root_keys[0], &network_.root_keys[1]});
  network_.served(kTargets, 2) = network_.targets_file;
  network_.publish_timestamp(kNow);
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("signed by 0 of the 2 keys"), std::string::npos);
}

TEST_F(UpdateCases, Case10BlobFlippedShortLong) {
  start();
  const wire::TrustPlugin* entry = verifier_->catalogue()->find(plugin_of("matmul-1").plugin);
  ASSERT_NE(entry, nullptr);
  const Bytes good = plugin_bytes("matmul-1");
  EXPECT_TRUE(check_plugin_bytes(*entry, good));
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{1};
    GOBLIN_EXPECT_CODE(Code::kCorrupt, check_plugin_bytes(*entry, bad));
    GOBLIN_EXPECT_CODE(Code::kCorrupt, check_plugin_bytes(*entry, ByteView(good).first(at)));
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  const auto refused = check_plugin_bytes(*entry, longer);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("20 bytes, 19 were signed"), std::string::npos)
      << refused.error().message;
  // The targets themselves against the timestamp: flipped, short, long.
  network_.publish_targets(kNow);
  const Bytes targets = network_.targets_file;
  for (const int change : {0, 1, 2}) {
    Bytes& served = network_.served(kTargets, 2);
    served = targets;
    if (change == 0) served.back() ^= std::byte{1};
    if (change == 1) served.pop_back();
    if (change == 2) served.push_back(std::byte{0});
    expect_refused(Code::kCorrupt, change == 0   ? "was named by the timestamp"
                                   : change == 1 ? "were named by the timestamp"
                                                 : "may come");
  }
}

TEST_F(UpdateCases, Case11MetadataOfOneGiB) {
  start();
  network_.publish_targets(kNow);
  network_.publish_root([](wire::TrustRoot&) {});
  for (const MetadataRole role : {kRoot, kTimestamp, kTargets}) {
    network_.server.lie = [&](MetadataRole asked, std::uint64_t) -> std::optional<Result<Bytes>> {
      if (asked != role) return std::nullopt;
      return Bytes(std::size_t{1} << 30);
    };
    network_.server.asked.clear();
    const auto refused = update();
    GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
    EXPECT_NE(refused.error().message.find("metadata of 1073741824 bytes, at most"),
              std::string::npos);
    // Whoever downloads was told where to stop.
    EXPECT_LE(network_.server.asked.back().max_bytes, std::uint64_t{4} << 20);
  }
  EXPECT_EQ(version(), 1u);
}

TEST_F(UpdateCases, Case12NameIsAPath) {
  start();
  network_.targets.plugins[0].name = "../../x";
  network_.targets = next_targets(network_.targets, kNow, kNow + kDay);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, make_targets_file(network_.targets));
  // Signed by all who may, as if the publisher's tools did not mind.
  network_.targets_file =
      Network::signed_by(Network::unsigned_file(kTargets, network_.targets),
                         {&network_.targets_keys[0], &network_.targets_keys[1]});
  network_.served(kTargets, 2) = network_.targets_file;
  wire::TrustTimestamp timestamp;
  timestamp.version = 2;
  timestamp.issued_s = kNow;
  timestamp.expires_s = kNow + kDay;
  timestamp.targets = file_of(2, network_.targets_file);
  network_.timestamp() = Network::signed_by(Network::unsigned_file(kTimestamp, timestamp),
                                            {&network_.timestamp_key[0]});
  expect_refused(Code::kCorrupt, "plugin '../../x': the name is no identifier");
}

TEST_F(UpdateCases, Case13ClockBackTenYears) {
  start();
  network_.publish_timestamp(kNow);
  GOBLIN_ASSERT_OK(update());
  const std::uint64_t back = kNow - 3650 * kDay;
  expect_refused(Code::kUnavailable, "it was set back", back);
  EXPECT_TRUE(network_.server.asked.size() > 0);
  const auto start_then = verifier_->may_start(back);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, start_then);
  EXPECT_NE(start_then.error().message.find("2017-01-17 08:00:00 UTC"), std::string::npos)
      << start_then.error().message;
  // A host that has seen nothing yet: the signed times tell.
  TempDir fresh;
  auto host = Verifier::open({.directory = fresh / "trust", .root = network_.first_root}).value();
  const auto refused = host->update(network_.server, back);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, refused);
  EXPECT_NE(refused.error().message.find("it is behind"), std::string::npos);
  // Within the tolerance nothing happens; beyond it, by a second, it does.
  EXPECT_TRUE(update(kNow - 3600));
  GOBLIN_EXPECT_CODE(Code::kUnavailable, update(kNow - 3601));
}

// A clock that was fast for a moment: only what was signed counts, not what it said.
TEST_F(UpdateCases, Case13ClockThatWasFast) {
  start();
  GOBLIN_ASSERT_OK(update(kNow + 5 * kDay));
  GOBLIN_ASSERT_OK(update(kNow));
  GOBLIN_ASSERT_OK(verifier_->may_start(kNow));
}

// Keys were stolen, the package was upgraded, and whoever has the coordinator goes on as before.
TEST_F(UpdateCases, Case2RootOfTheInstallationIsWithheld) {
  start();
  network_.publish_root([&](wire::TrustRoot& root) {
    root.targets.keys = {numbered_key(41).public_key(), numbered_key(42).public_key()};
  });
  const Bytes second = network_.server.files.at({MetadataRole::kRoot, 2});
  network_.server.files.erase({MetadataRole::kRoot, 2});
  verifier_.reset();
  verifier_ = Verifier::open({.directory = directory_ / "trust", .root = second}).value();
  EXPECT_EQ(verifier_->catalogue(), nullptr);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, verifier_->may_start(kNow));
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, refused);
  EXPECT_NE(refused.error().message.find("this installation came with version 2"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(verifier_->catalogue(), nullptr);
  // Once it is served, all is as the new keys say.
  network_.server.files[{MetadataRole::kRoot, 2}] = second;
  (void)update();
  EXPECT_EQ(verifier_->root().version, 2u);
  EXPECT_EQ(verifier_->catalogue(), nullptr) << "nothing that the new keys signed is there yet";
}

// The blob is not there yet when the machine dies after the metadata; or another one is.
TEST_F(UpdateCases, Case14CrashBetweenMetadataAndBlob) {
  start();
  network_.targets.plugins.push_back(plugin_of("new-1", "new"));
  network_.publish_targets(kNow);
  const auto outcome = update();
  GOBLIN_ASSERT_OK(outcome);
  EXPECT_EQ(outcome->added, std::vector<wire::Digest>{plugin_of("new-1").plugin});
  open();  // after the crash
  ASSERT_TRUE(allows("new-1"));
  const wire::TrustPlugin* entry = verifier_->catalogue()->find(plugin_of("new-1").plugin);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, check_plugin_bytes(*entry, {}));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, check_plugin_bytes(*entry, plugin_bytes("new-0")));
  EXPECT_TRUE(check_plugin_bytes(*entry, plugin_bytes("new-1")));
}

TEST_F(UpdateCases, Case15WrongBackendOrAbi) {
  const auto plugin = [](std::uint32_t major, std::uint32_t minor,
                         std::vector<std::string> backends, std::uint32_t release) {
    return plugin_entry({.name = "p",
                         .abi_major = major,
                         .abi_minor = minor,
                         .kinds = {{"p", 1}},
                         .backends = std::move(backends),
                         .min_release = release},
                        plugin_bytes("p"));
  };
  const Runtime host{.abi_major = 2, .abi_minor = 3, .release = 0x010203, .backends = {"cpu"}};
  EXPECT_TRUE(check_runtime(plugin(2, 3, {}, 0), host));
  EXPECT_TRUE(check_runtime(plugin(2, 0, {"cuda", "cpu"}, 0x010203), host));
  const auto refused = [&](const wire::TrustPlugin& entry, const std::string& words) {
    const auto result = check_runtime(entry, host);
    GOBLIN_EXPECT_CODE(Code::kUnsupported, result);
    EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
  };
  refused(plugin(2, 4, {}, 0), "built for ABI 2.4; this side has ABI 2.3: upgrade GPU Goblin");
  refused(plugin(3, 0, {}, 0), "upgrade GPU Goblin");
  refused(plugin(1, 0, {}, 0), "built with a newer SDK");
  refused(plugin(2, 3, {"cuda", "hip"}, 0), "backends cuda, hip; this side has cpu");
  refused(plugin(2, 3, {}, 0x010204), "needs GPU Goblin 1.2.4; this side is 1.2.3: upgrade it");
}

// Its hash is right, since whoever signed it signed what was cut. Its note is read as bytes before
// anything maps it, and says so.
TEST_F(UpdateCases, Case16TruncatedLibraryWithAValidHash) {
  std::string library;
  for (const auto& file : std::filesystem::directory_iterator(GOBLIN_TEST_PLUGINS)) {
    if (file.path().extension() != ".so") continue;
    const std::string bytes = store::test::slurp(file.path());
    if (plugin::read_note(bytes_of(bytes))) library = bytes;
  }
  ASSERT_FALSE(library.empty());
  const Bytes cut = bytes_of(library.substr(0, library.size() / 2));
  const wire::TrustPlugin entry = plugin_entry({.name = "cut",
                                                .abi_major = 1,
                                                .abi_minor = 0,
                                                .kinds = {{"cut", 1}},
                                                .backends = {},
                                                .min_release = 0},
                                               cut);
  start();
  GOBLIN_ASSERT_OK(add_plugin(network_.targets, entry));
  network_.publish_targets(kNow);
  GOBLIN_ASSERT_OK(update());
  ASSERT_TRUE(check_plugin_bytes(*verifier_->catalogue()->find(entry.plugin), cut));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, plugin::read_note(cut));
}

}  // namespace
}  // namespace goblin::trust::test
