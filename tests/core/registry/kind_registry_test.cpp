// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/registry/kind_registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace goblin {
namespace {

using plugin::KindId;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

wire::Digest digest(std::uint8_t fill) {
  wire::Digest d;
  d.bytes.fill(fill);
  return d;
}

KindRegistry example() {
  KindRegistry registry;
  const std::vector<KindId> first{{"matmul", 1}, {"matmul", 3}};
  const std::vector<KindId> second{{"pi-estimate", 1}};
  EXPECT_TRUE(registry.add(digest(1), first, "/plugins/matmul.so"));
  EXPECT_TRUE(registry.add(digest(2), second, "/plugins/pi.so"));
  return registry;
}

TEST(KindRegistry, FindsByVersionAndByNameTheNewest) {
  const KindRegistry registry = example();
  const auto exact = registry.find("matmul/1");
  ASSERT_TRUE(exact);
  EXPECT_EQ((*exact)->plugin, digest(1));
  EXPECT_EQ((*exact)->index, 0u);
  const auto newest = registry.find("matmul");
  ASSERT_TRUE(newest);
  EXPECT_EQ((*newest)->id.version, 3u);
  EXPECT_EQ((*newest)->index, 1u);
  EXPECT_EQ(registry.list().size(), 3u);
}

TEST(KindRegistry, UnknownKindNamesNearMatchesAndWhatExists) {
  const KindRegistry registry = example();
  const auto typo = registry.find("matmull/1");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().code, Code::kNotFound);
  EXPECT_THAT(typo.error().message,
              AllOf(HasSubstr("'matmull/1'"), HasSubstr("did you mean matmul/1, matmul/3?"),
                    HasSubstr("pi-estimate/1")));
  const auto version = registry.find("matmul/2");
  ASSERT_FALSE(version);
  EXPECT_THAT(version.error().message, HasSubstr("did you mean matmul/1, matmul/3?"));
  const auto far = registry.find("fold-protein");
  ASSERT_FALSE(far);
  EXPECT_THAT(far.error().message, AllOf(Not(HasSubstr("did you mean")),
                                         HasSubstr("known: matmul/1, matmul/3, pi-estimate/1")));
  EXPECT_THAT(KindRegistry().find("matmul").error().message, HasSubstr("no plugin is installed"));
}

TEST(KindRegistry, ImproperNamesAreInvalid) {
  for (const char* text : {"", "Mat Mul", "matmul/", "matmul/0", "matmul/1x", "matmul/-1", "/1",
                           "matmul/99999999999", "matmul/1/2"}) {
    const auto found = example().find(text);
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().code, Code::kInvalidArgument) << text;
  }
}

TEST(KindRegistry, DuplicateKindNamesBothPluginsAndAddsNothing) {
  KindRegistry registry = example();
  const std::vector<KindId> clash{{"fresh", 1}, {"pi-estimate", 1}};
  const auto added = registry.add(digest(3), clash, "/other/pi.so");
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, AllOf(HasSubstr("pi-estimate/1"), HasSubstr("/plugins/pi.so"),
                                           HasSubstr("/other/pi.so"), HasSubstr(digest(2).hex()),
                                           HasSubstr(digest(3).hex())));
  EXPECT_FALSE(registry.find("fresh/1"));
  const std::vector<KindId> twice{{"fresh", 1}, {"fresh", 1}};
  EXPECT_FALSE(registry.add(digest(3), twice, "x"));
  const std::vector<KindId> same{{"pi-estimate", 1}};
  EXPECT_TRUE(registry.add(digest(2), same, "/again/pi.so"));
}

TEST(KindRegistry, RemoveForgetsAllKindsOfAPlugin) {
  KindRegistry registry = example();
  registry.remove(digest(1));
  EXPECT_FALSE(registry.find("matmul"));
  EXPECT_TRUE(registry.find("pi-estimate"));
}

}  // namespace
}  // namespace goblin
