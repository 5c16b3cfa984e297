// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The plugin files beside a coordinator's published metadata, each named by the SHA-256 of its
// bytes. Read as bytes, never loaded. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/net/blobs.hpp"
#include "core/trust/disk_file.hpp"
#include "core/trust/metadata.hpp"

namespace goblin::coordinator {

class PluginFiles {
 public:
  explicit PluginFiles(std::string directory, trust::Durable durable = trust::Durable::kYes)
      : directory_(std::move(directory)), durable_(durable) {}

  /// Is the file here, with the length and the SHA-256 that its entry says? A file that was found
  /// good is hashed again when it was changed. kNotFound, kCorrupt: say what to do.
  Result<void> check(const wire::TrustPlugin& plugin);
  /// Writes a file, there whole or not at all. kUnavailable, kExhausted: the disk's reasons.
  Result<void> put(const wire::Digest& digest, wire::ByteView bytes);
  /// A source over the file as it is now: who fetches it compares the digest.
  [[nodiscard]] Result<std::shared_ptr<net::BlobSource>> open(
      const wire::TrustPlugin& plugin) const;
  [[nodiscard]] std::string path_of(const wire::Digest& digest) const;

 private:
  /// What a write to a file changes.
  struct Stamp {
    std::uint64_t size = 0, inode = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::string directory_;
  trust::Durable durable_;
  std::map<wire::Digest, Stamp> good_;
};

}  // namespace goblin::coordinator
