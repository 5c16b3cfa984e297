// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/sealed_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace goblin::plugin {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

std::string reason() { return std::strerror(errno); }

Result<void> write_all(int fd, wire::ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return fail(Code::kExhausted, "cannot hold the plugin in memory: " + reason());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<net::UniqueFd> make_memfd() {
  // MFD_EXEC where the kernel wants it said (6.3 and later): the loader maps it executable.
  constexpr unsigned kMfdExec = 0x10;
  int fd = ::memfd_create("goblin-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING | kMfdExec);
  if (fd < 0 && errno == EINVAL) {
    fd = ::memfd_create("goblin-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  }
  if (fd < 0) {
    return fail(Code::kExhausted, "cannot make a memory file for the plugin: " + reason());
  }
  return net::UniqueFd(fd);
}

Result<void> seal(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    return fail(Code::kInternal, "cannot seal the plugin's memory file: " + reason());
  }
  return {};
}

}  // namespace

Result<net::UniqueFd> make_sealed_memfd(wire::ByteView bytes) {
  if (bytes.size() > kMaxPluginBytes) {
    return fail(Code::kExhausted, "the plugin has " + std::to_string(bytes.size()) +
                                      " bytes; at most " + std::to_string(kMaxPluginBytes) +
                                      " are possible");
  }
  GOBLIN_TRY(net::UniqueFd fd, make_memfd());
  GOBLIN_TRY_VOID(write_all(fd.get(), bytes));
  GOBLIN_TRY_VOID(seal(fd.get()));
  return fd;
}

Result<net::UniqueFd> make_sealed_memfd_from(const std::string& path) {
  // O_NONBLOCK: a FIFO in the plugin's place must not hold us up.
  const net::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) {
    return fail(errno == ENOENT ? Code::kNotFound : Code::kUnavailable,
                "cannot open the plugin " + path + ": " + reason());
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument, "the plugin " + path + " is no regular file");
  }
  if (static_cast<std::uint64_t>(info.st_size) > kMaxPluginBytes) {
    return fail(Code::kExhausted, "the plugin " + path + " has " + std::to_string(info.st_size) +
                                      " bytes; at most " + std::to_string(kMaxPluginBytes) +
                                      " are possible");
  }
  GOBLIN_TRY(net::UniqueFd fd, make_memfd());
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  std::uint64_t total = 0;
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail(Code::kUnavailable, "cannot read the plugin " + path + ": " + reason());
    }
    if (n == 0) {
      break;
    }
    total += static_cast<std::uint64_t>(n);
    if (total > kMaxPluginBytes) {
      return fail(Code::kExhausted, "the plugin " + path + " grows while it is read");
    }
    GOBLIN_TRY_VOID(write_all(fd.get(), {buffer.data(), static_cast<std::size_t>(n)}));
  }
  GOBLIN_TRY_VOID(seal(fd.get()));
  return fd;
}

Result<void> check_sealed(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return fail(Code::kCorrupt, "the plugin's file is not a sealed memory file");
  }
  return {};
}

Result<FileMap> FileMap::open(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return fail(Code::kInternal, "cannot read the size of the plugin's file: " + reason());
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) {
    return FileMap(nullptr, 0);
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return fail(Code::kExhausted, "cannot map the plugin's file: " + reason());
  }
  return FileMap(static_cast<const std::byte*>(data), size);
}

FileMap::FileMap(FileMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileMap::~FileMap() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

}  // namespace goblin::plugin
