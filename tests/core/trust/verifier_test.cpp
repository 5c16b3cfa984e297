// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Beyond the numbered cases: every byte, the chain of roots, recovery, what is on disk.
#include "core/trust/verifier.hpp"

#include "core/trust/trust_directory.hpp"

#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

namespace fs = std::filesystem;
using store::test::damage;
using store::test::slurp;
using store::test::spill;

constexpr auto kRoot = MetadataRole::kRoot;
constexpr auto kTargets = MetadataRole::kTargets;
constexpr auto kTimestamp = MetadataRole::kTimestamp;

TEST_F(TrustTest, FirstUpdateAndTheNext) {
  open();
  EXPECT_EQ(verifier_->catalogue(), nullptr);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, verifier_->may_start(kNow));
  const auto first = update();
  GOBLIN_ASSERT_OK(first);
  EXPECT_EQ(first->added.size(), 2u);
  EXPECT_TRUE(first->revoked.empty());
  EXPECT_TRUE(verifier_->may_start(kNow));
  std::vector<wire::Digest> signers = {network_.targets_keys[0].id(),
                                       network_.targets_keys[1].id()};
  std::sort(signers.begin(), signers.end());
  EXPECT_EQ(verifier_->catalogue()->signers, signers);
  // Nothing new: the targets are not fetched again.
  network_.server.asked.clear();
  const auto second = update(kNow + 60);
  GOBLIN_ASSERT_OK(second);
  EXPECT_TRUE(second->added.empty() && second->revoked.empty());
  ASSERT_EQ(network_.server.asked.size(), 2u);
  EXPECT_EQ(network_.server.asked[0].role, kRoot);
  EXPECT_EQ(network_.server.asked[0].version, 2u);
  EXPECT_EQ(network_.server.asked[1].role, kTimestamp);
}

TEST_F(TrustTest, RevocationIsAbsence) {
  start();
  GOBLIN_ASSERT_OK(revoke_plugin(network_.targets, "graph-1"));
  network_.publish_targets(kNow);
  const auto outcome = update();
  GOBLIN_ASSERT_OK(outcome);
  EXPECT_EQ(outcome->revoked, std::vector<wire::Digest>{plugin_of("graph-1").plugin});
  EXPECT_TRUE(outcome->added.empty());
  EXPECT_FALSE(allows("graph-1"));
  EXPECT_TRUE(allows("matmul-1"));
  open();
  EXPECT_FALSE(allows("graph-1"));
  EXPECT_TRUE(allows("matmul-1"));
}

TEST_F(TrustTest, RemembersAcrossRestarts) {
  start();
  open();
  EXPECT_EQ(version(), 1u);
  EXPECT_TRUE(verifier_->may_start(kNow));
  EXPECT_EQ(verifier_->catalogue()->expires_s, kNow + 6 * kDay);
  EXPECT_EQ(verifier_->state().latest_s, kNow - kDay) << "when the timestamp was issued";
}

// ---- every byte ----

/// Serves `good` with each byte changed in several ways, and cut at each length: always refused.
void expect_every_change_refused(Verifier& verifier, Server& server, const Server::Place& place) {
  const Bytes good = server.files.at(place);
  const std::uint64_t root = verifier.root().version;
  const auto try_it = [&](Bytes bytes, const std::string& how) {
    server.files[place] = std::move(bytes);
    const auto refused = verifier.update(server, kNow);
    ASSERT_FALSE(refused) << how;
    ASSERT_TRUE(refused.error().code == Code::kCorrupt) << how << refused.error().message;
    ASSERT_EQ(verifier.catalogue(), nullptr) << how;
    ASSERT_EQ(verifier.root().version, root) << how;
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned bits : {0x01u, 0x80u, 0xffu}) {
      Bytes bytes = good;
      bytes[at] ^= static_cast<std::byte>(bits);
      try_it(std::move(bytes), "byte " + std::to_string(at));
    }
    try_it(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at)),
           "length " + std::to_string(at));
  }
  Bytes longer = good;
  longer.resize(good.size() + 8);
  try_it(longer, "longer");
  server.files[place] = good;
}

