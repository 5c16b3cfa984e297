// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files and folders that go away with the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/net/unique_fd.hpp"
#include "tests/core/store/support.hpp"

namespace goblin::lab::test {

using store::test::TempDir;

/// A file without a name that holds `bytes`.
inline std::shared_ptr<const net::UniqueFd> file_of(std::span<const std::byte> bytes) {
  std::string pattern = (std::filesystem::temp_directory_path() / "goblin-lab-XXXXXX").string();
  auto fd = std::make_shared<net::UniqueFd>(::mkstemp(pattern.data()));
  EXPECT_TRUE(fd->valid());
  ::unlink(pattern.c_str());
  EXPECT_EQ(::write(fd->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

}  // namespace goblin::lab::test
