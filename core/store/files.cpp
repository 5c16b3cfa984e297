// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>

namespace goblin::store {
namespace {

constexpr std::size_t kZeroChunk = 1u << 20;

Result<void> make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string prefix = path.substr(0, slash);
    if (!prefix.empty() && ::mkdir(prefix.c_str(), 0700) != 0 && errno != EEXIST) {
      // A parent that exists but may not be written to (EROFS, EACCES) is fine as long as the
      // last component is there: opening it decides.
      if (slash == std::string::npos) {
        return fail(disk_error("cannot make directory '" + prefix + "'", errno));
      }
    }
    if (slash == std::string::npos) {
      return {};
    }
  }
}

}  // namespace

Error disk_error(std::string_view what, int error_number) {
  std::string message = std::string(what) + ": " + std::generic_category().message(error_number);
  switch (error_number) {
    case ENOSPC:
      return {Code::kExhausted, message + "; free space on that disk or choose another one"};
    case EDQUOT:
      return {Code::kExhausted, message + "; raise this user's quota or choose another disk"};
    case EFBIG:
      return {Code::kExhausted,
              message +
                  "; raise this process' limit of file size (ulimit -f) or choose a file "
                  "system that holds such files"};
    case EMFILE:
    case ENFILE:
      return {Code::kExhausted, message + "; raise the limit of open files (ulimit -n)"};
    case ENOENT:
      return {Code::kNotFound, std::move(message)};
    case EACCES:
    case EPERM:
      return {Code::kUnavailable, message +
                                      "; give this user the right to it or choose another "
                                      "path"};
    default:
      return {Code::kUnavailable, std::move(message)};
  }
}

std::string bytes_text(std::uint64_t bytes) {
  std::string text = std::to_string(bytes) + " bytes";
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (bytes >= 1024) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), " (%.1f %s)", value, kUnits[unit]);
    text += buffer.data();
  }
  return text;
}

std::uint64_t free_bytes(int fd) {
  struct statvfs info {};
  if (::fstatvfs(fd, &info) != 0) {
    return 0;
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

Result<net::UniqueFd> open_owned_directory(const std::string& path, std::string_view purpose) {
  const std::string what = std::string(purpose) + " '" + path + "'";
  if (path.empty()) {
    return fail(Code::kInvalidArgument, std::string(purpose) + ": the path is empty; name one");
  }
  if (auto made = make_directories(path); !made) {
    return fail(made.error().with_context(what));
  }
  net::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOTDIR) {
      return fail(Code::kInvalidArgument,
                  what + " is a file; remove it or choose another path for the directory");
    }
    return fail(disk_error("cannot open " + what, errno));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(disk_error("cannot read " + what, errno));
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return fail(Code::kInvalidArgument,
                what +
                    " may be written by anybody on this computer; take that right away with "
                    "chmod o-w, or choose another path");
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return fail(Code::kUnavailable, what +
                                          " is used by another process; stop that one or give "
                                          "this one a directory of its own");
    }
    return fail(disk_error("cannot lock " + what, errno));
  }
  return fd;
}

Result<void> visit_files(int directory_fd, const std::function<void(const std::string&)>& visit) {
  // A second open: readdir moves the offset that dup() would share.
  const int fd = ::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return fail(disk_error("cannot list the directory", errno));
  }
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd), ::closedir);
  if (!directory) {
    ::close(fd);
    return fail(disk_error("cannot list the directory", errno));
  }
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) {
        return fail(disk_error("cannot list the directory", errno));
      }
      return {};
    }
    struct stat info {};
    if (::fstatat(directory_fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
      visit(entry->d_name);
    }
  }
}

Result<bool> allocate_blocks(int fd, std::uint64_t size, bool keep_size) {
  if (size == 0) {
    return true;
  }
  if (size > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return fail(disk_error("cannot allocate " + bytes_text(size), EFBIG));
  }
  // Asked first: a file system may give out all that it has before it finds that it is not enough.
  if (const std::uint64_t free = free_bytes(fd); size > free) {
    return fail(disk_error(
        "cannot allocate " + bytes_text(size) + ", " + bytes_text(free) + " are free there",
        ENOSPC));
  }
  // fallocate itself, not posix_fallocate: where the file system cannot, the latter touches every
  // 4 KiB block with two system calls.
  while (::fallocate(fd, keep_size ? FALLOC_FL_KEEP_SIZE : 0, 0, static_cast<off_t>(size)) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS) {
      return false;
    }
    const int reason = errno;
    return fail(disk_error("cannot allocate " + bytes_text(size) + ", " +
                               bytes_text(free_bytes(fd)) + " are free there",
                           reason));
  }
  return true;
}

Result<void> write_zeros(int fd, std::uint64_t size) {
  const wire::Bytes zeros(static_cast<std::size_t>(std::min<std::uint64_t>(size, kZeroChunk)));
  for (std::uint64_t offset = 0; offset < size; offset += zeros.size()) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), size - offset));
    GOBLIN_TRY_VOID(write_all(fd, wire::ByteView(zeros).first(count), offset));
  }
  return {};
}

Result<void> write_all(int fd, wire::ByteView bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(disk_error(
          "cannot write " + bytes_text(bytes.size()) + " at offset " + std::to_string(offset),
          errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> read_all(int fd, std::span<std::byte> out, std::uint64_t offset) {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(disk_error("cannot read at offset " + std::to_string(offset), errno));
    }
    if (count == 0) {
      return fail(Code::kCorrupt, "the file ends at offset " + std::to_string(offset) + ", " +
                                      std::to_string(out.size()) + " bytes too early");
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace goblin::store
