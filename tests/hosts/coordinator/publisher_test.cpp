// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/publisher.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/net/sha256.hpp"
#include "core/trust/key_files.hpp"
#include "tests/core/trust/network.hpp"

namespace goblin::coordinator {
namespace {

using trust::test::kDay;
using trust::test::kNow;
using trust::test::Network;
using trust::test::plugin_bytes;
using wire::ServedFile;

/// A network of core/trust's tests, published by a coordinator whose key its root lists.
class PublisherTest : public testing::Test {
 protected:
  PublisherTest() {
    settings_ = publisher_settings(dir_.path());
    settings_.renew_every_s = kDay;
    settings_.lifetime_s = 7 * kDay;
    EXPECT_TRUE(trust::write_secret_key(settings_.key_file, network_.timestamp_key[0], ""));
    publisher_ = open();
    repository_ = std::make_unique<trust::Repository>(settings_.directory);
    put(network_.first_root);
    put(network_.targets_file);
    for (const char* name : {"matmul-1", "graph-1"}) {
      put_plugin(name);
    }
  }
  std::unique_ptr<Publisher> open() {
    auto publisher = Publisher::open(settings_);
    EXPECT_TRUE(publisher) << publisher.error().message;
    return std::move(*publisher);
  }
  void put(const wire::Bytes& file) {
    const auto done = repository_->put(file);
    EXPECT_TRUE(done) << done.error().message;
  }
  void put_plugin(const std::string& name) {
    const auto bytes = plugin_bytes(name);
    ASSERT_TRUE(publisher_->plugin_files().put(net::sha256(bytes), bytes));
  }
  wire::TrustTimestamp timestamp() {
    const auto file = publisher_->metadata(ServedFile::kTimestamp, 0);
    EXPECT_TRUE(file);
    const auto envelope = trust::parse_envelope(trust::MetadataRole::kTimestamp, *file);
    return trust::read_timestamp(envelope->message).value();
  }
  /// The next version of the targets, as it would be published; the plugins stay.
  wire::Bytes next_targets(std::uint64_t now_s) {
    network_.publish_targets(now_s);
    return network_.targets_file;
  }

  trust::test::TempDir dir_;
  PublisherSettings settings_;
  Network network_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<trust::Repository> repository_;
};

TEST_F(PublisherTest, MakesTheTimestampAndServesAllOfIt) {
  ASSERT_TRUE(publisher_->refresh(kNow).value_or(false));
  EXPECT_EQ(timestamp().version, 1u);
  EXPECT_EQ(timestamp().expires_s, kNow + 7 * kDay);
  EXPECT_EQ(publisher_->metadata(ServedFile::kRoot, 1).value(), network_.first_root);
  EXPECT_EQ(publisher_->metadata(ServedFile::kRoot, 2).error().code, Code::kNotFound);
  const auto targets = publisher_->blob(net::sha256(network_.targets_file));
  ASSERT_TRUE(targets);
  EXPECT_EQ((*targets)->size(), network_.targets_file.size());
  const auto bytes = plugin_bytes("graph-1");
  auto plugin = publisher_->blob(net::sha256(bytes));
  ASSERT_TRUE(plugin);
  wire::Bytes read((*plugin)->size());
  ASSERT_TRUE((*plugin)->read(0, read));
  EXPECT_EQ(read, bytes);
  EXPECT_FALSE(publisher_->blob(net::sha256(plugin_bytes("secret"))));
}

TEST_F(PublisherTest, WhatItPublishesAHostTakes) {
  ASSERT_TRUE(publisher_->refresh(kNow));
  auto verifier =
      trust::Verifier::open({.directory = dir_.path() + "/host", .root = network_.first_root});
  ASSERT_TRUE(verifier);
  const auto done = (*verifier)->update(*repository_, kNow);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->added.size(), 2u);
}

TEST_F(PublisherTest, RenewsWhenItIsDueAndNotBefore) {
  ASSERT_TRUE(publisher_->refresh(kNow));
  EXPECT_FALSE(publisher_->refresh(kNow + kDay - 1).value());
  EXPECT_EQ(timestamp().version, 1u);
  EXPECT_TRUE(publisher_->refresh(kNow + kDay).value());
  EXPECT_EQ(timestamp().version, 2u);
  // A restart goes on where it was.
  publisher_ = open();
  EXPECT_TRUE(publisher_->refresh(kNow + kDay + 1).value());
  EXPECT_EQ(timestamp().version, 2u);
}

TEST_F(PublisherTest, TargetsWithoutTheirPluginAreHeldBack) {
  ASSERT_TRUE(publisher_->refresh(kNow));
  network_.targets.plugins.push_back(trust::test::plugin_of("new", "new-kind"));
  put(next_targets(kNow));
  const auto held = publisher_->refresh(kNow);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, Code::kNotFound);
  EXPECT_NE(held.error().message.find("plugin new"), std::string::npos) << held.error().message;
  EXPECT_EQ(timestamp().targets.version, 1u);
  // The old ones are renewed meanwhile, after a restart, too.
  publisher_ = open();
  EXPECT_FALSE(publisher_->refresh(kNow + 2 * kDay));
  EXPECT_EQ(timestamp().targets.version, 1u);
  EXPECT_EQ(timestamp().issued_s, kNow + 2 * kDay);
  put_plugin("new");
  EXPECT_TRUE(publisher_->refresh(kNow + 2 * kDay).value_or(false));
  EXPECT_EQ(timestamp().targets.version, 2u);
}

