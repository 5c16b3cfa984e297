// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/publish.hpp"

#include "core/wire/bounds.hpp"
#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

constexpr auto kRoot = MetadataRole::kRoot;
constexpr auto kTargets = MetadataRole::kTargets;
constexpr auto kTimestamp = MetadataRole::kTimestamp;

class Publish : public ::testing::Test {
 protected:
  Network network_;
};

// Three people, three computers: the file goes round, each adds a signature, in any order.
TEST_F(Publish, TargetsSignedByTwoOfThreeOffline) {
  const Bytes unsigned_file = make_targets_file(network_.targets).value();
  auto now = standing(unsigned_file, &network_.root);
  GOBLIN_ASSERT_OK(now);
  EXPECT_EQ(now->role, kTargets);
  EXPECT_EQ(now->version, 1u);
  ASSERT_EQ(now->duties.size(), 1u);
  EXPECT_EQ(now->duties[0].whose, "root version 1");
  EXPECT_EQ(now->duties[0].threshold, 2u);
  EXPECT_EQ(now->duties[0].missing.size(), 3u);
  EXPECT_FALSE(now->done());

  const Bytes by_one = sign(unsigned_file, network_.targets_keys[2], &network_.root).value();
  now = standing(by_one, &network_.root);
  EXPECT_EQ(now->duties[0].have, std::vector<wire::Digest>{network_.targets_keys[2].id()});
  EXPECT_FALSE(now->done());

  const Bytes by_two = sign(by_one, network_.targets_keys[0], &network_.root).value();
  now = standing(by_two, &network_.root);
  EXPECT_TRUE(now->done());
  EXPECT_EQ(now->duties[0].missing, std::vector<wire::Digest>{network_.targets_keys[1].id()});
  // The order does not matter, nor does signing twice.
  const Bytes other_way =
      sign(sign(unsigned_file, network_.targets_keys[0], &network_.root).value(),
           network_.targets_keys[2], &network_.root)
          .value();
  EXPECT_EQ(other_way, by_two);
  EXPECT_EQ(sign(by_two, network_.targets_keys[0], &network_.root).value(), by_two);
}

TEST_F(Publish, SignRefusesWhatWouldCountForNothing) {
  const Bytes file = make_targets_file(network_.targets).value();
  for (const SecretKey* key : {&network_.root_keys[0], &network_.timestamp_key[0]}) {
    const auto refused = sign(file, *key, &network_.root);
    GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
    EXPECT_NE(refused.error().message.find("is no targets key of root version 1"),
              std::string::npos);
  }
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, sign(file, network_.targets_keys[0], nullptr));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, sign(bytes_of("text"), network_.targets_keys[0], nullptr));
}

TEST_F(Publish, SignRefusesWhatNoHostWouldTake) {
  wire::TrustTargets bad = network_.targets;
  bad.plugins[0].name = "../../x";
  GOBLIN_EXPECT_CODE(Code::kCorrupt, sign(Network::unsigned_file(kTargets, bad),
                                          network_.targets_keys[0], &network_.root));
  wire::TrustRoot weak = network_.root;
  weak.targets.threshold = 0;
  GOBLIN_EXPECT_CODE(Code::kCorrupt,
                     sign(Network::unsigned_file(kRoot, weak), network_.root_keys[0], nullptr));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, make_root_file(weak));
}

TEST_F(Publish, StandingNamesASignatureThatDoesNotHold) {
  Bytes file = network_.targets_file;
  file[24 + 40] ^= std::byte{1};
  const auto refused = standing(file, &network_.root);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("does not hold"), std::string::npos);
}

// One of the people leaves: their root key is replaced. Old and new people sign.
TEST_F(Publish, KeyRotation) {
  const SecretKey fresh = numbered_key(70);
  wire::TrustRoot next = next_root(network_.root, kNow, kNow + 365 * kDay);
  EXPECT_EQ(next.version, 2u);
  GOBLIN_ASSERT_OK(remove_key(next, kRoot, network_.root_keys[2].id()));
  GOBLIN_ASSERT_OK(add_key(next, kRoot, fresh.public_key()));
  Bytes file = make_root_file(next).value();
  file = sign(file, fresh, &network_.root).value();
  file = sign(file, network_.root_keys[0], &network_.root).value();
  auto now = standing(file, &network_.root);
  GOBLIN_ASSERT_OK(now);
  ASSERT_EQ(now->duties.size(), 2u);
  EXPECT_FALSE(now->duties[0].done()) << "one of the old keys is missing";
  EXPECT_TRUE(now->duties[1].done());
  EXPECT_EQ(now->duties[1].whose, "root version 2 itself");
  // The one who leaves may help to hand over.
  file = sign(file, network_.root_keys[2], &network_.root).value();
  EXPECT_TRUE(standing(file, &network_.root)->done());

  const TempDir directory;
  auto host = Verifier::open({.directory = directory / "t", .root = network_.first_root}).value();
  network_.served(kRoot, 2) = file;
  GOBLIN_ASSERT_OK(host->update(network_.server, kNow));
  EXPECT_EQ(host->root().version, 2u);
}

