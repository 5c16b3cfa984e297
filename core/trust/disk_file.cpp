// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/disk_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/store/files.hpp"

namespace goblin::trust {
namespace {

struct Split {
  std::string directory;
  std::string name;
};

Result<Split> split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  Split split{slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash),
              slash == std::string::npos ? path : path.substr(slash + 1)};
  if (split.name.empty() || split.name == "." || split.name == "..") {
    return fail(Code::kInvalidArgument, "'" + path + "' names no file; name one");
  }
  return split;
}

Result<net::UniqueFd> open_directory(const std::string& directory) {
  net::UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return fail(store::disk_error("cannot open directory '" + directory + "'", errno));
  }
  return fd;
}

Result<void> write_part(int directory_fd, const std::string& what, const std::string& part,
                        wire::ByteView bytes, mode_t mode, Durable durable) {
  const net::UniqueFd fd(::openat(directory_fd, part.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) {
    return fail(store::disk_error("cannot write " + what, errno));
  }
  if (auto written = store::write_all(fd.get(), bytes, 0); !written) {
    return fail(written.error().with_context(what));
  }
  if (durable == Durable::kYes && ::fsync(fd.get()) != 0) {
    return fail(store::disk_error("cannot write " + what, errno));
  }
  return {};
}

}  // namespace

Result<void> write_file_at(int directory_fd, const std::string& where, const std::string& name,
                           wire::ByteView bytes, mode_t mode, Existing existing, Durable durable) {
  const std::string what = "'" + where + "/" + name + "'";
  const std::string part = name + ".part";
  ::unlinkat(directory_fd, part.c_str(), 0);  // what a crash left
  if (auto written = write_part(directory_fd, what, part, bytes, mode, durable); !written) {
    ::unlinkat(directory_fd, part.c_str(), 0);
    return written;
  }
  // link never replaces.
  const int done = existing == Existing::kReplace
                       ? ::renameat(directory_fd, part.c_str(), directory_fd, name.c_str())
                       : ::linkat(directory_fd, part.c_str(), directory_fd, name.c_str(), 0);
  const int reason = errno;
  if (done != 0 || existing == Existing::kRefuse) {
    ::unlinkat(directory_fd, part.c_str(), 0);
  }
  if (done != 0 && reason == EEXIST) {
    return fail(Code::kInvalidArgument,
                what + " is there already and is not replaced; choose another name");
  }
  if (done != 0) {
    return fail(store::disk_error("cannot write " + what, reason));
  }
  return {};
}

Result<void> sync_directory(int directory_fd, const std::string& where) {
  if (::fsync(directory_fd) != 0) {
    return fail(store::disk_error("cannot write directory '" + where + "'", errno));
  }
  return {};
}

Result<void> write_file(const std::string& path, wire::ByteView bytes, mode_t mode,
                        Existing existing, Durable durable) {
  GOBLIN_TRY(const Split split, split_path(path));
  GOBLIN_TRY(const net::UniqueFd directory, open_directory(split.directory));
  GOBLIN_TRY_VOID(
      write_file_at(directory.get(), split.directory, split.name, bytes, mode, existing, durable));
  return durable == Durable::kYes ? sync_directory(directory.get(), split.directory)
                                  : Result<void>{};
}

Result<wire::Bytes> read_file_at(int directory_fd, const std::string& where,
                                 const std::string& name, std::uint64_t limit, Readers readers) {
  const std::string what = "'" + where + "/" + name + "'";
  // O_NONBLOCK: a named pipe may not hold us.
  const net::UniqueFd fd(
      ::openat(directory_fd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ELOOP) {
      return fail(Code::kInvalidArgument, what + " is a symbolic link; give the file itself");
    }
    return fail(store::disk_error("cannot open " + what, errno));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(store::disk_error("cannot read " + what, errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument, what + " is no plain file; move it away");
  }
  if (readers == Readers::kOwnerOnly && (info.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777));
    return fail(Code::kUnavailable,
                what + " holds a secret key, but its mode " + mode +
                    " gives others rights to it: take them away (chmod 600), and if somebody may "
                    "have copied it, replace the key");
  }
  if (readers == Readers::kOwnerOnly && info.st_uid != ::geteuid()) {
    return fail(Code::kUnavailable, what + " holds a secret key of user " +
                                        std::to_string(info.st_uid) + ", not of this one (" +
                                        std::to_string(::geteuid()) +
                                        "); use it as that user, or change its owner");
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > limit) {
    return fail(Code::kCorrupt, what + " has " + std::to_string(size) + " bytes, at most " +
                                    std::to_string(limit) +
                                    " were expected; it is another file, or damaged");
  }
  wire::Bytes bytes(size);
  if (auto read = store::read_all(fd.get(), bytes, 0); !read) {
    return fail(read.error().with_context(what));
  }
  return bytes;
}

Result<wire::Bytes> read_file(const std::string& path, std::uint64_t limit, Readers readers) {
  GOBLIN_TRY(const Split split, split_path(path));
  GOBLIN_TRY(const net::UniqueFd directory, open_directory(split.directory));
  return read_file_at(directory.get(), split.directory, split.name, limit, readers);
}

}  // namespace goblin::trust
