// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/plugin_listing.hpp"

#include <gtest/gtest.h>

#include "core/wire/bounds.hpp"

namespace goblin::coordinator {
namespace {

wire::Digest digest(const char* pair) {
  std::string hex;
  for (int i = 0; i < 32; ++i) {
    hex += pair;
  }
  return wire::Digest::from_hex(hex).value();
}

PluginListing example() {
  PluginListing listing;
  listing.added = "/state/plugins";
  listing.offered.push_back({digest("ab"), {{"matmul", 1}, {"pi", 3}}, "/lib/a, b.so"});
  listing.offered.push_back({digest("cd"), {{"plain", 1}}, "/state/plugins/cd.so"});
  listing.left_out.push_back({"/state/plugins/bad.so", "it is no library"});
  return listing;
}

TEST(PluginListing, ComesBackFromAReport) {
  const PluginListing listing = example();
  const auto back = listing_from(to_report(listing));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->added, listing.added);
  ASSERT_EQ(back->offered.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back->offered[i].plugin, listing.offered[i].plugin);
    EXPECT_EQ(back->offered[i].kinds, listing.offered[i].kinds);
    EXPECT_EQ(back->offered[i].path, listing.offered[i].path);
  }
  ASSERT_EQ(back->left_out.size(), 1u);
  EXPECT_EQ(back->left_out[0].path, listing.left_out[0].path);
  EXPECT_EQ(back->left_out[0].why, listing.left_out[0].why);
}

TEST(PluginListing, KnowsWhoHoldsAKindAndWhatWasAdded) {
  const PluginListing listing = example();
  EXPECT_EQ(listing.holder({"pi", 3}), listing.find(digest("ab")));
  EXPECT_EQ(listing.holder({"pi", 2}), nullptr);
  EXPECT_EQ(listing.find(digest("ee")), nullptr);
  EXPECT_TRUE(listing.is_added("/state/plugins/x.so"));
  EXPECT_TRUE(listing.is_added("/state/./plugins/x.so"));
  EXPECT_FALSE(listing.is_added("/state/plugins/sub/x.so"));
  EXPECT_FALSE(listing.is_added("/state/plugins.so"));
  EXPECT_FALSE(PluginListing{}.is_added("x.so"));
}

TEST(PluginListing, RefusesWhatIsNoListing) {
  EXPECT_FALSE(listing_from({}));
  const auto whole = to_report(example());
  // Each line left out, renamed, or with another value than its name allows.
  for (std::size_t i = 0; i < whole.fields.size(); ++i) {
    auto cut = whole;
    cut.fields.erase(cut.fields.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(listing_from(cut)) << i;
    auto renamed = whole;
    renamed.fields[i].first = "other";
    EXPECT_FALSE(listing_from(renamed)) << i;
  }
  auto no_digest = whole;
  no_digest.fields[1].second = "ab";
  EXPECT_FALSE(listing_from(no_digest));
  auto no_kind = whole;
  no_kind.fields[2].second = "Not a Kind";
  const auto refused = listing_from(no_kind);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
}

TEST(PluginListing, KeepsWithinAReport) {
  PluginListing listing = example();
  listing.offered.resize(wire::kMaxReportLines, listing.offered[1]);
  const auto report = to_report(listing);
  EXPECT_LE(report.fields.size(), wire::kMaxReportLines);
  EXPECT_TRUE(listing_from(report));
}

}  // namespace
}  // namespace goblin::coordinator
