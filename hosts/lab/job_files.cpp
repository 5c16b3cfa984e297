// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/job_files.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/net/sha256.hpp"

namespace goblin::lab {
namespace {

wire::Digest identity_of(const struct stat& info) {
  const std::array<std::uint64_t, 2> identity = {info.st_dev, info.st_ino};
  return net::sha256(std::as_bytes(std::span(identity)));
}

/// Size of a regular file, and what names it whatever its path.
struct FileFacts {
  std::uint64_t size = 0;
  wire::Digest identity;
};
Result<FileFacts> facts_of(int fd, const std::string& what) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return fail(Code::kUnavailable, what + ": " + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument, what + " is not a regular file");
  }
  return FileFacts{static_cast<std::uint64_t>(info.st_size), identity_of(info)};
}

/// What came with a frame must allow its sender what the job does with it: after a restart this
/// process opens the path by its own rights.
Result<void> check_access(int fd, bool writes, const std::string& what) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) {
    return fail(Code::kUnavailable, what + ": " + std::strerror(errno));
  }
  const int mode = flags & O_ACCMODE;
  const bool enough = (flags & O_PATH) == 0 && (mode == O_RDWR || (!writes && mode == O_RDONLY));
  if (!enough) {
    return fail(Code::kInvalidArgument, what + ": its descriptor cannot be " +
                                            (writes ? "read and written" : "read") +
                                            "; open the file for that and submit the job again");
  }
  return {};
}

/// Notes the file at the submission, holds it against that after a restart: a path that leads
/// elsewhere then is refused.
Result<void> check_identity(const wire::Digest& identity, bool fresh, wire::Digest& known,
                            const std::string& path, const std::string& what) {
  if (fresh) {
    known = identity;
  } else if (identity != known) {
    return fail(Code::kCorrupt, what + ": '" + path +
                                    "' is another file than when the job was submitted; put it "
                                    "back, or submit the job again");
  }
  return {};
}

/// The descriptor that came with the frame; after a restart, the path opened anew.
/// `flags`: O_RDONLY or O_RDWR.
Result<net::UniqueFd> take_file(std::vector<net::UniqueFd>* fds, std::uint32_t index,
                                const std::string& path, int flags, const std::string& what) {
  if (fds != nullptr) {
    if (index >= fds->size() || !(*fds)[index]) {
      return fail(Code::kInvalidArgument, what + ": descriptor " + std::to_string(index) +
                                              " is missing, or another array names it, too");
    }
    GOBLIN_TRY_VOID(check_access((*fds)[index].get(), flags == O_RDWR, what));
    return std::move((*fds)[index]);
  }
  net::UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    const bool gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    return fail(gone ? Code::kNotFound : Code::kUnavailable,
                what + ": '" + path + "' cannot be opened: " + std::strerror(errno) +
                    (gone ? "; submit the job again" : "; it is tried again"));
  }
  return fd;
}

/// Whether some block of [begin, end) is not allocated, which a cut leaves even after the file was
/// made long again. Where the file system does not list its extents (tmpfs), the number of blocks
/// has to do: it never says so of a file that was left alone.
bool has_hole(int fd, std::uint64_t begin, std::uint64_t end) {
  constexpr std::size_t kExtents = 128;
  alignas(struct fiemap)
      std::array<std::byte, sizeof(struct fiemap) + kExtents * sizeof(struct fiemap_extent)>
          buffer{};
  while (begin < end) {
    buffer.fill(std::byte{0});
    auto* map = reinterpret_cast<struct fiemap*>(buffer.data());
    map->fm_start = begin;
    map->fm_length = end - begin;
    map->fm_extent_count = kExtents;
    if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) {
      struct stat info {};
      return ::fstat(fd, &info) == 0 &&
             static_cast<std::uint64_t>(info.st_blocks) * 512 < end - begin;
    }
    if (map->fm_mapped_extents == 0) {
      return true;
    }
    for (std::uint32_t i = 0; i < map->fm_mapped_extents && begin < end; ++i) {
      const auto& extent = map->fm_extents[i];
      if (extent.fe_logical > begin) {
        return true;
      }
      begin = std::max<std::uint64_t>(begin, extent.fe_logical + extent.fe_length);
    }
  }
  return false;
}

