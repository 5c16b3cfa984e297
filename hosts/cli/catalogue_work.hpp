// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the commands of the signed catalogue share: where it is published, who signs, how far the
// signatures have come.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plugin/sealed_file.hpp"
#include "core/trust/publish.hpp"
#include "hosts/cli/passphrase.hpp"
#include "hosts/cli/plugin_catalogue.hpp"
#include "hosts/coordinator/publisher.hpp"

namespace goblin::cli {

inline constexpr std::uint64_t kDayS = 86'400;

std::uint64_t unix_now_s();

/// A plugin library, read once.
struct PluginLibrary {
  std::string path;
  std::unique_ptr<plugin::FileMap> map;
  wire::TrustPlugin entry;
};
/// Its entry: name from the file's, ABI and kinds from its note. Refuses what this release could
/// not use.
Result<PluginLibrary> read_library(const std::string& path,
                                   const std::vector<std::string>& backends);
/// Those that are named, and the installed ones if asked for.
Result<std::vector<PluginLibrary>> read_libraries(const std::vector<std::string>& paths,
                                                  const CatalogueOptions& options);

/// What becomes of published plugins that hold a kind of the new ones.
enum class Rivals : std::uint8_t { kRefuse, kReplace, kBeside };
Rivals rivals_of(const CatalogueOptions& options);
/// The targets with the plugins added. One that was published under the same name and has a kind in
/// common is replaced; another of that name gets a number. kInvalidArgument: another plugin holds
/// one of its kinds, unless those are to be replaced.
Result<void> merge_plugins(wire::TrustTargets& targets, const std::vector<PluginLibrary>& libraries,
                           Rivals rivals);

/// Where the coordinator publishes, with its own settings.
Result<coordinator::PublisherSettings> settings_of(const CatalogueOptions& options);
/// Its directory, or the one that was named.
Result<std::string> repository_of(const CatalogueOptions& options);
/// The root in force: named, or the newest that is published; none before the first.
Result<std::optional<wire::TrustRoot>> root_in_force(const CatalogueOptions& options,
                                                     trust::Repository& repository);
/// The next targets after those that are published; version 1 where none are.
Result<wire::TrustTargets> targets_to_change(trust::Repository& repository, std::uint32_t days);

/// The file with each key's signature.
Result<wire::Bytes> sign_with(wire::Bytes file, const std::vector<std::string>& keys,
                              Passphrases& passphrases, const wire::TrustRoot* root);
/// "targets version 3, expires …: 1 of 2 signatures; missing: …"
std::string standing_text(const trust::Standing& standing);
/// What targets or a root say, for those who are to sign it.
std::string contents_text(wire::ByteView file);

Result<wire::Bytes> read_metadata_file(const std::string& path);
/// Replaces the file, whole or not at all.
Result<void> write_metadata_file(const std::string& path, wire::ByteView file);

/// Copies libraries to the coordinator, publishes roots and targets in order, has the timestamp
/// renewed: by the running coordinator, or here. Nothing is published that hosts would refuse.
Result<void> publish_all(const CatalogueOptions& options,
                         const std::vector<PluginLibrary>& libraries,
                         std::vector<wire::Bytes> files);

}  // namespace goblin::cli
