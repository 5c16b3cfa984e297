// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/repository.hpp"

#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

constexpr auto kRoot = MetadataRole::kRoot;
constexpr auto kTargets = MetadataRole::kTargets;
constexpr auto kTimestamp = MetadataRole::kTimestamp;

class RepositoryTest : public ::testing::Test {
 protected:
  void put_all() {
    GOBLIN_ASSERT_OK(repository_.put(network_.first_root));
    GOBLIN_ASSERT_OK(repository_.put(network_.targets_file));
    GOBLIN_ASSERT_OK(repository_.put(network_.timestamp()));
  }
  void expect_refused(Code code, ByteView file, const std::string& words) {
    const auto refused = repository_.put(file);
    GOBLIN_EXPECT_CODE(code, refused);
    if (!refused) {
      EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
    }
  }
  TempDir directory_;
  Network network_;
  Repository repository_{directory_.path()};
};

TEST_F(RepositoryTest, ServesWhatWasPutIn) {
  GOBLIN_EXPECT_CODE(Code::kNotFound, repository_.newest_root());
  GOBLIN_EXPECT_CODE(Code::kNotFound, repository_.get(kTimestamp, 0, 100));
  put_all();
  const TempDir host_directory;
  auto host = Verifier::open(
                  {.directory = host_directory / "trust", .root = repository_.first_root().value()})
                  .value();
  GOBLIN_ASSERT_OK(host->update(repository_, kNow));
  EXPECT_TRUE(host->may_start(kNow));
  EXPECT_EQ(repository_.newest_root()->version, 1u);
  EXPECT_EQ(repository_.newest_targets()->version, 1u);
  EXPECT_EQ(repository_.newest_timestamp()->version, 1u);
  // Ten versions and more, in the order of numbers.
  for (int i = 0; i < 10; ++i) {
    network_.publish_targets(kNow);
    network_.publish_root([](wire::TrustRoot&) {});
    GOBLIN_ASSERT_OK(repository_.put(network_.targets_file));
    GOBLIN_ASSERT_OK(repository_.put(network_.timestamp()));
    GOBLIN_ASSERT_OK(repository_.put(network_.served(kRoot, network_.root.version)));
  }
  EXPECT_EQ(repository_.newest_root()->version, 11u);
  EXPECT_EQ(repository_.newest_targets()->version, 11u);
  GOBLIN_ASSERT_OK(host->update(repository_, kNow));
  EXPECT_EQ(host->catalogue()->version, 11u);
  EXPECT_EQ(host->root().version, 11u);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, repository_.get(kTargets, 1, 10));
}

TEST_F(RepositoryTest, RootsFollowOneAnother) {
  wire::TrustRoot second = network_.root;
  second.version = 2;
  expect_refused(Code::kInvalidArgument,
                 Network::signed_by(make_root_file(second).value(),
                                    {&network_.root_keys[0], &network_.root_keys[1]}),
                 "the first one that is published is version 1");
  expect_refused(Code::kNotFound, network_.targets_file, "");
  expect_refused(Code::kCorrupt, make_root_file(network_.root).value(), "signed by 0 of the 2");
  put_all();
  expect_refused(Code::kCorrupt, network_.first_root, "no root may be skipped");
  network_.publish_root([](wire::TrustRoot&) {}, {&network_.root_keys[1]});
  expect_refused(Code::kCorrupt, network_.served(kRoot, 2), "signed by 1 of the 2");
}

TEST_F(RepositoryTest, TargetsNeedTheirSignaturesAndAHigherVersion) {
  put_all();
  expect_refused(Code::kInvalidArgument, network_.targets_file, "version 1 is published already");
  network_.targets = next_targets(network_.targets, kNow, kNow + kDay);
  const Bytes one =
      Network::signed_by(make_targets_file(network_.targets).value(), {&network_.targets_keys[0]});
  expect_refused(Code::kCorrupt, one, "signed by 1 of the 2 keys of root version 1 that it needs");
  EXPECT_EQ(repository_.newest_targets()->version, 1u);
  GOBLIN_ASSERT_OK(repository_.put(sign(one, network_.targets_keys[1], &network_.root).value()));
  EXPECT_EQ(repository_.newest_targets()->version, 2u);
}

TEST_F(RepositoryTest, TimestampFitsWhatIsPublished) {
  put_all();
  expect_refused(Code::kInvalidArgument, network_.timestamp(), "version 1 is published already");
  const Bytes first_targets = network_.targets_file;
  network_.publish_targets(kNow);
  expect_refused(Code::kNotFound, network_.timestamp(), "publish the targets before");
  GOBLIN_ASSERT_OK(repository_.put(network_.targets_file));
  GOBLIN_ASSERT_OK(repository_.put(network_.timestamp()));
  // Another file of the same version; an older version; another key.
  const Bytes second_targets = network_.targets_file;
  network_.targets_file = Network::signed_by(second_targets, {&network_.targets_keys[2]});
  expect_refused(Code::kInvalidArgument, network_.timestamp_file(3, kNow), "is another file");
  network_.targets_file = first_targets;
  expect_refused(Code::kInvalidArgument, network_.timestamp_file(3, kNow),
                 "version 2 was named already");
  network_.targets_file = second_targets;
  const SecretKey stranger = numbered_key(80);
  expect_refused(
      Code::kCorrupt,
      Network::signed_by(make_timestamp_file(3, kNow, kNow + kDay, second_targets).value(),
                         {&stranger}),
      "signed by 0 of the 1");
  // A root that takes away a key which signed the targets in force.
  network_.publish_root(
      [](wire::TrustRoot& root) { root.targets.keys.erase(root.targets.keys.begin()); });
  GOBLIN_ASSERT_OK(repository_.put(network_.served(kRoot, 2)));
  expect_refused(Code::kCorrupt, network_.timestamp_file(3, kNow), "signed by 1 of the 2");
}

TEST_F(RepositoryTest, OtherFilesAreLeftAlone) {
  put_all();
  for (const char* name : {"root-02.signed", "root-x.signed", "root-.signed", "root-3.signed.part",
                           "targets-99999999999999999999.signed", "notes.txt"})
    store::test::spill(directory_ / name, "mine");
  EXPECT_EQ(repository_.newest_root()->version, 1u);
  EXPECT_EQ(repository_.newest_targets()->version, 1u);
  expect_refused(Code::kCorrupt, bytes_of("mine"), "");
}

TEST(RepositoryPath, ThatIsNoneIsNamed) {
  Repository repository("/nonexistent/published");
  const auto refused = repository.put(Network().first_root);
  GOBLIN_EXPECT_CODE(Code::kNotFound, refused);
  EXPECT_NE(refused.error().message.find("/nonexistent/published"), std::string::npos);
}

}  // namespace
}  // namespace goblin::trust::test
