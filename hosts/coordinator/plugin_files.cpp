// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/plugin_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/net/unique_fd.hpp"
#include "core/plugin/sealed_file.hpp"

namespace goblin::coordinator {
namespace {

class FileSource final : public net::BlobSource {
 public:
  FileSource(net::UniqueFd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        return fail(Code::kCorrupt, "a plugin's file became shorter");
      }
      out = out.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
    return {};
  }

 private:
  net::UniqueFd fd_;
  std::uint64_t size_;
};

}  // namespace

std::string PluginFiles::path_of(const wire::Digest& digest) const {
  return directory_ + "/" + digest.hex() + ".so";
}

Result<void> PluginFiles::check(const wire::TrustPlugin& plugin) {
  const std::string path = path_of(plugin.plugin);
  const std::string remedy = "; publish the library again (`goblin plugin publish`)";
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return fail(Code::kNotFound, "plugin " + plugin.name + ": its file '" + path +
                                     "' is not here: " + std::strerror(errno) + remedy);
  }
  const Stamp stamp{static_cast<std::uint64_t>(status.st_size), status.st_ino,
                    status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
  if (const auto known = good_.find(plugin.plugin);
      known != good_.end() && known->second == stamp) {
    return {};
  }
  GOBLIN_TRY(const net::UniqueFd memfd, plugin::make_sealed_memfd_from(path));
  GOBLIN_TRY(const plugin::FileMap map, plugin::FileMap::open(memfd.get()));
  if (auto good = trust::check_plugin_bytes(plugin, map.bytes()); !good) {
    return fail(good.error().code, "'" + path + "': " + good.error().message + remedy);
  }
  good_.insert_or_assign(plugin.plugin, stamp);
  return {};
}

Result<void> PluginFiles::put(const wire::Digest& digest, wire::ByteView bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  return trust::write_file(path_of(digest), bytes, 0644, trust::Existing::kReplace, durable_);
}

Result<std::shared_ptr<net::BlobSource>> PluginFiles::open(const wire::TrustPlugin& plugin) const {
  net::UniqueFd fd(::open(path_of(plugin.plugin).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return fail(Code::kNotFound, "a plugin's file has gone: " + std::string(std::strerror(errno)));
  }
  return std::make_shared<FileSource>(std::move(fd), plugin.size);
}

}  // namespace goblin::coordinator
