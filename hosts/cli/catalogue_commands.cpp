// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/catalogue_commands.hpp"

#include "hosts/cli/plugin_info.hpp"

namespace goblin::cli {
namespace {

void add_passphrase(CLI::App& command, CatalogueOptions& options) {
  command.add_option("--passphrase-fd", options.passphrase_fd,
                     "descriptor with the passphrases, one a line, in the order of the keys; by "
                     "default the terminal is asked");
}
void add_keys(CLI::App& command, CatalogueOptions& options) {
  command
      .add_option("--key,-k", options.keys, "secret key that signs (may be given more than once)")
      ->allow_extra_args(false);
  add_passphrase(command, options);
}
void add_where(CLI::App& command, CatalogueOptions& options) {
  command.add_option("--repository", options.repository,
                     "folder of published files, such as a copy on a computer that is offline; by "
                     "default the coordinator's");
  command.add_option("--root", options.root,
                     "root in force; by default the newest of the published files");
}
void add_plugins(CLI::App& command, CatalogueOptions& options) {
  command.add_flag("--installed", options.installed, "the plugins of this installation, too");
  command
      .add_option("--backend", options.backends,
                  "backend that the plugins need, such as cuda (may be given more than once); "
                  "by default they run on every one")
      ->allow_extra_args(false);
  command.add_flag("--replace", options.replace,
                   "take out published plugins that hold a kind of the new ones, whatever their "
                   "names");
  command.add_flag("--beside", options.beside,
                   "leave earlier builds in the catalogue: their jobs go on, new ones use the new "
                   "build");
  command.add_option("--days", options.days, "until the targets expire (default: 90)");
}

}  // namespace

void add_role_options(CLI::App& app, RoleOptions& options) {
  app.add_option(
      "--config,-c", options.config,
      "TOML file; default: ~/.config/gpugoblin/ROLE.toml, for root /etc/gpugoblin/ROLE.toml");
  app.add_option("--state-dir", options.state_dir, "where the daemon keeps its state");
  app.add_option("--socket", options.socket, "Unix socket of the daemon");
  app.add_option("--set", options.set,
                 "KEY=VALUE: a setting that goes before the file; `config-check` lists all")
      ->allow_extra_args(false);
}

void add_catalogue_commands(CLI::App& plugin, CatalogueOptions& options,
                            std::function<int()>& action) {
  const auto add = [&](CLI::App& parent, const char* name, const char* doc,
                       int (*run)(const CatalogueOptions&)) -> CLI::App& {
    auto& command = *parent.add_subcommand(name, doc);
    add_role_options(command, options.role);
    command.callback(
        [&options, &action, run] { action = [&options, run] { return run(options); }; });
    return command;
  };

  auto& info =
      add(plugin, "info", "what a plugin's file claims to be (it is not loaded)", &plugin_info);
  info.add_option("file", options.files, "the library (may be given more than once)");
  info.add_flag("--installed", options.installed, "the plugins of this installation, too");
  info.add_flag("--json", options.role.json, "print JSON");

  auto& keys = *plugin.add_subcommand("keys", "make keys, and the roots that list them");
  keys.require_subcommand(1);
  auto& init = add(keys, "init", "a new network of one person: keys, root and plugins, in one step",
                   &keys_init);
  init.add_option("directory", options.files, "where the new keys and root-1.signed go")
      ->required()
      ->expected(1);
  init.add_option("--plugin", options.keys, "a plugin to publish (may be given more than once)")
      ->allow_extra_args(false);
  init.add_flag("--installed", options.installed, "publish the plugins of this installation");
  init.add_flag("--no-passphrase", options.no_passphrase, "keys that are not encrypted");
  init.add_flag("--throw-away", options.throw_away,
                "for tests: keys that are not encrypted, files that a loss of power may cost");
  add_passphrase(init, options);
  auto& make = add(keys, "new", "make keys: NAME.secret and NAME.public", &keys_new);
  make.add_option("name", options.files, "path of the key without .secret or .public")->required();
  make.add_flag("--no-passphrase", options.no_passphrase, "keys that are not encrypted");
  add_passphrase(make, options);
  auto& show = add(keys, "show", "the ids of keys", &keys_show);
  show.add_option("file", options.files, "public or secret key file")->required();
  auto& root = add(keys, "root", "make the first root, or the next one with keys added and removed",
                   &keys_root);
  root.add_option("--out,-o", options.out, "the file to write (default: root-VERSION.signed)");
  root.add_option("--add-root", options.add_root, "public key file")->allow_extra_args(false);
  root.add_option("--add-targets", options.add_targets, "public key file")->allow_extra_args(false);
  root.add_option("--add-timestamp", options.add_timestamp,
                  "public key file; a coordinator's is timestamp.public in its state directory")
      ->allow_extra_args(false);
  root.add_option("--remove", options.remove, "key file, or key id")->allow_extra_args(false);
  root.add_option("--root-threshold", options.root_threshold,
                  "how many root keys must sign (the first time: 2)");
  root.add_option("--targets-threshold", options.targets_threshold,
                  "how many targets keys must sign (the first time: 2)");
  root.add_option("--days", options.days, "until it expires (default: 365)");
  add_keys(root, options);
  add_where(root, options);

  auto& sign =
      add(plugin, "sign", "sign a root or targets file, or make new targets that list plugins",
          &catalogue_sign);
  sign.add_option("file", options.files,
                  "a metadata file, which gets one signature more; or plugin libraries");
  sign.add_option("--out,-o", options.out,
                  "the file to write (default: the metadata file itself, or "
                  "targets-VERSION.signed)");
  add_plugins(sign, options);
  add_keys(sign, options);
  add_where(sign, options);

  auto& publish =
      add(plugin, "publish", "give signed files and plugin libraries to the coordinator",
          &catalogue_publish);
  publish.add_option("file", options.files,
                     "signed root or targets files, and plugin libraries; libraries alone are "
                     "signed first, by --key");
  add_plugins(publish, options);
  add_keys(publish, options);

  auto& revoke =
      add(plugin, "revoke", "take plugins back: targets without them; their tasks stop everywhere",
          &catalogue_revoke);
  revoke.add_option("plugin", options.files, "its name, or its SHA-256")->required();
  revoke.add_option("--out,-o", options.out,
                    "write the targets for others to sign, instead of publishing them");
  revoke.add_option("--days", options.days, "until the targets expire (default: 90)");
  add_keys(revoke, options);
  add_where(revoke, options);

  auto& list =
      add(plugin, "list", "what is published, who signed it, when it expires", &catalogue_list);
  list.add_flag("--json", options.role.json, "print JSON");
  add_where(list, options);

  auto& verify = add(plugin, "verify",
                     "what signed files say, and whose signatures are missing; libraries are "
                     "compared with the targets",
                     &catalogue_verify);
  verify.add_option("file", options.files, "metadata files and plugin libraries")->required();
  add_where(verify, options);
}

}  // namespace goblin::cli