TEST_F(PublisherTest, APluginThatWasChangedOnDiskIsNoticed) {
  ASSERT_TRUE(publisher_->refresh(kNow));
  const auto path = publisher_->plugin_files().path_of(net::sha256(plugin_bytes("graph-1")));
  std::filesystem::rename(path, path + ".old");
  std::ofstream(path) << "library of graph-2";
  const auto held = publisher_->refresh(kNow + kDay);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, Code::kCorrupt);
  EXPECT_NE(held.error().message.find("publish the library again"), std::string::npos);
}

TEST_F(PublisherTest, SaysWhenItsKeyIsNotTheRoots) {
  std::filesystem::remove(settings_.key_file);
  publisher_ = open();  // makes another one
  const auto held = publisher_->refresh(kNow);
  ASSERT_FALSE(held);
  EXPECT_NE(held.error().message.find("is no timestamp key of root version 1"), std::string::npos)
      << held.error().message;
  EXPECT_FALSE(publisher_->metadata(ServedFile::kTimestamp, 0));
}

TEST_F(PublisherTest, RefusesAKeyThatOthersMayRead) {
  std::filesystem::permissions(settings_.key_file, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  const auto publisher = Publisher::open(settings_);
  ASSERT_FALSE(publisher);
  EXPECT_NE(publisher.error().message.find(settings_.key_file), std::string::npos);
}

TEST_F(PublisherTest, ExpiredTargetsAreNotRenewed) {
  ASSERT_TRUE(publisher_->refresh(kNow));
  const auto held = publisher_->refresh(kNow + 90 * kDay);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, Code::kUnavailable);
  EXPECT_NE(held.error().message.find("targets version 1 expired"), std::string::npos)
      << held.error().message;
}

TEST_F(PublisherTest, NothingPublishedServesNothing) {
  std::filesystem::remove_all(settings_.directory);
  publisher_ = open();
  EXPECT_EQ(publisher_->refresh(kNow).error().code, Code::kNotFound);
  EXPECT_EQ(publisher_->metadata(ServedFile::kRoot, 1).error().code, Code::kNotFound);
  EXPECT_EQ(publisher_->metadata(ServedFile::kTimestamp, 0).error().code, Code::kNotFound);
  EXPECT_FALSE(publisher_->report().empty());
}

}  // namespace
}  // namespace goblin::coordinator
