// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Keys and roots.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "core/trust/key_files.hpp"
#include "hosts/cli/catalogue_work.hpp"
#include "hosts/link/read_config.hpp"

namespace goblin::cli {
namespace {

namespace fs = std::filesystem;
using trust::MetadataRole;

constexpr std::uint32_t kRootDays = 365;

/// NAME.secret and NAME.public.
Result<trust::SecretKey> make_key(const std::string& name, const CatalogueOptions& options,
                                  Passphrases& passphrases) {
  std::string passphrase;
  const auto durable = options.throw_away ? trust::Durable::kNo : trust::Durable::kYes;
  if (!options.no_passphrase && !options.throw_away) {
    GOBLIN_TRY(passphrase, passphrases.make(name + ".secret"));
  }
  trust::SecretKey key = trust::SecretKey::make();
  GOBLIN_TRY_VOID(trust::write_secret_key(name + ".secret", key, passphrase, durable));
  GOBLIN_TRY_VOID(trust::write_public_key(name + ".public", key.public_key(), durable));
  std::cout << name << ": key " << key.id().hex() << "\n";
  return key;
}

/// Of a public key's file, or of the public part of a secret one.
Result<trust::PublicKey> read_either(const std::string& path) {
  std::ifstream in(path);
  std::string first;
  std::string second;
  if (in && std::getline(in, first) && std::getline(in, second) && first == "goblin secret key 1") {
    return trust::parse_public_key("goblin public key 1\n" + second + "\n", path);
  }
  return trust::read_public_key(path);
}

Result<void> make_keys(const CatalogueOptions& options) {
  Passphrases passphrases(options.passphrase_fd);
  for (const auto& name : options.files) {
    GOBLIN_TRY(const trust::SecretKey key, make_key(name, options, passphrases));
  }
  return {};
}

Result<void> show_keys(const CatalogueOptions& options) {
  for (const auto& path : options.files) {
    GOBLIN_TRY(const trust::PublicKey key, read_either(path));
    std::cout << trust::key_id(key).hex() << "  " << path << "\n";
  }
  return {};
}

Result<void> init(const CatalogueOptions& options) {
  const std::string directory = options.files.at(0);
  GOBLIN_TRY(const coordinator::PublisherSettings settings, settings_of(options));
  GOBLIN_TRY_VOID(link::make_state_dir(fs::path(settings.key_file).parent_path().string()));
  trust::Repository repository(settings.directory);
  if (fs::exists(settings.directory) && repository.newest_root()) {
    return fail(Code::kInvalidArgument,
                "the coordinator of '" + settings.directory +
                    "' has a root already, which its hosts trust: change its keys by the next one "
                    "(`goblin plugin keys root`), or name another --state-dir");
  }
  // What cannot be signed is found before anything is made.
  GOBLIN_TRY(const std::vector<PluginLibrary> libraries, read_libraries(options.keys, options));
  wire::TrustTargets targets;
  const std::uint64_t now = unix_now_s();
  targets = trust::next_targets(targets, now, now + 90 * kDayS);
  GOBLIN_TRY_VOID(merge_plugins(targets, libraries, Rivals::kRefuse));
  GOBLIN_TRY_VOID(link::make_state_dir(directory));
  Passphrases passphrases(options.passphrase_fd);
  GOBLIN_TRY(const trust::SecretKey root_key, make_key(directory + "/root", options, passphrases));
  GOBLIN_TRY(const trust::SecretKey targets_key,
             make_key(directory + "/targets", options, passphrases));
  GOBLIN_TRY(const std::unique_ptr<coordinator::Publisher> publisher,
             coordinator::Publisher::open(settings));
  wire::TrustRoot root = trust::next_root({}, now, now + kRootDays * kDayS);
  root.root.threshold = root.targets.threshold = root.timestamp.threshold = 1;
  GOBLIN_TRY_VOID(trust::add_key(root, MetadataRole::kRoot, root_key.public_key()));
  GOBLIN_TRY_VOID(trust::add_key(root, MetadataRole::kTargets, targets_key.public_key()));
  GOBLIN_TRY_VOID(trust::add_key(root, MetadataRole::kTimestamp, publisher->timestamp_key()));
  std::vector<wire::Bytes> files(1);
  GOBLIN_TRY(const wire::Bytes bare, trust::make_root_file(root));
  GOBLIN_TRY(files[0], trust::sign(bare, root_key, nullptr));
  GOBLIN_TRY_VOID(trust::write_file(directory + "/root-1.signed", files[0], 0644,
                                    trust::Existing::kReplace, settings.durable));
  GOBLIN_TRY(const wire::Bytes unsigned_targets, trust::make_targets_file(targets));
  GOBLIN_TRY(wire::Bytes signed_targets, trust::sign(unsigned_targets, targets_key, &root));
  files.push_back(std::move(signed_targets));
  GOBLIN_TRY_VOID(publish_all(options, libraries, std::move(files)));
  std::cout << "hosts and lab nodes of this network need trust.root = \""
            << fs::absolute(directory + "/root-1.signed").lexically_normal().string() << "\"\n";
  return {};
}

Result<void> add_keys(wire::TrustRoot& root, MetadataRole role,
                      const std::vector<std::string>& files) {
  for (const auto& path : files) {
    GOBLIN_TRY(const trust::PublicKey key, read_either(path));
    GOBLIN_TRY_VOID(trust::add_key(root, role, key));
  }
  return {};
}

/// A key by its id, or by its file.
Result<void> remove_key(wire::TrustRoot& root, const std::string& which) {
  auto id = wire::Digest::from_hex(which);
  if (!id) {
    GOBLIN_TRY(const trust::PublicKey key, read_either(which));
    id = trust::key_id(key);
  }
  for (const auto role : {MetadataRole::kRoot, MetadataRole::kTargets, MetadataRole::kTimestamp}) {
    if (trust::remove_key(root, role, *id)) {
      return {};
    }
  }
  return fail(Code::kNotFound, "the root lists no key " + id->hex());
}

Result<void> next_root_file(const CatalogueOptions& options) {
  GOBLIN_TRY(const std::string directory, repository_of(options));
  trust::Repository repository(directory);
  std::optional<wire::TrustRoot> current;
  if (!options.root.empty() || fs::exists(directory)) {
    GOBLIN_TRY(current, root_in_force(options, repository));
  }
  const std::uint64_t now = unix_now_s();
  wire::TrustRoot root =
      trust::next_root(current.value_or(wire::TrustRoot{}), now,
                       now + (options.days == 0 ? kRootDays : options.days) * kDayS);
  if (!current) {
    root.root.threshold = root.targets.threshold = 2;
    root.timestamp.threshold = 1;
  }
  for (const auto& which : options.remove) {
    GOBLIN_TRY_VOID(remove_key(root, which));
  }
  GOBLIN_TRY_VOID(add_keys(root, MetadataRole::kRoot, options.add_root));
  GOBLIN_TRY_VOID(add_keys(root, MetadataRole::kTargets, options.add_targets));
  GOBLIN_TRY_VOID(add_keys(root, MetadataRole::kTimestamp, options.add_timestamp));
  if (options.root_threshold != 0) {
    root.root.threshold = options.root_threshold;
  }
  if (options.targets_threshold != 0) {
    root.targets.threshold = options.targets_threshold;
  }
  GOBLIN_TRY(wire::Bytes file, trust::make_root_file(root));
  Passphrases passphrases(options.passphrase_fd);
  const wire::TrustRoot* in_force = current ? &*current : nullptr;
  GOBLIN_TRY(file, sign_with(std::move(file), options.keys, passphrases, in_force));
  const std::string out =
      options.out.empty() ? "root-" + std::to_string(root.version) + ".signed" : options.out;
  GOBLIN_TRY_VOID(write_metadata_file(out, file));
  GOBLIN_TRY(const trust::Standing standing, trust::standing(file, in_force));
  std::cout << out << "\n" << standing_text(standing) << contents_text(file);
  return {};
}

}  // namespace

int keys_new(const CatalogueOptions& options) { return report(make_keys(options)); }
int keys_show(const CatalogueOptions& options) { return report(show_keys(options)); }
int keys_init(const CatalogueOptions& options) { return report(init(options)); }
int keys_root(const CatalogueOptions& options) { return report(next_root_file(options)); }

}  // namespace goblin::cli