TEST_F(TrustTest, AnyChangedByteOfARootIsRefused) {
  open();
  network_.publish_root([](wire::TrustRoot&) {});
  expect_every_change_refused(*verifier_, network_.server, {kRoot, 2});
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(verifier_->root().version, 2u);
}
TEST_F(TrustTest, AnyChangedByteOfATimestampIsRefused) {
  open();
  expect_every_change_refused(*verifier_, network_.server, {kTimestamp, 0});
  GOBLIN_ASSERT_OK(update());
}
TEST_F(TrustTest, AnyChangedByteOfTargetsIsRefused) {
  open();
  expect_every_change_refused(*verifier_, network_.server, {kTargets, 1});
  GOBLIN_ASSERT_OK(update());
}
TEST_F(TrustTest, AnyChangedByteOfTheInstalledRootIsRefused) {
  const Bytes good = network_.first_root;
  const auto refused = [&](const Bytes& bytes) {
    return !Verifier::open({.directory = path(), .root = bytes});
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bytes = good;
    bytes[at] ^= std::byte{1};
    ASSERT_TRUE(refused(bytes)) << at;
    ASSERT_TRUE(refused(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at)))) << at;
  }
  EXPECT_FALSE(fs::exists(path())) << "a root that is refused leaves nothing behind";
}

// A third signature is more than is needed. Damage to it shows, unless it hides whose it was; then
// it is a stranger's and says nothing, and what was signed is the same.
TEST_F(TrustTest, AChangedByteOfASpareSignature) {
  open();
  network_.publish_root([](wire::TrustRoot&) {});
  Bytes& served = network_.served(kRoot, 2);
  served = Network::signed_by(served, {&network_.root_keys[2]});
  const Bytes good = served;
  const Envelope envelope = parse_envelope(kRoot, good).value();
  ASSERT_EQ(envelope.signatures.size(), 3u);
  int accepted = 0;
  for (std::size_t at = 24; at < 24 + 3 * 96; ++at) {
    Bytes bytes = good;
    bytes[at] ^= std::byte{1};
    const auto changed = parse_envelope(kRoot, bytes);
    const bool in_id = (at - 24) % 96 < 32;
    const bool holds =
        changed && check_signatures(*changed, network_.root.root, "root").has_value();
    EXPECT_EQ(holds, in_id && changed.has_value()) << at;
    accepted += holds ? 1 : 0;
    if (holds) {
      EXPECT_EQ(changed->message, envelope.message);
    }
  }
  EXPECT_GT(accepted, 0);
}

// ---- roots ----

TEST_F(TrustTest, FollowsAChainOfRoots) {
  start();
  // Each root replaces one of the keys, so the last one shares none with the first.
  std::vector<SecretKey> keys;
  for (std::uint8_t i = 0; i < 3; ++i)
    keys.push_back(numbered_key(static_cast<std::uint8_t>(60 + i)));
  for (std::size_t i = 0; i < 3; ++i) {
    network_.publish_root([&](wire::TrustRoot& root) { root.root.keys[i] = keys[i].public_key(); },
                          {&network_.root_keys[0], &network_.root_keys[1], &network_.root_keys[2],
                           &keys[0], &keys[1], &keys[2]});
  }
  ASSERT_EQ(network_.root.version, 4u);
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(verifier_->root().version, 4u);
  EXPECT_EQ(verifier_->root().root.keys, network_.root.root.keys);
  EXPECT_TRUE(allows("matmul-1"));
  open();
  EXPECT_EQ(verifier_->root().version, 4u);
  // The old keys sign nothing any more.
  network_.publish_root([](wire::TrustRoot&) {});
  expect_refused(Code::kCorrupt, "signed by 0 of the 2 keys of root version 4");
  // A host that was away follows the whole chain.
  network_.server.files.erase({kRoot, 5});
  TempDir fresh;
  auto host = Verifier::open({.directory = fresh / "t", .root = network_.first_root}).value();
  GOBLIN_ASSERT_OK(host->update(network_.server, kNow));
  EXPECT_EQ(host->root().version, 4u);
}

