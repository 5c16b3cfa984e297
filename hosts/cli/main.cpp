// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin: runs the daemons and asks them.
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <new>
#include <set>

#include "core/net/channel.hpp"
#include "hosts/cli/ask.hpp"
#include "hosts/cli/catalogue_commands.hpp"
#include "hosts/cli/doctor/doctor.hpp"
#include "hosts/cli/plugin_check.hpp"
#include "hosts/cli/print.hpp"
#include "hosts/cli/role.hpp"
#include "hosts/coordinator/coordinator.hpp"
#include "hosts/lab/node.hpp"
#include "hosts/link/listener_limits.hpp"
#include "hosts/link/read_config.hpp"
#include "hosts/volunteer/host.hpp"

#ifndef GOBLIN_RELEASE
#error "GOBLIN_RELEASE is set by CMake"
#endif

namespace goblin::cli {
namespace {

/// Pieces of blobs come and go by the thousand, 256 KiB each. By default each would be mapped, or
/// cut off the heap's end, and given back at once: its pages zeroed anew, every time.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}

/// Nothing that is half done is worth more than a clean end: what was acknowledged is on disk, and
/// a daemon that is started again goes on, as after `kill -9`.
[[noreturn]] void end_without_memory() {
  constexpr std::string_view kText =
      "goblin: out of memory: this process ends at once, as if it were killed; jobs go on when it "
      "is "
      "started again. Give it more memory, or lower its limits (docs/configuration.md)\n";
  [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, kText.data(), kText.size());
  std::_Exit(1);
}

template <typename Config>
int run_daemon(const std::string& role, const RoleOptions& options,
               Result<Config> (*read)(hosts::ConfigReader&), Result<void> (*run)(const Config&)) {
  auto reader = open_config(role, options);
  if (!reader) {
    return report(reader.error());
  }
  auto config = read(*reader);
  if (!config) {
    return report(config.error());
  }
  config->ready_fd = options.ready_fd;
  keep_freed_memory();
  link::raise_descriptor_limit();
  return report(run(*config));
}

template <typename Config>
int check_config(const std::string& role, const RoleOptions& options,
                 Result<Config> (*read)(hosts::ConfigReader&)) {
  auto reader = open_config(role, options);
  if (!reader) {
    return report(reader.error());
  }
  const auto config = read(*reader);
  std::cout << "# " << config_file(role, options).source << "\n";
  for (const auto& [key, effective] : reader->effective()) {
    std::cout << key << " = " << effective.value << "   # " << effective.origin << "\n";
  }
  return config ? 0 : report(config.error());
}

int ask_daemon(const std::string& role, const RoleOptions& options, wire::RequestBody body) {
  const auto socket = socket_of(role, options);
  if (!socket) {
    return report(socket.error());
  }
  auto reply = ask(*socket, role_of(role), std::move(body));
  if (!reply) {
    return report(unanswered(role, *socket, std::move(reply).error()));
  }
  print(std::cout, *reply, options.json);
  return 0;
}

/// A key is made only when it is asked for: a mistyped directory would get one, too.
int show_pin(const std::string& directory, bool create) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!create && !fs::exists(directory + "/identity/identity.key", error)) {
    return report(Error{
        Code::kNotFound,
        "'" + directory + "' holds no key (there is no identity/identity.key): name the " +
            (fs::exists(directory + "/identity.key", error) ? "directory above it, the " : "") +
            "state directory of a daemon, or make a key with --create"});
  }
  if (auto made = link::make_state_dir(directory); !made) {
    return report(made.error());
  }
  auto identity = net::Identity::load_or_create(directory + "/identity");
  if (!identity) {
    return report(identity.error());
  }
  std::cout << (*identity)->pin().hex() << "\n";
  return 0;
}

struct App {
  CLI::App app{"GPU Goblin: a volunteer computing network for science", "goblin"};
  RoleOptions options;
  std::uint64_t job = 0;
  std::string file;
  std::string doctor_role;
  bool create = false;
  PluginCheckOptions plugin_check;
  CatalogueOptions catalogue;
  std::function<int()> action;

  void leaf(CLI::App& parent, const std::string& name, const std::string& doc,
            std::function<int()> run, bool json = false) {
    auto* command = parent.add_subcommand(name, doc);
    add_role_options(*command, options);
    if (json) {
      command->add_flag("--json", options.json, "print JSON");
    }
    command->callback([this, run = std::move(run)] { action = run; });
  }
  void job_leaf(CLI::App& parent, const std::string& name, const std::string& doc,
                std::function<int()> run) {
    leaf(parent, name, doc, std::move(run), true);
    parent.get_subcommand(name)->add_option("job", job, "number of the job")->required();
  }
  void control_leaf(CLI::App& parent, const std::string& role, const std::string& name,
                    const std::string& doc) {
    leaf(parent, name, doc, [this, role, name] {
      wire::Control control;
      control.command = name;
      return ask_daemon(role, options, std::move(control));
    });
  }
  template <typename Config>
  CLI::App& daemon(const std::string& role, const std::string& doc,
                   Result<Config> (*read)(hosts::ConfigReader&),
                   Result<void> (*run)(const Config&)) {
    auto& parent = *app.add_subcommand(role, doc);
    parent.require_subcommand(1);
    leaf(parent, "run", "run the daemon in the foreground",
         [this, role, read, run] { return run_daemon(role, options, read, run); });
    parent.get_subcommand("run")->add_option("--ready-fd", options.ready_fd,
                                             "descriptor that is told port and pin once it is up");
    leaf(parent, "config-check", "show every setting, where it comes from, and what is wrong",
         [this, role, read] { return check_config(role, options, read); });
    leaf(
        parent, "status", "ask the running daemon how it is",
        [this, role] { return ask_daemon(role, options, wire::GetStatus{}); }, true);
    control_leaf(parent, role, "stop", "end the running daemon in order");
    return parent;
  }