TEST_F(Publish, KeysAddedAndRemoved) {
  wire::TrustRoot root = network_.root;
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument,
                     add_key(root, kTimestamp, network_.root_keys[0].public_key()));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument,
                     add_key(root, kRoot, network_.root_keys[0].public_key()));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, add_key(root, kTargets, PublicKey{}));
  GOBLIN_EXPECT_CODE(Code::kNotFound, remove_key(root, kTargets, network_.root_keys[0].id()));
  EXPECT_EQ(wire::encode(root), wire::encode(network_.root));
  GOBLIN_ASSERT_OK(remove_key(root, kTargets, network_.targets_keys[0].id()));
  GOBLIN_ASSERT_OK(make_root_file(root));
  GOBLIN_ASSERT_OK(remove_key(root, kTargets, network_.targets_keys[1].id()));
  const auto refused = make_root_file(root);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
  EXPECT_NE(refused.error().message.find("2 signatures of 1 keys"), std::string::npos);
}

TEST_F(Publish, PluginsAddedAndRevoked) {
  wire::TrustTargets targets = next_targets(network_.targets, kNow, kNow + kDay);
  const Bytes library = bytes_of("a library");
  const wire::TrustPlugin entry = plugin_entry({.name = "image-1",
                                                .abi_major = 1,
                                                .abi_minor = 1,
                                                .kinds = {{"image", 1}, {"image", 2}},
                                                .backends = {"cpu", "cuda"},
                                                .min_release = 3},
                                               library);
  EXPECT_EQ(entry.size, 9u);
  EXPECT_TRUE(check_plugin_bytes(entry, library));
  GOBLIN_ASSERT_OK(add_plugin(targets, entry));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, add_plugin(targets, entry));
  wire::TrustPlugin path = plugin_of("a");
  path.name = "../a";
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, add_plugin(targets, path));
  EXPECT_EQ(targets.plugins.size(), 3u);
  GOBLIN_ASSERT_OK(revoke_plugin(targets, "matmul-1"));
  GOBLIN_ASSERT_OK(revoke_plugin(targets, entry.plugin.hex()));
  GOBLIN_EXPECT_CODE(Code::kNotFound, revoke_plugin(targets, "matmul-1"));
  ASSERT_EQ(targets.plugins.size(), 1u);
  EXPECT_EQ(targets.plugins[0].name, "graph-1");
}

TEST_F(Publish, TimestampIsForTheTargetsToTheByte) {
  const Bytes file = make_timestamp_file(5, kNow, kNow + kDay, network_.targets_file).value();
  const wire::TrustTimestamp timestamp =
      read_timestamp(parse_envelope(kTimestamp, file)->message).value();
  EXPECT_EQ(timestamp.version, 5u);
  EXPECT_EQ(timestamp.targets, file_of(1, network_.targets_file));
  GOBLIN_EXPECT_CODE(Code::kCorrupt,
                     make_timestamp_file(5, kNow, kNow + kDay, network_.first_root));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument,
                     make_timestamp_file(0, kNow, kNow + kDay, network_.targets_file));
}

TEST_F(Publish, AsManyPluginsAsMayStand) {
  wire::TrustTargets targets = network_.targets;
  targets.plugins.clear();
  for (std::uint32_t i = 0; i < wire::kMaxPlugins; ++i)
    targets.plugins.push_back(plugin_of("p" + std::to_string(i)));
  const auto most = make_targets_file(targets);
  GOBLIN_ASSERT_OK(most);
  EXPECT_TRUE(sign(*most, network_.targets_keys[0], &network_.root));
  targets.plugins.push_back(plugin_of("one-more"));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, make_targets_file(targets));
  // Fewer, but with all that an entry may hold: too long for the file.
  targets.plugins.pop_back();
  for (auto& plugin : targets.plugins) {
    plugin.kinds.clear();
    for (std::uint32_t k = 1; k <= wire::kMaxPluginKinds; ++k)
      plugin.kinds.push_back({std::string(63, 'k'), k});
  }
  const auto refused = make_targets_file(targets);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
  EXPECT_NE(refused.error().message.find("list fewer plugins"), std::string::npos);
}

}  // namespace
}  // namespace goblin::trust::test
