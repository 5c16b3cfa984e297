// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/plugin_shelf.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/net/sha256.hpp"
#include "core/net/unique_fd.hpp"
#include "core/plugin/note.hpp"
#include "core/plugin/sealed_file.hpp"
#include "core/registry/kind_registry.hpp"

namespace goblin::coordinator {
namespace {

namespace fs = std::filesystem;

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

struct Read {
  wire::CatalogEntry entry;
  std::vector<plugin::KindId> kinds;
};

/// A file's bytes, read once: what is looked at is what is kept.
Result<plugin::FileMap> copy_of(const std::string& path) {
  GOBLIN_TRY(const net::UniqueFd memfd, plugin::make_sealed_memfd_from(path));
  return plugin::FileMap::open(memfd.get());
}

Result<Read> read_plugin(const plugin::FileMap& map, const std::string& path) {
  auto note = plugin::read_note(map.bytes());
  if (!note) {
    return fail(note.error().with_context("plugin '" + path + "'"));
  }
  Read read;
  read.entry.plugin = net::sha256(map.bytes());
  read.entry.size = map.bytes().size();
  read.entry.abi_major = note->abi_major;
  read.entry.abi_minor = note->abi_minor;
  for (const auto& kind : note->kinds) {
    read.entry.kinds.push_back({kind.name, kind.version});
  }
  read.kinds = std::move(note->kinds);
  return read;
}

/// Writes a file that is there whole or not at all.
Result<void> write_file(const fs::path& target, wire::ByteView bytes) {
  const fs::path part = target.string() + ".part";
  net::UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  bool done = static_cast<bool>(fd);
  while (done && !bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else {
      done = errno == EINTR;
    }
  }
  if (!done || ::fsync(fd.get()) != 0 || ::rename(part.c_str(), target.c_str()) != 0) {
    const int reason = errno;
    ::unlink(part.c_str());
    return fail(Code::kUnavailable, std::strerror(reason));
  }
  return {};
}

/// kInvalidArgument when a plugin outside the directory of added ones holds a kind, or is this one.
Result<void> check_apart(const Read& read, const std::string& file, const PluginListing& others) {
  if (const auto* same = others.find(read.entry.plugin);
      same != nullptr && !others.is_added(same->path)) {
    return fail(Code::kInvalidArgument,
                "'" + file + "' is offered already, as '" + same->path + "': nothing to add");
  }
  for (const auto& kind : read.kinds) {
    if (const auto* other = others.holder(kind);
        other != nullptr && !others.is_added(other->path)) {
      return fail(Code::kInvalidArgument,
                  "'" + file + "' holds the kind " + kind.text() + ", which '" + other->path +
                      "' (installed, or named in the settings) offers already: give the kind " +
                      "another name or version, or take that plugin out of the settings");
    }
  }
  return {};
}

/// Removes the plugins of a directory, but not `plugin`, that hold one of the kinds.
Result<std::vector<wire::Digest>> remove_rivals(const std::string& directory,
                                                const wire::Digest& plugin,
                                                const std::vector<plugin::KindId>& kinds) {
  std::vector<wire::Digest> removed;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(directory, error)) {
    const std::string path = item.path().string();
    if (item.path().extension() != ".so") {
      continue;
    }
    const auto read =
        copy_of(path).and_then([&](const plugin::FileMap& map) { return read_plugin(map, path); });
    if (!read || read->entry.plugin == plugin ||
        std::none_of(kinds.begin(), kinds.end(), [&](const plugin::KindId& kind) {
          return std::find(read->kinds.begin(), read->kinds.end(), kind) != read->kinds.end();
        })) {
      continue;
    }
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return fail(Code::kUnavailable,
                  "'" + path + "', which it replaces, cannot be removed: " + std::strerror(errno));
    }
    removed.push_back(read->entry.plugin);
  }
  return removed;
}

}  // namespace

Result<PluginShelf> PluginShelf::open(const std::vector<std::string>& directories,
                                      const std::vector<std::string>& files) {
  std::vector<std::string> paths = files;
  for (const auto& directory : directories) {
    std::error_code error;
    std::vector<std::string> found;
    for (const auto& item : fs::directory_iterator(directory, error)) {
      if (item.path().extension() == ".so") {
        found.push_back(item.path().string());
      }
    }
    if (error) {
      return fail(Code::kNotFound, "plugin directory '" + directory + "': " + error.message());
    }
    std::sort(found.begin(), found.end());
    paths.insert(paths.end(), found.begin(), found.end());
  }
  PluginShelf shelf;
  KindRegistry registry;
  for (const auto& path : paths) {
    auto read =
        copy_of(path).and_then([&](const plugin::FileMap& map) { return read_plugin(map, path); });
    if (!read) {
      shelf.left_out_.push_back({path, read.error().message});
      continue;
    }
    if (shelf.paths_.contains(read->entry.plugin)) {
      continue;
    }
    if (auto added = registry.add(read->entry.plugin, read->kinds, path); !added) {
      shelf.left_out_.push_back({path, added.error().message});
      continue;
    }
    shelf.paths_.emplace(read->entry.plugin, path);
    shelf.catalog_.entries.push_back(std::move(read->entry));
  }
  return shelf;
}

PluginListing PluginShelf::listing(const std::string& added) const {
  PluginListing listing;
  listing.added = added;
  for (const auto& entry : catalog_.entries) {
    PluginListing::Offered offered;
    offered.plugin = entry.plugin;
    offered.path = paths_.at(entry.plugin);
    for (const auto& kind : entry.kinds) {
      offered.kinds.push_back({kind.name, kind.version});
    }
    listing.offered.push_back(std::move(offered));
  }
  listing.left_out = left_out_;
  return listing;
}

Result<PluginShelf::Added> PluginShelf::add(const std::string& directory, const std::string& file,
                                            const PluginListing& others) {
  GOBLIN_TRY(const plugin::FileMap map, copy_of(file));
  GOBLIN_TRY(Read read, read_plugin(map, file));
  GOBLIN_TRY_VOID(plugin::check_abi("plugin", read.entry.abi_major, read.entry.abi_minor));
  GOBLIN_TRY_VOID(check_apart(read, file, others));
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return fail(Code::kUnavailable,
                "'" + file + "' cannot be copied to '" + directory + "': " + error.message());
  }
  const fs::path target = fs::path(directory) / (read.entry.plugin.hex() + ".so");
  if (auto written = write_file(target, map.bytes()); !written) {
    return fail(
        written.error().with_context("'" + file + "' cannot be copied to '" + directory + "'"));
  }
  Added added{read.entry.plugin, read.entry.size, std::move(read.kinds), {}};
  GOBLIN_TRY(added.replaced, remove_rivals(directory, added.plugin, added.kinds));
  return added;
}

Result<std::shared_ptr<net::BlobSource>> PluginShelf::find(const wire::Digest& digest) const {
  const auto it = paths_.find(digest);
  if (it == paths_.end()) {
    return fail(Code::kNotFound, "the catalogue has no such plugin");
  }
  net::UniqueFd fd(::open(it->second.c_str(), O_RDONLY | O_CLOEXEC));
  const auto entry = std::find_if(catalog_.entries.begin(), catalog_.entries.end(),
                                  [&](const wire::CatalogEntry& e) { return e.plugin == digest; });
  if (!fd || entry == catalog_.entries.end()) {
    return fail(Code::kNotFound, "a plugin's file has gone: " + std::string(std::strerror(errno)));
  }
  return std::make_shared<FileSource>(std::move(fd), entry->size);
}

}  // namespace goblin::coordinator
