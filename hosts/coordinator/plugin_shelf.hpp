// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The plugin files that a coordinator offers: a folder of libraries, each read once for its note
// and its SHA-256, never loaded.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/log/log.hpp"
#include "core/net/blobs.hpp"
#include "core/wire/peer.hpp"

namespace goblin::coordinator {

/// One thread.
class PluginShelf {
 public:
  /// Reads every *.so of the directories, in their order and by name. A file that is no plugin, or
  /// that holds a kind which an earlier file holds already, is left out and logged.
  static Result<PluginShelf> open(const std::vector<std::string>& directories,
                                  const std::vector<std::string>& files, const log::Logger& logger);
  /// Copies a plugin into `directory`, checked as by open(). Answers its entry.
  static Result<wire::CatalogEntry> add(const std::string& directory, const std::string& file);

  [[nodiscard]] const wire::Catalog& catalog() const { return catalog_; }
  /// kNotFound unless the catalogue names it.
  Result<std::shared_ptr<net::BlobSource>> find(const wire::Digest& digest) const;

 private:
  wire::Catalog catalog_;
  std::map<wire::Digest, std::string> paths_;
};

}  // namespace goblin::coordinator
