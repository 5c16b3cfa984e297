// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/sealed_plugins.hpp"

#include <gtest/gtest.h>

namespace goblin::link {
namespace {

wire::Digest number(std::uint8_t n) {
  wire::Digest digest;
  digest.bytes[0] = n;
  return digest;
}
SealedPlugins::Fd some() { return std::make_shared<const net::UniqueFd>(); }

TEST(SealedPlugins, KeepsAsMuchAsItMayAndTheLastUsed) {
  SealedPlugins kept(100);
  kept.add(number(1), some(), 40);
  kept.add(number(2), some(), 40);
  EXPECT_TRUE(kept.find(number(1)));  // used last
  kept.add(number(3), some(), 40);
  EXPECT_FALSE(kept.find(number(2)));
  EXPECT_TRUE(kept.find(number(1)));
  EXPECT_TRUE(kept.find(number(3)));
  kept.add(number(4), some(), 1000);  // alone, until the next
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_TRUE(kept.find(number(4)));
  kept.add(number(5), some(), 1);
  EXPECT_EQ(kept.size(), 1u);
}

TEST(SealedPlugins, WhoeverHoldsOneKeepsIt) {
  SealedPlugins kept(10);
  const auto fd = some();
  kept.add(number(1), fd, 10);
  kept.add(number(2), some(), 10);
  EXPECT_EQ(fd.use_count(), 1);
}

TEST(SealedPlugins, RevokedOnesGo) {
  SealedPlugins kept;
  kept.add(number(1), some(), 1);
  kept.add(number(2), some(), 1);
  kept.add(number(2), some(), 1);
  EXPECT_EQ(kept.size(), 2u);
  kept.drop_unless([](const wire::Digest& plugin) { return plugin == number(2); });
  EXPECT_FALSE(kept.find(number(1)));
  EXPECT_TRUE(kept.find(number(2)));
}

}  // namespace
}  // namespace goblin::link
