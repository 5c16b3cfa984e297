// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/metadata.hpp"

#include "core/wire/bounds.hpp"
#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

/// validate refuses what `change` makes of a good message, saying `words`; so does reading it.
template <typename T, typename Read, typename Change>
void expect_invalid(T message, Read read, const Change& change, const std::string& words) {
  ASSERT_TRUE(validate(message));
  ASSERT_TRUE(read(wire::encode(message)));
  change(message);
  const auto refused = validate(message);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
  if (!refused) {
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
  }
  GOBLIN_EXPECT_CODE(Code::kCorrupt, read(wire::encode(message)));
}

void expect_bad_root(const std::function<void(wire::TrustRoot&)>& change,
                     const std::string& words) {
  expect_invalid(Network().root, read_root, change, words);
}
void expect_bad_plugin(const std::function<void(wire::TrustPlugin&)>& change,
                       const std::string& words) {
  expect_invalid(
      Network().targets, read_targets, [&](auto& targets) { change(targets.plugins[0]); }, words);
}

TEST(Identifiers, AreNeverPaths) {
  for (const char* good : {"a", "matmul", "matmul-1.2", "x_y", "0", "a.b.c", "libgoblin.so"})
    EXPECT_TRUE(is_identifier(good)) << good;
  const std::string_view bad[] = {
      "",     ".",       "..",  "../../x",  "/etc/passwd", "a/b", "a\\b",
      "a..b", ".hidden", "-rf", "_a",       "A",           "a b", "a\n",
      "a%2f", "~",       "C:",  "\xc3\xa4", "a\x01",       "a..", std::string_view("a\0b", 3)};
  for (const std::string_view name : bad) EXPECT_FALSE(is_identifier(name)) << name;
  EXPECT_TRUE(is_identifier(std::string(63, 'a')));
  EXPECT_FALSE(is_identifier(std::string(64, 'a')));
  EXPECT_TRUE(is_kind_name("image-filter"));
  for (const char* name : {"", "a_b", "a.b", "A", "a/1"}) EXPECT_FALSE(is_kind_name(name)) << name;
}

TEST(Root, ThresholdsFrom1ToTheNumberOfKeys) {
  expect_bad_root([](auto& r) { r.root.threshold = 0; },
                  "role root of the root: 0 signatures of 3");
  expect_bad_root([](auto& r) { r.targets.threshold = 0; }, "role targets of the root: 0");
  expect_bad_root([](auto& r) { r.timestamp.threshold = 0; }, "role timestamp of the root: 0");
  expect_bad_root([](auto& r) { r.targets.threshold = 4; }, "4 signatures of 3 keys");
  expect_bad_root([](auto& r) { r.targets.threshold = 0xffffffff; }, "signatures of 3 keys");
  expect_bad_root([](auto& r) { r.timestamp = {}; }, "0 signatures of 0 keys");
}

TEST(Root, KeysAreDistinctGoodAndServeOneRole) {
  expect_bad_root([](auto& r) { r.root.keys.push_back(r.root.keys[0]); }, "once");
  expect_bad_root([](auto& r) { r.targets.keys[0] = r.root.keys[0]; }, "each key serves one role");
  expect_bad_root([](auto& r) { r.timestamp.keys[0] = r.targets.keys[2]; },
                  "each key serves one role");
  expect_bad_root([](auto& r) { r.root.keys[1] = wire::TrustKey{}; }, "small order");
  expect_bad_root(
      [](auto& r) {
        r.root.keys[1] = {};
        r.root.keys[1].bytes[0] = 1;
      },
      "small order");
}

TEST(Root, VersionAndTimes) {
  expect_bad_root([](auto& r) { r.version = 0; }, "version 0");
  expect_bad_root([](auto& r) { r.expires_s = r.issued_s; }, "must expire after it was issued");
  expect_bad_root([](auto& r) { r.expires_s = ~std::uint64_t{0}; }, "before the year 10000");
}

TEST(Targets, NamesAreIdentifiers) {
  for (const char* name : {"../../x", "/etc/cron.d/x", "..", "a/b", "", "A", "x\x1b[2J"})
    expect_bad_plugin([&](auto& p) { p.name = name; }, "the name is no identifier");
  expect_bad_plugin([](auto& p) { p.kinds[0].name = "../matmul"; }, "is no kind");
  expect_bad_plugin([](auto& p) { p.backends = {{"../cpu"}}; }, "names no backend");
  // What it prints of such a name, a terminal does not obey.
  wire::TrustTargets targets = Network().targets;
  targets.plugins[0].name = "x\x1b[2J";
  EXPECT_EQ(validate(targets).error().message.find('\x1b'), std::string::npos);
}