  void build() {
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string("goblin ") + GOBLIN_RELEASE);
    auto& coordinator = daemon<coordinator::CoordinatorConfig>(
        "coordinator", "registers hosts and lab nodes, offers the catalogue of plugins",
        &coordinator::read_config, &coordinator::run_coordinator);
    leaf(coordinator, "reload", "read what is published again", [this] {
      wire::Control control;
      control.command = "reload";
      return ask_daemon("coordinator", options, std::move(control));
    });

    auto& lab = daemon<lab::LabConfig>("lab", "holds a lab's data and runs its jobs",
                                       &lab::read_config, &lab::run_lab);
    leaf(
        lab, "jobs", "list jobs", [this] { return ask_daemon("lab", options, wire::GetJobs{}); },
        true);
    leaf(
        lab, "hosts", "list the hosts that serve this lab node",
        [this] { return ask_daemon("lab", options, wire::GetHosts{}); }, true);
    leaf(
        lab, "kinds", "list the kinds of computation",
        [this] { return ask_daemon("lab", options, wire::GetKinds{}); }, true);
    job_leaf(lab, "explain", "who computed a job, how it was checked, what was refused",
             [this] { return ask_daemon("lab", options, wire::ExplainJob{job}); });
    job_leaf(lab, "cancel", "cancel a job",
             [this] { return ask_daemon("lab", options, wire::CancelJob{job}); });
    job_leaf(lab, "forget", "remove an ended job and its files",
             [this] { return ask_daemon("lab", options, wire::ForgetJob{job}); });

    auto& host = daemon<volunteer::HostConfig>("host", "lends this computer",
                                               &volunteer::read_config, &volunteer::run_host);
    control_leaf(host, "host", "pause", "stop computing until resume; survives a restart");
    control_leaf(host, "host", "resume", "go on computing");
    control_leaf(host, "host", "finish", "complete what is here, then end");

    auto& plugin =
        *app.add_subcommand("plugin", "sign plugins, publish them, take them back, try them");
    plugin.require_subcommand(1);
    add_catalogue_commands(plugin, catalogue, action);

    auto& check = *plugin.add_subcommand(
        "check", "try a plugin's kinds with honest jobs and hostile input, each test in a runner");
    check.add_option("file", plugin_check.file, "the library");
    check.add_option(
        "--job", plugin_check.jobs,
        "a small job such as \"matmul/1 a=f32[30,20] b=f32[20,10]\" (may be given more "
        "than once); by default one is guessed for each kind");
    check.add_option("--test", plugin_check.tests, "only this test (may be given more than once)");
    check.add_option("--backend", plugin_check.backend,
                     "backend that computes; its bits are compared with reference");
    check.add_option("--seed", plugin_check.seed, "repeats the run that printed it");
    check.add_flag("--list", plugin_check.list, "name the tests");
    check.callback([this] {
      if (plugin_check.file.empty() && !plugin_check.list) {
        throw CLI::RequiredError("file");
      }
      action = [this] { return check_plugin(plugin_check); };
    });

    leaf(
        app, "doctor", "is this installation sound? Shows each layer of the jail, and what to do",
        [this] { return run_doctor(doctor_role, options); }, true);
    app.get_subcommand("doctor")
        ->add_option("role", doctor_role,
                     "coordinator, lab or host; without one, those that are set up here")
        ->check(CLI::IsMember({"coordinator", "lab", "host"}));

    auto* pin = app.add_subcommand("pin", "show the pin of a state directory's key");
    pin->add_option("directory", file, "the daemon's state directory")->required();
    pin->add_flag("--create", create, "make the directory and the key if they are not there");
    pin->callback([this] { action = [this] { return show_pin(file, create); }; });
  }
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Tells what commands there are when one is missing or unknown; false when that was no mistake.
bool explain_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  int next = 1;
  for (; next < argc; ++next) {
    const auto inner = commands_of(*at);
    const auto named = std::find_if(inner.begin(), inner.end(), [&](const CLI::App* command) {
      return command->get_name() == argv[next];
    });
    if (named == inner.end()) {
      break;
    }
    at = *named;
    path += " " + at->get_name();
  }
  const auto commands = commands_of(*at);
  if (commands.empty() || (next < argc && argv[next][0] == '-')) {
    return false;
  }
  std::set<std::string> names;
  std::size_t width = 0;
  for (const auto* command : commands) {
    names.insert(command->get_name());
    width = std::max(width, command->get_name().size());
  }
  if (next < argc) {
    const auto meant = hosts::nearest(argv[next], names);
    std::cerr << "goblin: `" << path << "` has no command '" << argv[next] << "'"
              << (meant ? "; did you mean '" + *meant + "'?" : "") << "\n";
  } else {
    std::cerr << "goblin: say what to do: `" << path << " COMMAND`\n";
  }
  for (const auto* command : commands) {
    std::cerr << "  " << std::left << std::setw(static_cast<int>(width) + 2) << command->get_name()
              << command->get_description() << "\n";
  }
  std::cerr << "`" << path << " COMMAND --help` says more\n";
  return true;
}

}  // namespace
}  // namespace goblin::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(goblin::cli::end_without_memory);
  goblin::cli::App app;
  app.build();
  try {
    app.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a number for each mistake, here there is one; help and version come here, too.
    if (error.get_exit_code() != 0 && goblin::cli::explain_command(app.app, argc, argv)) {
      return 2;
    }
    return app.app.exit(error) == 0 ? 0 : 2;
  }
  return app.action();
}