/// Allocates [begin, end) of a file that is `size` bytes long, also where it has holes. False: the
/// file system does not allocate beforehand.
Result<bool> reserve(int fd, std::uint64_t begin, std::uint64_t end, std::uint64_t size,
                     const std::string& what) {
  if (begin == end) {
    return true;
  }
  bool allocates = true;
  struct statvfs disk {};
  const bool known = ::fstatvfs(fd, &disk) == 0;
  const std::uint64_t free = known ? std::uint64_t{disk.f_bavail} * disk.f_frsize : UINT64_MAX;
  int error = 0;
  if (end > size && end - size > free) {
    error = ENOSPC;
  } else if (::fallocate(fd, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) != 0) {
    error = errno;
    allocates = error != EOPNOTSUPP;
    if (!allocates) {  // what is there already is all that such a file system can promise
      error = end <= size ? 0 : ::posix_fallocate(fd, 0, static_cast<off_t>(end));
    }
  }
  if (error != 0) {
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return fail(full ? Code::kExhausted : Code::kUnavailable,
                what + ": " + std::to_string(end - begin) +
                    " bytes cannot be reserved: " + std::strerror(error) +
                    (full ? "; free space on that disk or choose another one" : ""));
  }
  return allocates;
}

Result<void> open_inputs(store::Staging& staging, store::JobRecord& record,
                         std::vector<net::UniqueFd>* fds, JobFiles& files) {
  for (auto& input : record.inputs) {
    TensorFile tensor;
    if (input.dtype == 0) {
      files.inputs.push_back(std::move(tensor));
      continue;
    }
    const std::string what = "array '" + input.name + "'";
    net::UniqueFd fd;
    if (input.storage == wire::Storage::kStaged) {
      auto file = staging.reopen(input.stage, store::Staging::Access::kRead);
      if (!file) {
        return fail(file.error().with_context(what));
      }
      fd = std::move(file->fd);
    } else {
      GOBLIN_TRY(fd, take_file(fds, input.fd_index, input.path, O_RDONLY, what));
    }
    GOBLIN_TRY(const FileFacts facts, facts_of(fd.get(), what));
    if (input.storage != wire::Storage::kStaged) {
      GOBLIN_TRY_VOID(
          check_identity(facts.identity, fds != nullptr, input.digest, input.path, what));
    }
    tensor.file_bytes = facts.size;
    tensor.fd = std::make_shared<const net::UniqueFd>(std::move(fd));
    tensor.offset = input.offset;
    tensor.dtype = input.dtype;
    tensor.shape = input.shape;
    tensor.strides = input.strides;
    GOBLIN_TRY_VOID(check_tensor_file(tensor, what));
    files.inputs.push_back(std::move(tensor));
  }
  return {};
}

/// An output that is a file of the researcher.
Result<void> open_out_file(const wire::JobOutputFile& file, wire::OutputInfo& info,
                           std::vector<net::UniqueFd>* fds, JobFiles& files, TensorFile& tensor) {
  const bool fresh = fds != nullptr;
  const std::string what = "output '" + info.name + "'";
  GOBLIN_TRY(const std::uint64_t bytes, info.spec.size_bytes());
  GOBLIN_TRY(net::UniqueFd fd, take_file(fds, file.fd_index, file.path, O_RDWR, what));
  GOBLIN_TRY(const FileFacts facts, facts_of(fd.get(), what));
  GOBLIN_TRY_VOID(check_identity(facts.identity, fresh, info.digest, file.path, what));
  const std::uint64_t end = file.offset + bytes;
  if (end < bytes || end > (1ULL << 62)) {
    return fail(Code::kInvalidArgument,
                what + ": offset " + std::to_string(file.offset) + " is too large");
  }
  if (!fresh && facts.size < end) {
    // What was merged there is gone; to make it long again would leave zeros in its place.
    return fail(Code::kCorrupt, what + ": '" + file.path + "' became shorter (" +
                                    std::to_string(facts.size) + " bytes of " +
                                    std::to_string(end) +
                                    ") since the job was submitted; submit the job again");
  }
  const bool hole = has_hole(fd.get(), file.offset, end);
  GOBLIN_TRY(const bool allocates, reserve(fd.get(), file.offset, end, facts.size, what));
  if (!fresh && allocates && hole) {
    return fail(Code::kCorrupt, what + ": '" + file.path +
                                    "' was cut and made long again since the job was submitted; "
                                    "submit the job again");
  }
  info.staged = false;
  info.offset = tensor.offset = file.offset;
  tensor.file_bytes = std::max(facts.size, end);
  tensor.fd = std::make_shared<const net::UniqueFd>(std::move(fd));
  OutFile out;
  out.name = info.name;
  out.path = file.path;
  out.fd = tensor.fd;
  out.begin = file.offset;
  out.end = end;
  out.identity = facts.identity;
  out.allocated = allocates && !has_hole(tensor.fd->get(), out.begin, out.end);
  files.out_files.push_back(std::move(out));
  return {};
}

