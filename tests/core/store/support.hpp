// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Disks for tests: a directory that goes away, a limit of file sizes, a small disk.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/wire/values.hpp"

namespace goblin::store::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "goblin-store-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// While it lives, no file of this process grows beyond `bytes`: EFBIG instead of a signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

/// A file system of `bytes` in memory; mounted() is false where this user may not mount.
class TinyDisk {
 public:
  explicit TinyDisk(std::uint64_t bytes) {
    const std::string size = "size=" + std::to_string(bytes) + ",mode=0700";
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~TinyDisk() {
    if (mounted_) {
      ::umount2(directory_.path().c_str(), MNT_DETACH);
    }
  }
  TinyDisk(const TinyDisk&) = delete;
  TinyDisk& operator=(const TinyDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return directory_ / name; }

 private:
  TempDir directory_;
  bool mounted_ = false;
};

/// Runs `body` in a child that may be killed; it talks through the descriptor that it is given.
class Child {
 public:
  explicit Child(const std::function<void(int)>& body) {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) {
      std::abort();
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(0);  // no destructors: as a crash
    }
    ::close(ends[1]);
    read_end_ = ends[0];
  }
  ~Child() {
    kill();
    ::close(read_end_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// The next number that the child wrote; false when it is gone.
  bool read(std::uint64_t& number) const {
    return ::read(read_end_, &number, sizeof number) == sizeof number;
  }
  static void write(int fd, std::uint64_t number) {
    if (::write(fd, &number, sizeof number) != sizeof number) {
      ::_exit(1);
    }
  }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  /// Waits for its own end.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int read_end_ = -1;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
inline void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
/// Flips bits of one byte of a file in place.
inline void damage(const std::string& path, std::uint64_t offset, std::uint8_t bits = 0xff) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0) << path;
  std::uint8_t byte = 0;
  ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(offset)), 1);
  byte ^= bits;
  ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(offset)), 1);
  ::close(fd);
}

/// A small xorshift generator; tests print its seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

inline wire::Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  wire::Bytes bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random.next() >> 11);
  }
  return bytes;
}

inline wire::Digest digest_of(std::uint64_t number) {
  wire::Digest digest;
  Random random(number + 1);
  for (std::uint8_t& byte : digest.bytes) {
    byte = static_cast<std::uint8_t>(random.next() >> 23);
  }
  return digest;
}

/// Fails the test with the error's words when the result has none.
#define GOBLIN_ASSERT_OK(...)                                                \
  do {                                                                       \
    const auto& goblin_result = (__VA_ARGS__);                               \
    ASSERT_TRUE(goblin_result.has_value()) << goblin_result.error().message; \
  } while (false)
#define GOBLIN_EXPECT_CODE(expected, ...)                                   \
  do {                                                                      \
    const auto& goblin_result = (__VA_ARGS__);                              \
    EXPECT_FALSE(goblin_result.has_value());                                \
    if (!goblin_result.has_value()) {                                       \
      EXPECT_EQ(code_name(goblin_result.error().code), code_name(expected)) \
          << goblin_result.error().message;                                 \
    }                                                                       \
  } while (false)

}  // namespace goblin::store::test
