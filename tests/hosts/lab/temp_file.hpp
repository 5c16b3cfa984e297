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

namespace goblin::lab::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "goblin-lab-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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