Result<void> open_outputs(store::Staging& staging, store::JobRecord& record,
                          std::vector<net::UniqueFd>* fds, JobFiles& files) {
  const bool fresh = fds != nullptr;
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    auto& info = record.outputs[i];
    const std::string what = "output '" + info.name + "'";
    GOBLIN_TRY(const std::uint64_t bytes, info.spec.size_bytes());
    const auto file = std::find_if(record.output_files.begin(), record.output_files.end(),
                                   [&](const auto& f) { return f.name == info.name; });
    TensorFile tensor;
    if (file != record.output_files.end()) {
      GOBLIN_TRY_VOID(open_out_file(*file, info, fds, files, tensor));
    } else {
      info.staged = true;
      auto made = fresh
                      ? staging.create_resident(std::max<std::uint64_t>(bytes, 1))
                      : staging.reopen(record.output_stages[i], store::Staging::Access::kReadWrite);
      if (!made) {
        return fail(made.error().with_context(what));
      }
      record.output_stages[i] = made->number;
      tensor.file_bytes = made->size;
      tensor.fd = std::make_shared<const net::UniqueFd>(std::move(made->fd));
    }
    tensor.dtype = info.spec.dtype;
    tensor.shape = info.spec.shape;
    tensor.strides = TensorFile::row_major(tensor.dtype, tensor.shape);
    GOBLIN_TRY_VOID(check_tensor_file(tensor, what));
    files.outputs.push_back(std::move(tensor));
  }
  return {};
}

/// Bytes of a file that an input touches.
struct Span {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] bool meets(const OutFile& file) const {
    return begin < file.end && file.begin < end;
  }
};
Span span_of(const TensorFile& tensor) {
  const auto extent = extent_of(tensor.dtype, tensor.shape, tensor.strides);
  if (!extent) {
    return {};
  }
  const auto offset = static_cast<std::int64_t>(tensor.offset);
  return {static_cast<std::uint64_t>(offset + extent->low),
          static_cast<std::uint64_t>(offset + extent->high)};
}

/// The input of a job that lies where `out` is written.
const wire::JobInput* input_under(const OutFile& out, const store::JobRecord& record,
                                  const JobFiles& files) {
  for (std::size_t i = 0; i < files.inputs.size() && i < record.inputs.size(); ++i) {
    const auto& input = record.inputs[i];
    if (input.dtype != 0 && input.storage == wire::Storage::kFile && input.digest == out.identity &&
        span_of(files.inputs[i]).meets(out)) {
      return &input;
    }
  }
  return nullptr;
}

/// A file that a client is about to put at the path of another is the same place.
bool same_place(const OutFile& a, const OutFile& b) {
  const bool same = a.identity == b.identity || (!a.path.empty() && a.path == b.path);
  return same && a.begin < b.end && b.begin < a.end;
}

}  // namespace

Result<JobFiles> open_job_files(store::Staging& staging, store::JobRecord& record,
                                std::vector<net::UniqueFd>* fds) {
  JobFiles files;
  if (fds != nullptr) {
    record.output_stages.assign(record.outputs.size(), 0);
  }
  auto opened = open_inputs(staging, record, fds, files);
  if (opened) {
    opened = open_outputs(staging, record, fds, files);
  }
  if (!opened) {
    if (fds != nullptr) {
      for (const auto stage : record.output_stages) {
        if (stage != 0) {
          (void)staging.remove(stage);
        }
      }
    }
    return fail(std::move(opened).error());
  }
  return files;
}