TEST(Targets, EntriesThatCannotBe) {
  expect_bad_plugin([](auto& p) { p.plugin = {}; }, "no digest");
  expect_bad_plugin([](auto& p) { p.size = 0; }, "0 bytes");
  expect_bad_plugin([](auto& p) { p.size = kMaxPluginBytes + 1; }, "1073741825 bytes");
  expect_bad_plugin([](auto& p) { p.abi_major = 0; }, "ABI 0");
  expect_bad_plugin([](auto& p) { p.kinds.clear(); }, "0 kinds");
  expect_bad_plugin([](auto& p) { p.kinds[0].version = 0; }, "is no kind");
  expect_bad_plugin([](auto& p) { p.kinds.push_back(p.kinds[0]); }, "stands twice");
  expect_bad_plugin([](auto& p) { p.backends = {{"cpu"}, {"cpu"}}; }, "backend cpu stands twice");
}

TEST(Targets, NoNameAndNoFileTwice) {
  const auto expect_bad = [](const std::function<void(wire::TrustTargets&)>& change,
                             const std::string& words) {
    expect_invalid(Network().targets, read_targets, change, words);
  };
  expect_bad([](auto& t) { t.plugins[1].name = t.plugins[0].name; }, "have the name matmul-1");
  expect_bad([](auto& t) { t.plugins[1].plugin = t.plugins[0].plugin; }, "stands twice");
  expect_bad([](auto& t) { t.version = 0; }, "version 0");
  // The same kind in two files is an upgrade under way.
  wire::TrustTargets targets = Network().targets;
  targets.plugins[1].kinds = targets.plugins[0].kinds;
  EXPECT_TRUE(validate(targets));
}

TEST(Timestamp, NamesAFile) {
  wire::TrustTimestamp timestamp;
  timestamp.version = 1;
  timestamp.issued_s = kNow;
  timestamp.expires_s = kNow + 1;
  timestamp.targets = {1, 100, {}};
  timestamp.targets.digest.bytes[0] = 1;
  const auto expect_bad = [&](auto change) {
    expect_invalid(timestamp, read_timestamp, change, "");
  };
  expect_bad([](auto& t) { t.version = 0; });
  expect_bad([](auto& t) { t.expires_s = t.issued_s; });
  expect_bad([](auto& t) { t.targets.version = 0; });
  expect_bad([](auto& t) { t.targets.size = 0; });
  expect_bad([](auto& t) { t.targets.size = max_file_bytes(MetadataRole::kTargets) + 1; });
  expect_bad([](auto& t) { t.targets.digest = {}; });
}

TEST(Format, OfALaterReleaseSaysWhichSideToUpgrade) {
  wire::TrustRoot root = Network().root;
  root.format = 2;
  root.root.threshold = 0;  // whatever else format 2 means
  const auto refused = read_root(wire::encode(root));
  GOBLIN_EXPECT_CODE(Code::kUnsupported, refused);
  EXPECT_NE(refused.error().message.find("upgrade GPU Goblin on this computer"), std::string::npos);
  wire::TrustTargets targets = Network().targets;
  targets.format = 0;
  GOBLIN_EXPECT_CODE(Code::kUnsupported, read_targets(wire::encode(targets)));
}

TEST(Texts, OfTimesAndReleases) {
  EXPECT_EQ(time_text(0), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(time_text(kNow), "2027-01-15 08:00:00 UTC");
  EXPECT_EQ(time_text(~std::uint64_t{0}), "9999-12-31 23:59:59 UTC");
  EXPECT_EQ(release_text(1u << 16 | 4u << 8 | 2u), "1.4.2");
}

TEST(Restriction, KindsAndSigners) {
  const wire::TrustPlugin plugin = plugin_of("matmul-1");
  const wire::Digest a = numbered_key(1).id(), b = numbered_key(2).id(), c = numbered_key(3).id();
  const std::vector<wire::Digest> signers = {a, b};
  EXPECT_TRUE(check_restriction(plugin, signers, {}));
  EXPECT_TRUE(check_restriction(plugin, signers, {.kinds = {{"matmul", 1}}, .signers = {a}}));
  EXPECT_TRUE(check_restriction(plugin, signers, {.kinds = {{"matmul", 0}}, .signers = {}}));
  GOBLIN_EXPECT_CODE(Code::kUnsupported,
                     check_restriction(plugin, signers, {.kinds = {{"mat", 0}}, .signers = {}}));
  const auto kind = check_restriction(plugin, signers, {.kinds = {{"matmul", 2}}, .signers = {}});
  GOBLIN_EXPECT_CODE(Code::kUnsupported, kind);
  EXPECT_NE(kind.error().message.find("matmul/1 is not among"), std::string::npos);
  const auto signer = check_restriction(plugin, signers, {.kinds = {}, .signers = {a, c}});
  GOBLIN_EXPECT_CODE(Code::kUnsupported, signer);
  EXPECT_NE(signer.error().message.find(c.hex()), std::string::npos);
}

}  // namespace
}  // namespace goblin::trust::test