TEST_F(TrustTest, AnExpiredRootOnTheWayIsFollowed) {
  start();
  network_.publish_root([](wire::TrustRoot& root) { root.expires_s = kNow - 1; });
  network_.publish_root([](wire::TrustRoot&) {});
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(verifier_->root().version, 3u);
  network_.publish_root([](wire::TrustRoot& root) { root.expires_s = kNow - 1; });
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, refused);
  EXPECT_EQ(verifier_->root().version, 4u);
  EXPECT_TRUE(allows("matmul-1")) << "stays readable";
  GOBLIN_EXPECT_CODE(Code::kUnavailable, verifier_->may_start(kNow));
}

TEST_F(TrustTest, ManyRootsAreFollowedOverSeveralUpdates) {
  open();
  for (int i = 0; i < 130; ++i) network_.publish_root([](wire::TrustRoot&) {});
  const auto first = update();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, first);
  EXPECT_NE(first.error().message.find("update again"), std::string::npos);
  EXPECT_EQ(verifier_->root().version, 129u);
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(verifier_->root().version, 131u);
}

// Whoever has the online key signs the highest version there is: nothing honest can follow. A new
// root that takes the key away makes good for it.
TEST_F(TrustTest, RecoversFromVersionsThatRanAhead) {
  start();
  network_.targets_file = network_.served(kTargets, 1);
  wire::TrustTimestamp timestamp;
  timestamp.version = ~std::uint64_t{0};
  timestamp.issued_s = kNow;
  timestamp.expires_s = kNow + kDay;
  timestamp.targets = {~std::uint64_t{0}, 100, numbered_key(1).id()};
  network_.timestamp() = Network::signed_by(Network::unsigned_file(kTimestamp, timestamp),
                                            {&network_.timestamp_key[0]});
  expect_refused(Code::kNotFound, "cannot get targets version 18446744073709551615");
  EXPECT_TRUE(allows("matmul-1"));
  network_.targets.plugins.pop_back();
  network_.publish_targets(kNow);
  expect_refused(Code::kCorrupt, "has seen version 18446744073709551615");

  network_.timestamp_key.push_back(numbered_key(52));
  network_.publish_root([&](wire::TrustRoot& root) {
    root.timestamp.keys = {network_.timestamp_key.back().public_key()};
  });
  network_.publish_timestamp(kNow);
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(version(), 2u);
  EXPECT_FALSE(allows("graph-1"));
  // What was verified itself is not forgotten by that.
  network_.timestamp_key.push_back(numbered_key(53));
  network_.publish_root([&](wire::TrustRoot& root) {
    root.timestamp.keys = {network_.timestamp_key.back().public_key()};
  });
  network_.targets_file = network_.served(kTargets, 1);
  network_.publish_timestamp(kNow);
  const auto rolled_back = update();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, rolled_back);
  EXPECT_NE(rolled_back.error().message.find("has seen version 2"), std::string::npos);
  EXPECT_FALSE(allows("graph-1"));
}

// ---- mixing and equivocation ----

TEST_F(TrustTest, TwoFilesOfOneVersionAreRefused) {
  start();
  const Bytes first = network_.timestamp();
  network_.timestamp() = network_.timestamp_file(1, kNow - 60);
  expect_refused(Code::kCorrupt, "two files have one version");
  // Targets of one version with another set of signatures are another file.
  network_.targets_file = Network::signed_by(network_.targets_file, {&network_.targets_keys[2]});
  network_.served(kTargets, 1) = network_.targets_file;
  network_.publish_timestamp(kNow);
  expect_refused(Code::kCorrupt, "two files have one version");
  network_.timestamp() = first;
  GOBLIN_ASSERT_OK(update());
}