Result<void> check_out_files(const std::vector<OutFile>& files, std::vector<OutSeen>& seen) {
  constexpr const char* kRemedy = " while the job was running; submit the job again";
  seen.resize(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const OutFile& file = files[i];
    const std::string what = "output '" + file.name + "': '" + file.path + "'";
    struct stat info {};
    if (::fstat(file.fd->get(), &info) != 0) {
      return fail(Code::kUnavailable, what + ": " + std::strerror(errno));
    }
    if (static_cast<std::uint64_t>(info.st_size) < file.end) {
      return fail(Code::kCorrupt, what + " was cut to " + std::to_string(info.st_size) +
                                      " bytes of " + std::to_string(file.end) + kRemedy);
    }
    if (info.st_nlink == 0) {  // nobody can find it any more, whether the path led to it or not
      return fail(Code::kCorrupt, what + " was removed" + kRemedy);
    }
    // Extents come and go in an honest file, too: fewer blocks are a reason to look, no proof.
    const auto blocks = static_cast<std::uint64_t>(info.st_blocks);
    if (file.allocated && blocks < seen[i].blocks &&
        has_hole(file.fd->get(), file.begin, file.end)) {
      return fail(Code::kCorrupt, what + " was cut and made long again" + kRemedy);
    }
    seen[i].blocks = std::max(seen[i].blocks, blocks);
    if (::stat(file.path.c_str(), &info) == 0) {
      const bool same = identity_of(info) == file.identity;
      if (!same && seen[i].at_path) {
        return fail(Code::kCorrupt, what + " was replaced by another file" + kRemedy);
      }
      seen[i].at_path = seen[i].at_path || same;
    } else if (errno == ENOENT && seen[i].at_path) {
      return fail(Code::kCorrupt, what + " was removed" + kRemedy);
    }
  }
  return {};
}

std::optional<Error> find_conflict(const store::JobRecord& record, const JobFiles& files,
                                   const store::JobRecord& other_record,
                                   const JobFiles& other_files, std::uint64_t other) {
  const std::string who =
      other == 0 ? "another job that is being submitted" : "job " + std::to_string(other);
  constexpr const char* kRemedy = "; wait for its end, cancel it, or name another file";
  for (const auto& mine : files.out_files) {
    for (const auto& theirs : other_files.out_files) {
      if (same_place(mine, theirs)) {
        return Error{Code::kInvalidArgument, "output '" + mine.name + "': " + who +
                                                 " writes its output '" + theirs.name + "' to '" +
                                                 mine.path + "'" + kRemedy};
      }
    }
    if (const auto* input = input_under(mine, other_record, other_files)) {
      return Error{Code::kInvalidArgument, "output '" + mine.name + "': " + who + " reads '" +
                                               mine.path + "' as its array '" + input->name + "'" +
                                               kRemedy};
    }
  }
  for (const auto& theirs : other_files.out_files) {
    if (const auto* input = input_under(theirs, record, files)) {
      return Error{Code::kInvalidArgument, "array '" + input->name + "': " + who + " writes '" +
                                               theirs.path + "' as its output '" + theirs.name +
                                               "'" + kRemedy};
    }
  }
  return std::nullopt;
}

std::optional<Error> find_overlap(const store::JobRecord& record, const JobFiles& files) {
  for (std::size_t i = 0; i < files.out_files.size(); ++i) {
    const OutFile& out = files.out_files[i];
    const std::string what = "output '" + out.name + "' overlaps ";
    const std::string where = " in '" + out.path + "': name another place";
    if (const auto* input = input_under(out, record, files)) {
      return Error{Code::kInvalidArgument, what + "array '" + input->name + "'" + where};
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (same_place(out, files.out_files[j])) {
        return Error{Code::kInvalidArgument,
                     what + "output '" + files.out_files[j].name + "'" + where};
      }
    }
  }
  return std::nullopt;
}

}  // namespace goblin::lab
