// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/trust.hpp"

#include "tests/core/wire/generate.hpp"

namespace goblin::wire {
namespace {

GOBLIN_WIRE_TRUST_MESSAGES(GOBLIN_ROUND_TRIP)

template <typename T>
void expect_refused(const Result<T>& result, const std::string& field) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_NE(result.error().message.find(field), std::string::npos) << result.error().message;
}

TrustKey some_key(unsigned number) {
  TrustKey key;
  key.bytes.fill(static_cast<std::uint8_t>(number + 1));
  return key;
}

TEST(TrustRoot, KeysAreBounded) {
  TrustRoot root;
  for (unsigned i = 0; i < kMaxTrustKeys; ++i) root.targets.keys.push_back(some_key(i));
  const auto most = decode_trust_root(encode(root));
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(most->targets.keys.size(), kMaxTrustKeys);
  root.targets.keys.push_back(some_key(kMaxTrustKeys));
  expect_refused(decode_trust_root(encode(root)), "TrustRole.keys: list of 33 items, at most 32");
}

TEST(TrustTargets, ListsAndTextsAreBounded) {
  TrustTargets targets;
  targets.plugins.resize(1);
  TrustPlugin& plugin = targets.plugins[0];
  plugin.name.assign(kMaxTrustNameBytes, 'a');
  plugin.kinds.assign(kMaxPluginKinds, {std::string(kMaxTrustNameBytes, 'k'), 1});
  plugin.backends.assign(kMaxTrustBackends, {std::string(kMaxTrustNameBytes, 'b')});
  ASSERT_TRUE(decode_trust_targets(encode(targets)));

  const auto refused = [&targets](auto change, const std::string& field) {
    TrustTargets changed = targets;
    change(changed.plugins[0]);
    expect_refused(decode_trust_targets(encode(changed)), field);
  };
  refused([](TrustPlugin& p) { p.name += 'a'; }, "TrustPlugin.name: 64 bytes, at most 63");
  refused([](TrustPlugin& p) { p.name = std::string("a\0b", 3); }, "TrustPlugin.name");
  refused([](TrustPlugin& p) { p.kinds.emplace_back(); }, "TrustPlugin.kinds: list of 17 items");
  refused([](TrustPlugin& p) { p.kinds[3].name += 'k'; }, "TrustKind.name: 64 bytes");
  refused([](TrustPlugin& p) { p.backends.emplace_back(); }, "TrustPlugin.backends: list of 17");
  refused([](TrustPlugin& p) { p.backends[0].name += 'b'; }, "TrustBackend.name: 64 bytes");

  targets.plugins.assign(kMaxPlugins, {});
  EXPECT_TRUE(decode_trust_targets(encode(targets)));
  targets.plugins.emplace_back();
  expect_refused(decode_trust_targets(encode(targets)), "TrustTargets.plugins: list of 4097 items");
}

TEST(TrustState, RootsAreBounded) {
  TrustState state;
  state.roots.resize(kMaxTrustRoots);
  EXPECT_TRUE(decode_trust_state(encode(state)));
  state.roots.emplace_back();
  expect_refused(decode_trust_state(encode(state)), "TrustState.roots: list of 4097 items");
}

// The layout that docs/catalogue.md states: signatures are over these bytes, so they never change.
TEST(TrustTimestamp, LayoutIsAsStated) {
  TrustTimestamp timestamp;
  timestamp.version = 0x0102030405060708;
  timestamp.issued_s = 2;
  timestamp.expires_s = 3;
  timestamp.targets.version = 4;
  timestamp.targets.size = 5;
  timestamp.targets.digest.bytes.fill(0xab);
  const std::uint64_t words[] = {0x0001'0004'0000'0000,  // struct of 4 words and 1 pointer
                                 1,
                                 0x0102030405060708,
                                 2,
                                 3,
                                 0x0001'0002'0000'0000,  // targets: 2 words and 1 pointer
                                 4,
                                 5,
                                 0x0000'0004'0000'0000,  // digest: 4 words
                                 0xabababababababab,
                                 0xabababababababab,
                                 0xabababababababab,
                                 0xabababababababab};
  const Bytes bytes = encode(timestamp);
  ASSERT_EQ(bytes.size(), sizeof words);
  EXPECT_EQ(std::memcmp(bytes.data(), words, sizeof words), 0);
}

}  // namespace
}  // namespace goblin::wire
