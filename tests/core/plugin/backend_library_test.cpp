// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Backends that keep something between calls: opened when loaded, closed at the end.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "core/plugin/library.hpp"

namespace goblin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string path_of(const std::string& name) {
  return std::string(GOBLIN_TEST_PLUGINS) + "/" + name + ".so";
}

/// How many tables of a loaded test backend are open.
int open_tables(const std::string& name) {
  void* const library = dlopen(path_of(name).c_str(), RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(library, nullptr) << name;
  return library == nullptr ? -1 : *static_cast<int*>(dlsym(library, "plain_backend_open"));
}

TEST(BackendLibrary, OpensWhatCanBeOpenedAndClosesItOnce) {
  {
    auto backend = plugin::BackendLibrary::load(path_of("backend-plain"), "");
    ASSERT_TRUE(backend) << backend.error().message;
    EXPECT_EQ(open_tables("backend-plain"), 1);
    const plugin::BackendLibrary moved = std::move(*backend);
    EXPECT_EQ(moved.device_name(), "x");
    EXPECT_STREQ(moved.table().name, "plain");
    const auto second = plugin::BackendLibrary::load(path_of("backend-plain"), "x");
    ASSERT_TRUE(second);
    EXPECT_EQ(open_tables("backend-plain"), 2);
  }
  EXPECT_EQ(open_tables("backend-plain"), 0);
}

TEST(BackendLibrary, ADeviceThatIsMissingLeavesNothingOpen) {
  const auto backend = plugin::BackendLibrary::load(path_of("backend-plain"), "abacus");
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::kNotFound);
  EXPECT_EQ(open_tables("backend-plain"), 0);
}

TEST(BackendLibrary, ATableOfAbi10IsUsedAsItIs) {
  // Its slots for open and close lie beyond the size that it gives.
  const auto backend = plugin::BackendLibrary::load(path_of("backend-of-1.0"), "");
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ(open_tables("backend-of-1.0"), 0);
  EXPECT_LT(backend->table().struct_size, sizeof(goblin_backend_v1));
}

TEST(BackendLibrary, WhatCannotBeOpenedSaysWhy) {
  const auto refused = plugin::BackendLibrary::load(path_of("backend-refuses"), "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("backend-refuses"), HasSubstr("the cupboard is bare")));
  const auto forgot = plugin::BackendLibrary::load(path_of("backend-forgets"), "");
  ASSERT_FALSE(forgot);
  EXPECT_EQ(forgot.error().code, Code::kInternal);
  EXPECT_THAT(forgot.error().message,
              AllOf(HasSubstr("backend-forgets"), HasSubstr("could not be opened")));
}

TEST(BackendLibrary, TheTableThatIsOpenedIsCheckedAndClosedAgain) {
  const std::pair<const char*, const char*> spoiled[] = {
      {"backend-opens-hole", "opens a table without device_count"},
      {"backend-opens-nothing", "opens a table of 8 bytes, expected 64 to 4096"},
      {"backend-opens-garbage", "opens a table of 18446744073709551615 bytes"}};
  for (const auto& [name, says] : spoiled) {
    const auto backend = plugin::BackendLibrary::load(path_of(name), "");
    ASSERT_FALSE(backend) << name;
    EXPECT_EQ(backend.error().code, Code::kInvalidArgument);
    EXPECT_THAT(backend.error().message, AllOf(HasSubstr(name), HasSubstr(says)));
    EXPECT_EQ(open_tables(name), 0);
  }
}

}  // namespace
}  // namespace goblin::testing
