// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files of a job: arrays of the researcher, staged arrays, outputs.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {
namespace {

Result<std::uint64_t> file_size(int fd, const std::string& what) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return fail(Code::kUnavailable, what + ": " + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument, what + " is not a regular file");
  }
  return static_cast<std::uint64_t>(info.st_size);
}

/// Names a file whatever its path: a path that leads elsewhere after a restart is refused.
wire::Digest identity_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return {};
  }
  const std::array<std::uint64_t, 2> identity = {info.st_dev, info.st_ino};
  return net::sha256(std::as_bytes(std::span(identity)));
}

/// Notes the file at the submission, holds it against that after a restart.
Result<void> check_identity(int fd, bool fresh, wire::Digest& known, const std::string& path,
                            const std::string& what) {
  const wire::Digest identity = identity_of(fd);
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
Result<net::UniqueFd> take_file(std::vector<net::UniqueFd>* fds, std::uint32_t index,
                                const std::string& path, int flags, const std::string& what) {
  if (fds != nullptr) {
    if (index >= fds->size() || !(*fds)[index]) {
      return fail(Code::kInvalidArgument, what + ": descriptor " + std::to_string(index) +
                                              " is missing, or another array names it, too");
    }
    return std::move((*fds)[index]);
  }
  net::UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return fail(Code::kNotFound, what + ": '" + path + "' cannot be opened: " +
                                     std::strerror(errno) + "; submit the job again");
  }
  return fd;
}

}  // namespace

Result<void> Engine::open_inputs(Job& job, std::vector<net::UniqueFd>* fds) {
  job.inputs.clear();
  for (auto& input : job.record.inputs) {
    TensorFile tensor;
    if (input.dtype == 0) {
      job.inputs.push_back(std::move(tensor));
      continue;
    }
    const std::string what = "array '" + input.name + "'";
    net::UniqueFd fd;
    if (input.storage == wire::Storage::kStaged) {
      auto file = staging_.reopen(input.stage);
      if (!file) {
        return fail(file.error().with_context(what));
      }
      fd = std::move(file->fd);
    } else {
      GOBLIN_TRY(fd, take_file(fds, input.fd_index, input.path, O_RDONLY, what));
      GOBLIN_TRY_VOID(check_identity(fd.get(), fds != nullptr, input.digest, input.path, what));
    }
    GOBLIN_TRY(tensor.file_bytes, file_size(fd.get(), what));
    tensor.fd = std::make_shared<const net::UniqueFd>(std::move(fd));
    tensor.offset = input.offset;
    tensor.dtype = input.dtype;
    tensor.shape = input.shape;
    tensor.strides = input.strides;
    GOBLIN_TRY_VOID(check_tensor_file(tensor, what));
    job.inputs.push_back(std::move(tensor));
  }
  return {};
}

Result<void> Engine::open_outputs(Job& job, std::vector<net::UniqueFd>* fds) {
  const bool fresh = fds != nullptr;
  job.outputs.clear();
  if (fresh) {
    job.record.output_stages.assign(job.record.outputs.size(), 0);
  }
  for (std::size_t i = 0; i < job.record.outputs.size(); ++i) {
    auto& info = job.record.outputs[i];
    const std::string what = "output '" + info.name + "'";
    GOBLIN_TRY(const std::uint64_t bytes, info.spec.size_bytes());
    const auto file = std::find_if(job.record.output_files.begin(), job.record.output_files.end(),
                                   [&](const auto& f) { return f.name == info.name; });
    TensorFile tensor;
    net::UniqueFd fd;
    if (file != job.record.output_files.end()) {
      GOBLIN_TRY(fd, take_file(fds, file->fd_index, file->path, O_RDWR, what));
      GOBLIN_TRY_VOID(check_identity(fd.get(), fresh, info.digest, file->path, what));
      info.staged = false;
      info.offset = tensor.offset = file->offset;
      GOBLIN_TRY(tensor.file_bytes, file_size(fd.get(), what));
      const std::uint64_t need = file->offset + bytes;
      if (need < bytes || need > (1ULL << 62)) {
        return fail(Code::kInvalidArgument,
                    what + ": offset " + std::to_string(file->offset) + " is too large");
      }
      if (tensor.file_bytes < need) {
        struct statvfs disk {};
        const bool known = ::fstatvfs(fd.get(), &disk) == 0;
        const std::uint64_t free =
            known ? std::uint64_t{disk.f_bavail} * disk.f_frsize : UINT64_MAX;
        const int error = need - tensor.file_bytes > free
                              ? ENOSPC
                              : ::posix_fallocate(fd.get(), 0, static_cast<off_t>(need));
        if (error != 0) {
          return fail(Code::kExhausted, what + ": " + std::to_string(need) +
                                            " bytes cannot be reserved: " + std::strerror(error));
        }
        tensor.file_bytes = need;
      }
    } else {
      info.staged = true;
      if (fresh) {
        GOBLIN_TRY(store::Staging::File made, staging_.create(std::max<std::uint64_t>(bytes, 1)));
        job.record.output_stages[i] = made.number;
        tensor.file_bytes = made.size;
        fd = std::move(made.fd);
      } else {
        GOBLIN_TRY(store::Staging::File made, staging_.reopen(job.record.output_stages[i]));
        tensor.file_bytes = made.size;
        fd = std::move(made.fd);
      }
    }
    tensor.fd = std::make_shared<const net::UniqueFd>(std::move(fd));
    tensor.dtype = info.spec.dtype;
    tensor.shape = info.spec.shape;
    tensor.strides = TensorFile::row_major(tensor.dtype, tensor.shape);
    GOBLIN_TRY_VOID(check_tensor_file(tensor, what));
    job.outputs.push_back(std::move(tensor));
  }
  return {};
}

void Engine::remove_stages(const Job& job, bool outputs_too) {
  for (const auto& input : job.record.inputs) {
    if (input.dtype != 0 && input.storage == wire::Storage::kStaged) {
      (void)staging_.remove(input.stage);
    }
  }
  if (outputs_too) {
    for (const auto stage : job.record.output_stages) {
      if (stage != 0) {
        (void)staging_.remove(stage);
      }
    }
  }
}

net::Task<Result<store::Staging::File>> Engine::stage(std::uint64_t bytes) {
  auto file = co_await loop_.offload(
      [this, bytes] { return staging_.create(std::max<std::uint64_t>(bytes, 1)); });
  if (file) {
    loose_stages_.insert(file->number);
  }
  co_return file;
}

void Engine::unstage(std::uint64_t stage) {
  if (loose_stages_.erase(stage) != 0) {
    (void)staging_.remove(stage);
  }
}

}  // namespace goblin::lab
