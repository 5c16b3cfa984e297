// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/catalogue_work.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>

#include "core/plugin/note.hpp"
#include "core/trust/disk_file.hpp"
#include "hosts/cli/ask.hpp"
#include "hosts/common/installation.hpp"
#include "hosts/coordinator/coordinator.hpp"
#include "hosts/link/clock.hpp"
#include "hosts/link/read_config.hpp"

namespace goblin::cli {
namespace {

namespace fs = std::filesystem;

std::string kinds_text(const wire::TrustPlugin& plugin) {
  std::string text;
  for (const auto& kind : plugin.kinds) {
    text += (text.empty() ? "" : ", ") + kind.name + "/" + std::to_string(kind.version);
  }
  return text;
}

/// A file's name as the name of a plugin: what may not stand there becomes '-'.
std::string identifier_of(const std::string& stem) {
  std::string name;
  for (const char c : stem) {
    const bool dot = c == '.' && !name.empty() && name.back() != '.';
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 128 && (std::isalnum(byte) != 0 || c == '_' || dot);
    const char put = plain ? static_cast<char>(std::tolower(byte)) : '-';
    if (!name.empty() || std::isalnum(static_cast<unsigned char>(put)) != 0) {
      name += put;
    }
  }
  return name.empty() ? "plugin" : name.substr(0, 56);
}

/// Is one a newer build of the other? They have a kind in common, of whatever version.
bool same_kinds(const wire::TrustPlugin& a, const wire::TrustPlugin& b) {
  return std::any_of(a.kinds.begin(), a.kinds.end(), [&](const auto& kind) {
    return std::any_of(b.kinds.begin(), b.kinds.end(),
                       [&](const auto& other) { return other.name == kind.name; });
  });
}

std::string free_name(const wire::TrustTargets& targets, const std::string& name) {
  std::string free = name;
  const auto taken = [&](const wire::TrustPlugin& plugin) { return plugin.name == free; };
  for (int n = 2; std::any_of(targets.plugins.begin(), targets.plugins.end(), taken); ++n) {
    free = name + "-" + std::to_string(n);
  }
  return free;
}

}  // namespace

std::uint64_t unix_now_s() { return static_cast<std::uint64_t>(link::unix_ms()) / 1000; }

Result<PluginLibrary> read_library(const std::string& path,
                                   const std::vector<std::string>& backends) {
  PluginLibrary library;
  library.path = path;
  GOBLIN_TRY(const net::UniqueFd memfd, plugin::make_sealed_memfd_from(path));
  GOBLIN_TRY(plugin::FileMap map, plugin::FileMap::open(memfd.get()));
  library.map = std::make_unique<plugin::FileMap>(std::move(map));
  const auto note = plugin::read_note(library.map->bytes());
  if (!note) {
    return fail(note.error().with_context("plugin '" + path + "'"));
  }
  if (auto abi = plugin::check_abi("plugin", note->abi_major, note->abi_minor); !abi) {
    return fail(abi.error().with_context("plugin '" + path + "'"));
  }
  trust::PluginFacts facts;
  facts.name = identifier_of(fs::path(path).stem().string());
  facts.abi_major = note->abi_major;
  facts.abi_minor = note->abi_minor;
  for (const auto& kind : note->kinds) {
    facts.kinds.push_back({kind.name, kind.version});
  }
  facts.backends = backends;
  library.entry = trust::plugin_entry(facts, library.map->bytes());
  return library;
}

Result<std::vector<PluginLibrary>> read_libraries(const std::vector<std::string>& paths,
                                                  const CatalogueOptions& options) {
  std::vector<std::string> all;
  if (options.installed) {
    GOBLIN_TRY(hosts::ConfigReader reader, open_config("coordinator", options.role));
    GOBLIN_TRY(const hosts::Installation installation,
               hosts::Installation::locate(reader.string("libdir", "")));
    all = installation.plugins();
  }
  all.insert(all.end(), paths.begin(), paths.end());
  std::vector<PluginLibrary> libraries;
  for (const auto& path : all) {
    GOBLIN_TRY(PluginLibrary library, read_library(path, options.backends));
    const bool twice = std::any_of(libraries.begin(), libraries.end(), [&](const auto& other) {
      return other.entry.plugin == library.entry.plugin;
    });
    if (!twice) {
      libraries.push_back(std::move(library));
    }
  }
  return libraries;
}

Rivals rivals_of(const CatalogueOptions& options) {
  return options.beside ? Rivals::kBeside : options.replace ? Rivals::kReplace : Rivals::kRefuse;
}

Result<void> merge_plugins(wire::TrustTargets& targets, const std::vector<PluginLibrary>& libraries,
                           Rivals rivals) {
  const wire::TrustTargets before = targets;
  for (const auto& library : libraries) {
    const auto is_old = [&](const wire::TrustPlugin& other) {
      const bool published =
          std::any_of(before.plugins.begin(), before.plugins.end(),
                      [&](const wire::TrustPlugin& old) { return old.plugin == other.plugin; });
      return other.plugin == library.entry.plugin ||
             (published && rivals != Rivals::kBeside &&
              (rivals == Rivals::kReplace || other.name == library.entry.name) &&
              same_kinds(other, library.entry));
    };
    std::erase_if(targets.plugins, is_old);
    for (const auto& kind : library.entry.kinds) {
      for (const auto& other : targets.plugins) {
        if (rivals != Rivals::kBeside &&
            std::find(other.kinds.begin(), other.kinds.end(), kind) != other.kinds.end()) {
          return fail(Code::kInvalidArgument,
                      "'" + library.path + "' holds the kind " + kind.name + "/" +
                          std::to_string(kind.version) + ", which plugin " + other.name + " (" +
                          other.plugin.hex().substr(0, 16) +
                          ") holds already: give the kind another name or version, or have that "
                          "plugin taken out by --replace");
        }
      }
    }
    wire::TrustPlugin entry = library.entry;
    entry.name = free_name(targets, entry.name);
    if (auto added = trust::add_plugin(targets, entry); !added) {
      return fail(added.error().with_context("'" + library.path + "'"));
    }
  }
  return {};
}

Result<coordinator::PublisherSettings> settings_of(const CatalogueOptions& options) {
  GOBLIN_TRY(hosts::ConfigReader reader, open_config("coordinator", options.role));
  GOBLIN_TRY(const coordinator::CoordinatorConfig config, coordinator::read_config(reader));
  coordinator::PublisherSettings settings = config.publisher;
  if (options.throw_away) {
    settings.durable = trust::Durable::kNo;
  }
  return settings;
}

Result<std::string> repository_of(const CatalogueOptions& options) {
  if (!options.repository.empty()) {
    return options.repository;
  }
  GOBLIN_TRY(const coordinator::PublisherSettings settings, settings_of(options));
  return settings.directory;
}

Result<std::optional<wire::TrustRoot>> root_in_force(const CatalogueOptions& options,
                                                     trust::Repository& repository) {
  if (!options.root.empty()) {
    GOBLIN_TRY(const wire::Bytes file, read_metadata_file(options.root));
    GOBLIN_TRY(trust::OwnRoot own, trust::read_own_root(file));
    return std::optional(std::move(own.root));
  }
  auto root = repository.newest_root();
  if (root) {
    return std::optional(std::move(*root));
  }
  if (root.error().code == Code::kNotFound) {
    return std::optional<wire::TrustRoot>();
  }
  return fail(root.error());
}

Result<wire::TrustTargets> targets_to_change(trust::Repository& repository, std::uint32_t days) {
  wire::TrustTargets current;
  if (auto newest = repository.newest_targets()) {
    current = std::move(*newest);
  } else if (newest.error().code != Code::kNotFound) {
    return fail(newest.error());
  }
  const std::uint64_t now = unix_now_s();
  return trust::next_targets(current, now, now + (days == 0 ? 90 : days) * kDayS);
}

Result<wire::Bytes> sign_with(wire::Bytes file, const std::vector<std::string>& keys,
                              Passphrases& passphrases, const wire::TrustRoot* root) {
  for (const auto& path : keys) {
    GOBLIN_TRY(const trust::SecretKey key, passphrases.open(path));
    auto with = trust::sign(file, key, root);
    if (!with) {
      return fail(with.error().with_context("'" + path + "'"));
    }
    file = std::move(*with);
  }
  return file;
}

std::string standing_text(const trust::Standing& standing) {
  std::string text = std::string(trust::role_name(standing.role)) + " version " +
                     std::to_string(standing.version) + ", expires " +
                     trust::time_text(standing.expires_s) + "\n";
  for (const auto& duty : standing.duties) {
    text += "  by the keys of " + duty.whose + ": " + std::to_string(duty.have.size()) + " of " +
            std::to_string(duty.threshold) + " signatures" +
            (duty.done() ? ", enough\n" : ": not enough\n");
    for (const auto& key : duty.have) {
      text += "    signed   " + key.hex() + "\n";
    }
    for (const auto& key : duty.missing) {
      text += std::string(duty.done() ? "    may sign " : "    missing  ") + key.hex() + "\n";
    }
  }
  return text;
}

std::string contents_text(wire::ByteView file) {
  std::string text;
  const auto role = trust::role_of(file);
  if (!role) {
    return text;
  }
  const auto envelope = trust::parse_envelope(*role, file);
  if (envelope && *role == trust::MetadataRole::kTargets) {
    if (const auto targets = trust::read_targets(envelope->message)) {
      for (const auto& plugin : targets->plugins) {
        text += "  plugin " + plugin.name + "  " + kinds_text(plugin) + "\n         " +
                plugin.plugin.hex() + "\n";
      }
    }
  }
  if (envelope && *role == trust::MetadataRole::kRoot) {
    if (const auto root = trust::read_root(envelope->message)) {
      for (const auto one : {trust::MetadataRole::kRoot, trust::MetadataRole::kTargets,
                             trust::MetadataRole::kTimestamp}) {
        const auto& keys = trust::keys_of(*root, one);
        text += "  " + std::string(trust::role_name(one)) + ": " + std::to_string(keys.threshold) +
                " of\n";
        for (const auto& key : keys.keys) {
          text += "    " + trust::key_id(key).hex() + "\n";
        }
      }
    }
  }
  return text;
}

Result<wire::Bytes> read_metadata_file(const std::string& path) {
  return trust::read_file(path, trust::max_file_bytes(trust::MetadataRole::kTargets),
                          trust::Readers::kAnybody);
}

Result<void> write_metadata_file(const std::string& path, wire::ByteView file) {
  return trust::write_file(path, file, 0644, trust::Existing::kReplace);
}

namespace {

/// Root before targets, lower versions first.
std::pair<std::uint32_t, std::uint64_t> order_of(wire::ByteView file) {
  const auto role = trust::role_of(file);
  const auto envelope = role ? trust::parse_envelope(*role, file) : fail(role.error());
  std::uint64_t version = 0;
  if (envelope && *role == trust::MetadataRole::kRoot) {
    const auto root = trust::read_root(envelope->message);
    version = root ? root->version : 0;
  } else if (envelope && *role == trust::MetadataRole::kTargets) {
    const auto targets = trust::read_targets(envelope->message);
    version = targets ? targets->version : 0;
  }
  return {role ? static_cast<std::uint32_t>(*role) : 0, version};
}

/// Is exactly this file published already?
bool is_published(trust::Repository& repository, wire::ByteView file) {
  const auto [role, version] = order_of(file);
  const auto as_role = static_cast<trust::MetadataRole>(role);
  const auto there = version == 0
                         ? fail(Code::kNotFound, "")
                         : repository.get(as_role, version, trust::max_file_bytes(as_role));
  return there && std::equal(there->begin(), there->end(), file.begin(), file.end());
}

/// The targets that hosts would have afterwards, under the root that they would have.
Result<void> check_together(trust::Repository& repository, const std::vector<wire::Bytes>& files) {
  std::optional<wire::TrustRoot> root;
  if (auto newest = repository.newest_root()) {
    root = std::move(*newest);
  }
  wire::Bytes targets;
  if (auto newest = repository.newest_targets_file()) {
    targets = std::move(*newest);
  }
  for (const auto& file : files) {
    const auto role = trust::role_of(file);
    if (role && *role == trust::MetadataRole::kTargets) {
      targets = file;
    } else if (auto own = trust::read_own_root(file)) {
      root = std::move(own->root);
    }
  }
  if (!root || targets.empty()) {
    return {};
  }
  GOBLIN_TRY(const trust::Standing standing, trust::standing(targets, &*root));
  if (!standing.done()) {
    return fail(Code::kInvalidArgument,
                "under root version " + std::to_string(root->version) +
                    " hosts would run nothing, since its keys have not signed the targets enough; "
                    "publish a root together with targets that its keys signed:\n" +
                    standing_text(standing));
  }
  return {};
}

Result<void> check_targets_plugins(coordinator::PluginFiles& plugins, wire::ByteView file) {
  GOBLIN_TRY(const trust::MetadataRole role, trust::role_of(file));
  if (role != trust::MetadataRole::kTargets) {
    return {};
  }
  GOBLIN_TRY(const trust::Envelope envelope, trust::parse_envelope(role, file));
  GOBLIN_TRY(const wire::TrustTargets targets, trust::read_targets(envelope.message));
  if (unix_now_s() >= targets.expires_s) {
    return fail(Code::kInvalidArgument, "targets version " + std::to_string(targets.version) +
                                            " expired at " + trust::time_text(targets.expires_s) +
                                            ": hosts would refuse them; sign newer ones");
  }
  for (const auto& plugin : targets.plugins) {
    if (auto good = plugins.check(plugin); !good) {
      return fail(good.error().with_context(
          "the targets name a plugin whose library was not given (name it, too)"));
    }
  }
  return {};
}

}  // namespace

Result<void> publish_all(const CatalogueOptions& options,
                         const std::vector<PluginLibrary>& libraries,
                         std::vector<wire::Bytes> files) {
  GOBLIN_TRY(const coordinator::PublisherSettings settings, settings_of(options));
  const std::string state_dir = fs::path(settings.key_file).parent_path().string();
  GOBLIN_TRY_VOID(link::make_state_dir(state_dir));
  GOBLIN_TRY(const std::unique_ptr<coordinator::Publisher> publisher,
             coordinator::Publisher::open(settings));
  std::sort(files.begin(), files.end(),
            [](const wire::Bytes& a, const wire::Bytes& b) { return order_of(a) < order_of(b); });
  trust::Repository repository(settings.directory, settings.durable);
  GOBLIN_TRY_VOID(check_together(repository, files));
  for (const auto& library : libraries) {
    GOBLIN_TRY_VOID(publisher->plugin_files().put(library.entry.plugin, library.map->bytes()));
  }
  for (const auto& file : files) {
    GOBLIN_TRY_VOID(check_targets_plugins(publisher->plugin_files(), file));
  }
  for (const auto& file : files) {
    if (!is_published(repository, file)) {
      GOBLIN_TRY_VOID(repository.put(file));
    }
  }
  if (const auto hold = link::hold_state_dir(state_dir, "coordinator"); !hold) {  // one runs
    GOBLIN_TRY(const std::string socket, socket_of("coordinator", options.role));
    wire::Control control;
    control.command = "reload";
    if (auto told = ask(socket, wire::Role::kCoordinator, std::move(control));
        !told && repository.newest_targets()) {
      return fail(unanswered("coordinator", socket, std::move(told).error()));
    }
    std::cout << "published; the running coordinator serves it, hosts hear of it now\n";
    return {};
  }
  if (auto done = publisher->refresh(unix_now_s()); !done && !repository.newest_targets()) {
    std::cout << "published; the catalogue begins with the first targets\n";
    return {};
  } else if (!done) {
    return fail(done.error());
  }
  std::cout << "published; no coordinator runs there, the next one serves it\n";
  return {};
}

}  // namespace goblin::cli
