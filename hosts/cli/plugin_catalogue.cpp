// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/plugin_catalogue.hpp"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "hosts/cli/catalogue_work.hpp"
#include "hosts/cli/print.hpp"
#include "hosts/common/units.hpp"

namespace goblin::cli {
namespace {

bool is_metadata(const std::string& path) {
  const auto file = read_metadata_file(path);
  return file && trust::role_of(*file);
}

std::string kinds_text(const wire::TrustPlugin& plugin) {
  std::string text;
  for (const auto& kind : plugin.kinds) {
    text += (text.empty() ? "" : " ") + kind.name + "/" + std::to_string(kind.version);
  }
  return text;
}

tl::unexpected<Error> no_root() {
  return fail(Code::kNotFound,
              "no root is published there, so nobody knows whose signatures count: publish the "
              "first one (`goblin plugin keys init`, or `goblin plugin keys root`), or name the "
              "one in force with --root");
}

Result<wire::TrustRoot> need_root(const CatalogueOptions& options, trust::Repository& repository) {
  GOBLIN_TRY(std::optional<wire::TrustRoot> root, root_in_force(options, repository));
  if (!root) {
    return no_root();
  }
  return std::move(*root);
}

/// New targets with these plugins, signed by the keys that were given.
Result<wire::Bytes> targets_of(const CatalogueOptions& options, trust::Repository& repository,
                               const std::vector<PluginLibrary>& libraries,
                               const wire::TrustRoot& root) {
  GOBLIN_TRY(wire::TrustTargets targets, targets_to_change(repository, options.days));
  GOBLIN_TRY_VOID(merge_plugins(targets, libraries, rivals_of(options)));
  GOBLIN_TRY(wire::Bytes file, trust::make_targets_file(targets));
  Passphrases passphrases(options.passphrase_fd);
  return sign_with(std::move(file), options.keys, passphrases, &root);
}

std::string targets_name(wire::ByteView file) {
  const auto envelope = trust::parse_envelope(trust::MetadataRole::kTargets, file);
  const auto targets = envelope ? trust::read_targets(envelope->message) : fail(envelope.error());
  return "targets-" + std::to_string(targets ? targets->version : 0) + ".signed";
}

Result<void> sign(const CatalogueOptions& options) {
  GOBLIN_TRY(const std::string directory, repository_of(options));
  trust::Repository repository(directory);
  const bool metadata =
      options.files.size() == 1 && !options.installed && is_metadata(options.files[0]);
  wire::Bytes file;
  std::optional<wire::TrustRoot> root;
  std::string out = options.out;
  if (metadata) {
    GOBLIN_TRY(file, read_metadata_file(options.files[0]));
    GOBLIN_TRY(root, root_in_force(options, repository));
    if (options.keys.empty()) {
      return fail(Code::kInvalidArgument, "name the key that signs: --key FILE");
    }
    // The file of the first root is judged by itself.
    const auto own = trust::role_of(file);
    if (!root && own && *own != trust::MetadataRole::kRoot) {
      return no_root();
    }
    Passphrases passphrases(options.passphrase_fd);
    GOBLIN_TRY(file,
               sign_with(std::move(file), options.keys, passphrases, root ? &*root : nullptr));
    out = out.empty() ? options.files[0] : out;
  } else {
    GOBLIN_TRY(root, need_root(options, repository));
    GOBLIN_TRY(const std::vector<PluginLibrary> libraries, read_libraries(options.files, options));
    GOBLIN_TRY(file, targets_of(options, repository, libraries, *root));
    out = out.empty() ? targets_name(file) : out;
  }
  GOBLIN_TRY_VOID(write_metadata_file(out, file));
  GOBLIN_TRY(const trust::Standing standing, trust::standing(file, root ? &*root : nullptr));
  std::cout << out << "\n" << standing_text(standing) << contents_text(file);
  return {};
}

Result<void> need_done(wire::ByteView file, const wire::TrustRoot& root) {
  GOBLIN_TRY(const trust::Standing standing, trust::standing(file, &root));
  if (!standing.done()) {
    return fail(Code::kInvalidArgument,
                "not enough signatures, so hosts would refuse it; write it with --out and hand it "
                "round (`goblin plugin sign FILE --key …`), then publish it:\n" +
                    standing_text(standing));
  }
  return {};
}

Result<void> publish(const CatalogueOptions& options) {
  GOBLIN_TRY(const coordinator::PublisherSettings settings, settings_of(options));
  trust::Repository repository(settings.directory);
  std::vector<wire::Bytes> files;
  std::vector<std::string> libraries_named;
  bool targets_given = false;
  for (const auto& path : options.files) {
    if (is_metadata(path)) {
      GOBLIN_TRY(wire::Bytes file, read_metadata_file(path));
      const auto role = trust::role_of(file);
      targets_given = targets_given || (role && *role == trust::MetadataRole::kTargets);
      files.push_back(std::move(file));
    } else {
      libraries_named.push_back(path);
    }
  }
  GOBLIN_TRY(const std::vector<PluginLibrary> libraries, read_libraries(libraries_named, options));
  if (!targets_given && !libraries.empty()) {
    GOBLIN_TRY(const wire::TrustRoot root, need_root(options, repository));
    if (options.keys.empty()) {
      return fail(Code::kInvalidArgument,
                  "a library alone is not published: name the targets file that lists it, or the "
                  "targets key that signs for it (--key FILE)");
    }
    GOBLIN_TRY(wire::Bytes file, targets_of(options, repository, libraries, root));
    GOBLIN_TRY_VOID(need_done(file, root));
    files.push_back(std::move(file));
  }
  if (files.empty()) {
    return fail(Code::kInvalidArgument,
                "name what to publish: signed root or targets files, plugin libraries, "
                "--installed");
  }
  return publish_all(options, libraries, std::move(files));
}

Result<void> revoke(const CatalogueOptions& options) {
  GOBLIN_TRY(const std::string directory, repository_of(options));
  trust::Repository repository(directory);
  GOBLIN_TRY(const wire::TrustRoot root, need_root(options, repository));
  GOBLIN_TRY(wire::TrustTargets targets, targets_to_change(repository, options.days));
  for (const auto& name : options.files) {
    GOBLIN_TRY_VOID(trust::revoke_plugin(targets, name));
  }
  GOBLIN_TRY(wire::Bytes file, trust::make_targets_file(targets));
  Passphrases passphrases(options.passphrase_fd);
  GOBLIN_TRY(file, sign_with(std::move(file), options.keys, passphrases, &root));
  if (!options.out.empty()) {
    GOBLIN_TRY_VOID(write_metadata_file(options.out, file));
    GOBLIN_TRY(const trust::Standing standing, trust::standing(file, &root));
    std::cout << options.out << "\n" << standing_text(standing) << contents_text(file);
    return {};
  }
  GOBLIN_TRY_VOID(need_done(file, root));
  std::vector<wire::Bytes> files(1);
  files[0] = std::move(file);
  return publish_all(options, {}, std::move(files));
}

void list_json(const wire::TrustRoot& root, const trust::Repository::Release& release,
               const Result<wire::TrustTimestamp>& timestamp) {
  std::cout << "{\"root\": {\"version\": " << root.version << ", \"expires\": " << root.expires_s
            << "}, \"targets\": {\"version\": " << release.targets.version
            << ", \"expires\": " << release.targets.expires_s << ", \"signers\": [";
  const char* comma = "";
  for (const auto& signer : release.signers) {
    std::cout << comma << json_text(signer.hex());
    comma = ", ";
  }
  std::cout << "]}, \"timestamp\": ";
  if (timestamp) {
    std::cout << "{\"version\": " << timestamp->version
              << ", \"targets\": " << timestamp->targets.version
              << ", \"expires\": " << timestamp->expires_s << "}";
  } else {
    std::cout << "null";
  }
  std::cout << ", \"plugins\": [";
  comma = "";
  for (const auto& plugin : release.targets.plugins) {
    std::cout << comma << "{\"name\": " << json_text(plugin.name)
              << ", \"plugin\": " << json_text(plugin.plugin.hex())
              << ", \"bytes\": " << plugin.size << ", \"abi\": \"" << plugin.abi_major << "."
              << plugin.abi_minor << "\", \"kinds\": [";
    comma = "";
    for (const auto& kind : plugin.kinds) {
      std::cout << comma << json_text(kind.name + "/" + std::to_string(kind.version));
      comma = ", ";
    }
    std::cout << "], \"backends\": [";
    comma = "";
    for (const auto& backend : plugin.backends) {
      std::cout << comma << json_text(backend.name);
      comma = ", ";
    }
    std::cout << "]}";
    comma = ", ";
  }
  std::cout << "]}\n";
}

Result<void> list(const CatalogueOptions& options) {
  GOBLIN_TRY(const std::string directory, repository_of(options));
  trust::Repository repository(directory);
  auto root =
      std::filesystem::exists(directory) ? repository.newest_root() : fail(Code::kNotFound, "");
  if (!root && root.error().code == Code::kNotFound) {
    return fail(Code::kNotFound, "'" + directory +
                                     "' has no published root: is that the coordinator's "
                                     "--state-dir? A new network begins with `goblin plugin keys "
                                     "init`");
  }
  if (!root) {
    return fail(root.error());
  }
  GOBLIN_TRY(const trust::Repository::Release release, repository.release(0, unix_now_s()));
  const auto timestamp = repository.judged_timestamp();
  if (options.role.json) {
    list_json(*root, release, timestamp);
    return {};
  }
  std::cout << "root version " << root->version << ", expires " << trust::time_text(root->expires_s)
            << "\ntargets version " << release.targets.version << ", expires "
            << trust::time_text(release.targets.expires_s) << "\n";
  for (const auto& signer : release.signers) {
    std::cout << "  signed by " << signer.hex() << "\n";
  }
  if (timestamp) {
    std::cout << "timestamp version " << timestamp->version << " for targets version "
              << timestamp->targets.version << ", expires "
              << trust::time_text(timestamp->expires_s) << "\n";
  } else {
    std::cout << "no timestamp yet: a coordinator that runs makes it\n";
  }
  std::size_t width = 0;
  for (const auto& plugin : release.targets.plugins) {
    width = std::max(width, plugin.name.size());
  }
  for (const auto& plugin : release.targets.plugins) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2) << plugin.name
              << plugin.plugin.hex().substr(0, 16) << "  " << hosts::format_bytes(plugin.size)
              << "  " << kinds_text(plugin) << "\n";
  }
  return {};
}