TEST_F(TrustTest, OldTargetsUnderANewTimestampAreRefused) {
  start();
  network_.publish_targets(kNow);
  network_.served(kTargets, 2) = network_.served(kTargets, 1);
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_EQ(version(), 1u);
  // The version that was seen is remembered, over a restart too, though its targets never came.
  open();
  EXPECT_EQ(verifier_->state().seen_targets.version, 2u);
  network_.targets_file = network_.served(kTargets, 1);
  network_.publish_timestamp(kNow);
  expect_refused(Code::kCorrupt, "targets version 1 was served, but this computer has seen");
}

// The timestamp's key may not choose another version number for targets that are genuine.
TEST_F(TrustTest, VersionInsideTheTargetsCounts) {
  start();
  network_.served(kTargets, 7) = network_.targets_file;
  wire::TrustTimestamp timestamp;
  timestamp.version = 2;
  timestamp.issued_s = kNow;
  timestamp.expires_s = kNow + kDay;
  timestamp.targets = file_of(7, network_.targets_file);
  network_.timestamp() = Network::signed_by(Network::unsigned_file(kTimestamp, timestamp),
                                            {&network_.timestamp_key[0]});
  expect_refused(Code::kCorrupt, "targets version 1 was served as version 7");
}

TEST_F(TrustTest, ErrorsOfTheNetworkLeaveEverythingAsItWas) {
  start();
  network_.publish_targets(kNow);
  for (const MetadataRole role : {kRoot, kTimestamp, kTargets}) {
    network_.server.lie = [&](MetadataRole asked, std::uint64_t) -> std::optional<Result<Bytes>> {
      if (asked != role) return std::nullopt;
      return fail(Code::kUnavailable, "the line is down");
    };
    expect_refused(Code::kUnavailable, "the line is down");
  }
  network_.server.lie = nullptr;
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(version(), 2u);
}

TEST_F(TrustTest, InSteps) {
  open();
  Update update(*verifier_, kNow);
  GOBLIN_EXPECT_CODE(Code::kInternal, update.outcome());
  ASSERT_TRUE(update.wanted());
  EXPECT_EQ(update.wanted()->role, kRoot);
  update.give(fail(Code::kNotFound, "none"));
  ASSERT_TRUE(update.wanted());
  EXPECT_EQ(update.wanted()->role, kTimestamp);
  EXPECT_EQ(update.wanted()->version, 0u);
  update.give(network_.timestamp());
  ASSERT_TRUE(update.wanted());
  EXPECT_EQ(update.wanted()->role, kTargets);
  EXPECT_EQ(update.wanted()->max_bytes, network_.targets_file.size());
  update.give(network_.targets_file);
  EXPECT_FALSE(update.wanted());
  EXPECT_EQ(update.outcome()->added.size(), 2u);
  update.give(network_.targets_file);  // nobody asked
  EXPECT_TRUE(update.outcome());
}

// ---- on disk ----

TEST_F(TrustTest, DirectoryHoldsNoMoreThanWhatIsInForce) {
  start();
  for (int i = 0; i < 3; ++i) {
    network_.publish_root([](wire::TrustRoot&) {});
    network_.publish_targets(kNow);
    GOBLIN_ASSERT_OK(update());
  }
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(path())) {
    ++files;
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_EQ(files, 4u);
}

TEST_F(TrustTest, AnyChangedByteOfTheStateIsNamed) {
  start();
  verifier_.reset();
  const std::string state = path() + "/state";
  const std::string good = slurp(state);
  const auto refused = [&]() {
    const auto opened = Verifier::open({.directory = path(), .root = network_.first_root});
    GOBLIN_EXPECT_CODE(Code::kCorrupt, opened);
    return !opened && opened.error().message.find(state) != std::string::npos &&
           opened.error().message.find("restore the directory from a backup") != std::string::npos;
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    damage(state, at, 1);
    ASSERT_TRUE(refused()) << at;
    fs::resize_file(state, at);
    ASSERT_TRUE(refused()) << at;
    spill(state, good);
  }
  spill(state, std::string(2u << 20, 'x'));
  EXPECT_TRUE(refused());
}

