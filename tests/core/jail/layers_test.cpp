// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which layers are enough, and what is said where they are not.
#include "core/jail/layers.hpp"

#include <gmock/gmock.h>

namespace goblin::jail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Report complete() {
  Report report;
  for (std::size_t i = 0; i < kLayers; ++i) {
    report.there(static_cast<Layer>(i));
  }
  return report;
}

Report without(std::initializer_list<Layer> layers) {
  Report report = complete();
  for (const Layer layer : layers) {
    report.missing(layer, "not here");
  }
  return report;
}

constexpr auto kNamespaces = {Layer::kUserNamespace, Layer::kPidNamespace, Layer::kNetNamespace,
                              Layer::kIpcNamespace,  Layer::kUtsNamespace, Layer::kMountNamespace};

TEST(Layers, NamesAreDistinctAndRead) {
  for (std::size_t i = 0; i < kLayers; ++i) {
    const auto layer = static_cast<Layer>(i);
    ASSERT_TRUE(parse_layer(name(layer)));
    EXPECT_EQ(*parse_layer(name(layer)), layer);
    EXPECT_FALSE(remedy(layer).empty());
  }
  const auto unknown = parse_layer("chains");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, AllOf(HasSubstr("'chains'"), HasSubstr("landlock")));
}

TEST(Layers, EveryProtectionHasWaysAndACompleteJailHasAll) {
  for (std::size_t i = 0; i < kProtections; ++i) {
    const auto protection = static_cast<Protection>(i);
    EXPECT_FALSE(ways(protection).empty()) << name(protection);
    EXPECT_TRUE(enforced_by(complete(), protection)) << name(protection);
    EXPECT_FALSE(enforced_by(Report(), protection)) << name(protection);
  }
  EXPECT_TRUE(judge(complete(), {Layer::kCgroup, Layer::kOwnUid}));
}

TEST(Layers, AContainerWithoutNamespacesIsEnoughWithLandlock) {
  Report report = without(kNamespaces);
  report.missing(Layer::kOwnUid, "no root");
  report.missing(Layer::kProcessLimit, "shared");
  report.missing(Layer::kCgroup, "none");
  EXPECT_TRUE(judge(report, {}));
  report.missing(Layer::kLandlock, "this kernel has none");
  const auto refused = judge(report, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("protection 'files'"), HasSubstr("mount-namespace, or landlock"),
                    HasSubstr("mount-namespace (not here; to have it, allow user namespaces"),
                    HasSubstr("goblin doctor")));
}

TEST(Layers, NamespacesAreEnoughWithoutLandlock) {
  EXPECT_TRUE(judge(without({Layer::kLandlock, Layer::kOwnUid, Layer::kCgroup}), {}));
}

TEST(Layers, NothingReplacesSeccompTheWatchdogOrClosedDescriptors) {
  for (const Layer layer :
       {Layer::kSeccomp, Layer::kWatchdog, Layer::kDescriptors, Layer::kNoNewPrivileges}) {
    const auto refused = judge(without({layer}), {});
    ASSERT_FALSE(refused) << name(layer);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(name(layer))));
  }
}

TEST(Layers, MemoryTakesLimitsAndSeccompOrACgroup) {
  EXPECT_TRUE(enforced_by(without({Layer::kCgroup}), Protection::kMemory));
  EXPECT_TRUE(enforced_by(without({Layer::kRlimits}), Protection::kMemory));
  EXPECT_FALSE(enforced_by(without({Layer::kCgroup, Layer::kRlimits}), Protection::kMemory));
}

TEST(Layers, WhatTheOperatorRequiresIsRequired) {
  const Report report = without({Layer::kOwnUid});
  EXPECT_TRUE(judge(report, {}));
  const auto refused = judge(report, {Layer::kOwnUid});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("jail.require"), HasSubstr("own-uid (not here; to have it, start the "
                                                         "daemon as root")));
}

TEST(Layers, ABuildThatLeavesTheJailOutPassesUnlessALayerIsRequired) {
  Report report;
  report.left_out = "it was built with a sanitizer";
  EXPECT_TRUE(judge(report, {}));
  EXPECT_FALSE(judge(report, {Layer::kSeccomp}));
}

TEST(Layers, AReportIsReadAsItWasWritten) {
  Report report = without({Layer::kCgroup});
  report.there(Layer::kLandlock, "ABI 4: files, TCP");
  report.left_out = "why";
  const auto read = Report::parse(report.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(), report.text());
  EXPECT_EQ(read->of(Layer::kLandlock).detail, "ABI 4: files, TCP");
  EXPECT_FALSE(read->has(Layer::kCgroup));
}

TEST(Layers, WhatIsNoReportIsRefused) {
  const std::string good = complete().text();
  EXPECT_TRUE(Report::parse(good));
  for (const std::string& bad :
       {std::string(), std::string("nonsense\n"), good.substr(0, good.size() - 1),
        good.substr(good.find('\n') + 1), "chains\tthere\t\n" + good,
        "landlock\tperhaps\t\n" + good, "landlock\tthere\n" + good}) {
    const auto read = Report::parse(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
}

}  // namespace
}  // namespace goblin::jail