Result<void> verify(const CatalogueOptions& options) {
  GOBLIN_TRY(const std::string directory, repository_of(options));
  trust::Repository repository(directory);
  std::vector<wire::TrustPlugin> named;
  std::vector<std::string> libraries;
  bool done = true;
  for (const auto& path : options.files) {
    if (!is_metadata(path)) {
      libraries.push_back(path);
      continue;
    }
    GOBLIN_TRY(const wire::Bytes file, read_metadata_file(path));
    GOBLIN_TRY(const trust::MetadataRole role, trust::role_of(file));
    std::optional<wire::TrustRoot> root;
    if (!options.root.empty() || std::filesystem::exists(directory)) {
      GOBLIN_TRY(root, root_in_force(options, repository));
    }
    if (!root && role != trust::MetadataRole::kRoot) {
      return no_root();
    }
    // A root that is in force already is judged by itself, as hosts that begin with it do.
    const auto own =
        role == trust::MetadataRole::kRoot ? trust::read_own_root(file) : fail(Code::kNotFound, "");
    const bool begins = own && root && own->root.version <= root->version;
    GOBLIN_TRY(const trust::Standing standing,
               trust::standing(file, root && !begins ? &*root : nullptr));
    std::cout << path << "\n" << standing_text(standing) << contents_text(file);
    done = done && standing.done();
    if (unix_now_s() >= standing.expires_s) {
      return fail(Code::kUnavailable, "'" + path + "' has expired: sign a newer one");
    }
    if (role == trust::MetadataRole::kTargets) {
      GOBLIN_TRY(const trust::Envelope envelope, trust::parse_envelope(role, file));
      GOBLIN_TRY(const wire::TrustTargets targets, trust::read_targets(envelope.message));
      named.insert(named.end(), targets.plugins.begin(), targets.plugins.end());
    }
  }
  for (const auto& path : libraries) {
    GOBLIN_TRY(const PluginLibrary library, read_library(path, {}));
    const auto found = std::find_if(named.begin(), named.end(), [&](const auto& plugin) {
      return plugin.plugin == library.entry.plugin;
    });
    if (found == named.end()) {
      return fail(Code::kCorrupt, "'" + path + "' has SHA-256 " + library.entry.plugin.hex() +
                                      ", which none of the targets files here lists");
    }
    std::cout << path << "\n  is plugin " << found->name << " of the targets\n";
  }
  if (!done) {
    return fail(Code::kCorrupt, "signatures are missing: hosts would refuse it");
  }
  return {};
}

}  // namespace

int catalogue_sign(const CatalogueOptions& options) { return report(sign(options)); }
int catalogue_publish(const CatalogueOptions& options) { return report(publish(options)); }
int catalogue_revoke(const CatalogueOptions& options) { return report(revoke(options)); }
int catalogue_list(const CatalogueOptions& options) { return report(list(options)); }
int catalogue_verify(const CatalogueOptions& options) { return report(verify(options)); }

}  // namespace goblin::cli