TEST_F(TrustTest, DamagedFilesAreFetchedAgainAndADamagedRootIsNamed) {
  start();
  const auto file = [&](const wire::TrustFile& named) {
    return path() + "/" + named.digest.hex() + ".signed";
  };
  const wire::TrustState state = verifier_->state();
  for (const wire::TrustFile& named : {state.timestamp, state.targets}) {
    verifier_.reset();
    damage(file(named), named.size - 1, 1);
    open();
    EXPECT_EQ(verifier_->catalogue(), nullptr);
    GOBLIN_ASSERT_OK(update());
    EXPECT_TRUE(allows("matmul-1"));
    verifier_.reset();
    fs::remove(file(named));
    open();
    EXPECT_EQ(verifier_->catalogue(), nullptr);
    EXPECT_EQ(verifier_->state().seen_targets.version, 1u);
    GOBLIN_ASSERT_OK(update());
  }
  verifier_.reset();
  damage(file(state.roots.back()), 50, 1);
  const auto refused = Verifier::open({.directory = path(), .root = network_.first_root});
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("restore the trust directory"), std::string::npos);
}

// Each file genuine, the two of different times: as if somebody had mended a directory by hand.
TEST_F(TrustTest, TargetsThatTheTimestampDoesNotNameAreNoCatalogue) {
  start();
  verifier_.reset();
  network_.publish_targets(kNow);
  {
    auto directory = TrustDirectory::open(path()).value();
    wire::TrustState state = directory.load().value();
    state.targets = file_of(2, network_.targets_file);
    GOBLIN_ASSERT_OK(directory.commit(state, {network_.targets_file}));
  }
  open();
  EXPECT_EQ(verifier_->catalogue(), nullptr);
  GOBLIN_ASSERT_OK(update());
  EXPECT_EQ(version(), 2u);
}

TEST_F(TrustTest, DirectoryOfAnotherNetworkIsRefused) {
  start();
  verifier_.reset();
  wire::TrustRoot other = network_.root;
  other.expires_s += 1;
  const Bytes other_root = Network::signed_by(make_root_file(other).value(),
                                              {&network_.root_keys[0], &network_.root_keys[1]});
  const auto refused = Verifier::open({.directory = path(), .root = other_root});
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
  EXPECT_NE(refused.error().message.find("another one than the installation's"), std::string::npos);
}

TEST_F(TrustTest, InstallationWithANewerRootOfTheSameChain) {
  start();
  network_.publish_root([](wire::TrustRoot&) {});
  verifier_.reset();
  auto opened = Verifier::open({.directory = path(), .root = network_.served(kRoot, 2)});
  GOBLIN_ASSERT_OK(opened);
  EXPECT_EQ((*opened)->root().version, 1u);
  GOBLIN_ASSERT_OK((*opened)->update(network_.server, kNow));
  EXPECT_EQ((*opened)->root().version, 2u);
  opened->reset();
  // And one whose version 3 is not the one that the old keys signed next.
  network_.publish_root([](wire::TrustRoot&) {});
  wire::TrustRoot other = network_.root;
  other.expires_s += 1;
  const Bytes other_root = Network::signed_by(make_root_file(other).value(),
                                              {&network_.root_keys[0], &network_.root_keys[1]});
  opened = Verifier::open({.directory = path(), .root = other_root});
  GOBLIN_ASSERT_OK(opened);
  const auto refused = (*opened)->update(network_.server, kNow);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_EQ((*opened)->root().version, 2u);
}

TEST_F(TrustTest, OneVerifierADirectory) {
  start();
  GOBLIN_EXPECT_CODE(Code::kUnavailable,
                     Verifier::open({.directory = path(), .root = network_.first_root}));
}

TEST_F(TrustTest, InstallationsRootThatIsNone) {
  for (const Bytes& bytes : {Bytes{}, bytes_of("root"), network_.targets_file}) {
    const auto refused = Verifier::open({.directory = path(), .root = bytes});
    GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
    EXPECT_NE(refused.error().message.find("install the root file"), std::string::npos);
  }
}

}  // namespace
}  // namespace goblin::trust::test
