// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/plugin_shelf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/net/sha256.hpp"

namespace goblin::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kPlugins = GOBLIN_TEST_PLUGINS;

class PluginShelfTest : public ::testing::Test {
 public:
  PluginShelfTest() {
    std::string name = ::testing::TempDir() + "/shelf-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~PluginShelfTest() override { fs::remove_all(directory_); }

 protected:
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  [[nodiscard]] std::string shelf() const { return (directory_ / "plugins").string(); }

  fs::path directory_;
};

TEST_F(PluginShelfTest, WhatIsAddedLiesUnderItsDigest) {
  const auto entry = PluginShelf::add(shelf(), (kPlugins / "plain.so").string());
  ASSERT_TRUE(entry) << entry.error().message;
  const fs::path there = fs::path(shelf()) / (entry->plugin.hex() + ".so");
  EXPECT_EQ(read(there), read(kPlugins / "plain.so"));
  EXPECT_EQ(entry->size, fs::file_size(there));
  EXPECT_TRUE(PluginShelf::add(shelf(), (kPlugins / "plain.so").string()));
  EXPECT_EQ(std::distance(fs::directory_iterator(shelf()), {}), 1) << "no part of it is left";
}

/// The name of a plugin's file is changed to another's as fast as it goes: what was looked at is
/// what is kept.
TEST_F(PluginShelfTest, AFileThatChangesIsKeptAsItWasChecked) {
  const fs::path moving = directory_ / "moving.so";
  fs::create_symlink(kPlugins / "plain.so", moving);
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    const char* const names[] = {"pi-estimate.so", "plain.so"};
    for (std::size_t i = 0; !stop; ++i) {
      fs::create_symlink(kPlugins / names[i % 2], directory_ / "next");
      fs::rename(directory_ / "next", moving);
    }
  });
  for (int i = 0; i < 40; ++i) {
    const auto entry = PluginShelf::add(shelf(), moving.string());
    if (!entry) {
      ADD_FAILURE() << entry.error().message;
      break;
    }
    const std::string kept = read(fs::path(shelf()) / (entry->plugin.hex() + ".so"));
    if (net::sha256(std::as_bytes(std::span(kept))) != entry->plugin) {
      ADD_FAILURE() << "after " << i << " others, another file was kept than was checked";
      break;
    }
  }
  stop = true;
  mover.join();
}

TEST_F(PluginShelfTest, WhatCannotBeKeptSaysWhyAndLeavesNothing) {
  const std::string plain = (kPlugins / "plain.so").string();
  const auto garbage = PluginShelf::add(shelf(), (kPlugins / "garbage-note.so").string());
  ASSERT_FALSE(garbage);
  EXPECT_THAT(garbage.error().message, HasSubstr("garbage-note.so"));
  EXPECT_FALSE(fs::exists(shelf()));
  std::ofstream(directory_ / "file") << "no folder";
  const auto nowhere = PluginShelf::add((directory_ / "file").string(), plain);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kUnavailable);
  EXPECT_THAT(nowhere.error().message,
              HasSubstr("cannot be copied to '" + (directory_ / "file").string()));
  EXPECT_THAT(nowhere.error().message, HasSubstr("Not a directory"));
  const auto added = PluginShelf::add(shelf(), plain);
  ASSERT_TRUE(added);
  const fs::path there = fs::path(shelf()) / (added->plugin.hex() + ".so");
  fs::remove(there);
  fs::create_directory(there);
  const auto taken = PluginShelf::add(shelf(), plain);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("Is a directory"));
  EXPECT_FALSE(fs::exists(there.string() + ".part"));
}

/// plain.so and no-recall.so hold the same kind.
TEST_F(PluginShelfTest, WhatIsAddedLaterReplacesWhatWasAdded) {
  const auto first = PluginShelf::add(shelf(), (kPlugins / "plain.so").string());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->replaced.empty());
  ASSERT_TRUE(PluginShelf::add(shelf(), (kPlugins / "pi-estimate.so").string()));
  const auto second = PluginShelf::add(shelf(), (kPlugins / "no-recall.so").string());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->replaced, std::vector{first->plugin});
  const auto open = PluginShelf::open({shelf()}, {});
  ASSERT_TRUE(open) << open.error().message;
  const auto listing = open->listing(shelf());
  EXPECT_EQ(listing.offered.size(), 2u);
  EXPECT_TRUE(listing.left_out.empty());
  ASSERT_NE(listing.holder(first->kinds[0]), nullptr);
  EXPECT_EQ(listing.holder(first->kinds[0])->plugin, second->plugin);
}

TEST_F(PluginShelfTest, AKindOfAnotherFolderIsRefused) {
  const std::string installed = (kPlugins / "plain.so").string();
  const auto open = PluginShelf::open({}, {installed});
  ASSERT_TRUE(open);
  const auto listing = open->listing(shelf());
  for (const char* name : {"no-recall.so", "plain.so"}) {
    const auto refused = PluginShelf::add(shelf(), (kPlugins / name).string(), listing);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(installed));
    EXPECT_FALSE(fs::exists(shelf()));
  }
  EXPECT_TRUE(PluginShelf::add(shelf(), (kPlugins / "pi-estimate.so").string(), listing));
}

TEST_F(PluginShelfTest, WhatIsLeftOutSaysWhy) {
  const std::string plain = (kPlugins / "plain.so").string();
  const std::string same = (kPlugins / "no-recall.so").string();
  const std::string garbage = (kPlugins / "garbage-note.so").string();
  const auto open = PluginShelf::open({}, {plain, garbage, same, plain});
  ASSERT_TRUE(open);
  const auto listing = open->listing("");
  ASSERT_EQ(listing.offered.size(), 1u);
  EXPECT_EQ(listing.offered[0].path, plain);
  ASSERT_EQ(listing.left_out.size(), 2u);
  EXPECT_EQ(listing.left_out[0].path, garbage);
  EXPECT_EQ(listing.left_out[1].path, same);
  EXPECT_THAT(listing.left_out[1].why, HasSubstr(plain));
}

}  // namespace
}  // namespace goblin::coordinator
