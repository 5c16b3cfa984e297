// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// `goblin plugin keys|sign|publish|list|verify|revoke`: the signed catalogue, from making keys to
// taking a plugin back (docs/catalogue.md says who does what). Each answers an exit status.
#pragma once

#include <string>
#include <vector>

#include "hosts/cli/role.hpp"

namespace goblin::cli {

/// What the user gave; each command uses some of it.
struct CatalogueOptions {
  RoleOptions role;                ///< whose coordinator
  std::vector<std::string> files;  ///< plugin libraries, metadata, key files, or names
  std::vector<std::string> keys;   ///< secret key files that sign
  std::string out;
  std::string repository;  ///< of published files; empty: the coordinator's
  std::string root;        ///< root file in force; empty: the repository's
  std::vector<std::string> backends;
  bool installed = false;
  bool no_passphrase = false;
  bool throw_away = false;  ///< no passphrase, nothing forced to disk
  bool beside = false;      ///< earlier builds stay
  bool replace = false;     ///< plugins that hold a kind of the new ones go
  int passphrase_fd = -1;
  std::uint32_t days = 0;  ///< until it expires; 0: the usual
  std::vector<std::string> add_root, add_targets, add_timestamp, remove;
  std::uint32_t root_threshold = 0, targets_threshold = 0;  ///< 0: as it was, or 2
};

// plugin_keys.cpp
int keys_new(const CatalogueOptions& options);
int keys_show(const CatalogueOptions& options);
/// A network of one person on one computer: one key a role, the root published, plugins too.
int keys_init(const CatalogueOptions& options);
/// The first root, or the next one with keys added and removed.
int keys_root(const CatalogueOptions& options);

// plugin_catalogue.cpp
/// Adds signatures to a metadata file, or makes new targets of plugin libraries.
int catalogue_sign(const CatalogueOptions& options);
int catalogue_publish(const CatalogueOptions& options);
int catalogue_revoke(const CatalogueOptions& options);
int catalogue_list(const CatalogueOptions& options);
int catalogue_verify(const CatalogueOptions& options);

}  // namespace goblin::cli
