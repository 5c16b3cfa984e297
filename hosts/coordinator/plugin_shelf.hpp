// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The plugin files that a coordinator offers: a folder of libraries, each read once for its note
// and its SHA-256, never loaded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/net/blobs.hpp"
#include "core/wire/peer.hpp"
#include "hosts/coordinator/plugin_listing.hpp"

namespace goblin::coordinator {

/// One thread.
class PluginShelf {
 public:
  /// Reads the files, then every *.so of the directories, each directory by name. What is no
  /// plugin, or holds a kind which an earlier one holds already, is left out: listing() says why.
  /// kNotFound when a directory cannot be read.
  static Result<PluginShelf> open(const std::vector<std::string>& directories,
                                  const std::vector<std::string>& files);

  /// What add() did.
  struct Added {
    wire::Digest plugin;
    std::uint64_t size = 0;
    std::vector<plugin::KindId> kinds;
    std::vector<wire::Digest> replaced;  ///< earlier added ones, now removed
  };
  /// Copies a plugin into `directory`, checked as by open(). Earlier ones of that directory which
  /// hold one of its kinds go. kInvalidArgument, and nothing changes, when `others` names a holder
  /// outside that directory.
  static Result<Added> add(const std::string& directory, const std::string& file,
                           const PluginListing& others = {});

  [[nodiscard]] const wire::Catalog& catalog() const { return catalog_; }
  /// `added` is the directory of added plugins.
  [[nodiscard]] PluginListing listing(const std::string& added) const;
  /// kNotFound unless the catalogue names it.
  Result<std::shared_ptr<net::BlobSource>> find(const wire::Digest& digest) const;

 private:
  wire::Catalog catalog_;
  std::map<wire::Digest, std::string> paths_;
  std::vector<PluginListing::LeftOut> left_out_;
};

}  // namespace goblin::coordinator
