// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/plugin_shelf_commands.hpp"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <optional>

#include "hosts/cli/ask.hpp"
#include "hosts/cli/print.hpp"
#include "hosts/coordinator/coordinator.hpp"
#include "hosts/coordinator/plugin_shelf.hpp"
#include "hosts/link/read_config.hpp"

namespace goblin::cli {
namespace {

namespace fs = std::filesystem;
using coordinator::PluginListing;
using coordinator::PluginShelf;

constexpr std::size_t kShownDigits = 16;
constexpr std::size_t kLeastDigits = 6;

/// A coordinator's plugins as it tells them, or as it would when it started now.
struct Shelf {
  std::optional<std::string> socket;  ///< of the running one
  PluginListing listing;
};

Result<PluginListing> tell(const std::string& socket, const std::string& command) {
  wire::Control control;
  control.command = command;
  GOBLIN_TRY(const wire::ReplyBody reply,
             ask(socket, wire::Role::kCoordinator, std::move(control)));
  const auto* told = std::get_if<wire::StatusReport>(&reply);
  return coordinator::listing_from(told == nullptr ? wire::StatusReport{} : *told);
}

Result<Shelf> find_shelf(const RoleOptions& options) {
  Shelf shelf;
  GOBLIN_TRY(const std::string socket, socket_of("coordinator", options));
  auto told = tell(socket, "plugins");
  if (told) {
    shelf.socket = socket;
    shelf.listing = *std::move(told);
    return shelf;
  }
  if (told.error().code != Code::kUnavailable) {
    return fail(std::move(told).error());
  }
  GOBLIN_TRY(hosts::ConfigReader reader, open_config("coordinator", options));
  const bool named = reader.has("state-dir");
  GOBLIN_TRY(const coordinator::CoordinatorConfig config, coordinator::read_config(reader));
  if (!named && !fs::exists(config.state_dir)) {
    return fail(Code::kNotFound, "there is no coordinator here: none answers at '" + socket +
                                     "', and '" + config.state_dir +
                                     "' does not exist; name its --state-dir (or --socket)");
  }
  const std::string added = config.state_dir + "/plugins";
  std::vector<std::string> directories = config.plugin_dirs;
  if (fs::exists(added)) {
    directories.push_back(added);
  }
  GOBLIN_TRY(const PluginShelf there, PluginShelf::open(directories, config.plugins));
  shelf.listing = there.listing(added);
  return shelf;
}

/// Why a plugin of the listing is not offered; nothing if it is.
std::optional<std::string> why_left_out(const PluginListing& listing, const wire::Digest& plugin) {
  if (listing.find(plugin) != nullptr) {
    return std::nullopt;
  }
  for (const auto& one : listing.left_out) {
    if (fs::path(one.path).stem() == plugin.hex()) {
      return one.why;
    }
  }
  return "it is not among those that it has read";
}

void print_left_out(std::ostream& out, const PluginListing& listing) {
  for (const auto& one : listing.left_out) {
    out << "left out: " << one.path << "\n  " << one.why << "\n";
  }
}

void print_text(std::ostream& out, const PluginListing& listing) {
  std::size_t width = 0;
  for (const auto& one : listing.offered) {
    width = std::max(width, coordinator::kinds_text(one.kinds).size());
  }
  for (const auto& one : listing.offered) {
    out << std::left << std::setw(static_cast<int>(width) + 2) << coordinator::kinds_text(one.kinds)
        << one.plugin.hex().substr(0, kShownDigits) << "  "
        << (listing.is_added(one.path) ? "added      " : "installed  ") << one.path << "\n";
  }
  if (listing.offered.empty()) {
    out << "none\n";
  }
  print_left_out(out, listing);
}

void print_json(std::ostream& out, const Shelf& shelf) {
  out << "{\"running\": " << (shelf.socket ? "true" : "false") << ", \"offered\": [";
  const char* comma = "";
  for (const auto& one : shelf.listing.offered) {
    out << comma << "{\"plugin\": " << json_text(one.plugin.hex()) << ", \"kinds\": [";
    comma = "";
    for (const auto& kind : one.kinds) {
      out << comma << json_text(kind.text());
      comma = ", ";
    }
    out << "], \"added\": " << (shelf.listing.is_added(one.path) ? "true" : "false")
        << ", \"path\": " << json_text(one.path) << "}";
    comma = ", ";
  }
  out << "], \"left out\": [";
  comma = "";
  for (const auto& one : shelf.listing.left_out) {
    out << comma << "{\"path\": " << json_text(one.path) << ", \"why\": " << json_text(one.why)
        << "}";
    comma = ", ";
  }
  out << "]}\n";
}

Result<void> add(const std::string& file, const RoleOptions& options) {
  GOBLIN_TRY(const Shelf shelf, find_shelf(options));
  const std::string& directory = shelf.listing.added;
  GOBLIN_TRY_VOID(link::make_state_dir(fs::path(directory).parent_path().string()));
  GOBLIN_TRY(const PluginShelf::Added added, PluginShelf::add(directory, file, shelf.listing));
  if (shelf.socket) {
    GOBLIN_TRY(const PluginListing now, tell(*shelf.socket, "reload"));
    if (const auto why = why_left_out(now, added.plugin)) {
      std::error_code ignored;
      fs::remove(fs::path(directory) / (added.plugin.hex() + ".so"), ignored);
      return fail(Code::kUnavailable, "the running coordinator leaves it out: " + *why);
    }
  }
  std::cout << "added " << added.plugin.hex() << " (" << coordinator::kinds_text(added.kinds)
            << ") to " << directory << "\n";
  for (const auto& old : added.replaced) {
    std::cout << "it replaces " << old.hex() << "\n";
  }
  std::cout << (shelf.socket
                    ? "the running coordinator offers it now; lab nodes hear of it within 30 s\n"
                    : "no coordinator runs there; it will be offered when one does\n");
  return {};
}

struct Found {
  std::string path;
  std::string name;  ///< for people
};

/// Whatever `what` names, added or not.
std::vector<Found> find_plugins(const PluginListing& listing, const std::string& what) {
  std::vector<Found> found;
  const auto kind = plugin::KindId::parse(what);
  const bool digits = what.size() >= kLeastDigits;
  for (const auto& one : listing.offered) {
    const bool holds =
        kind && std::find(one.kinds.begin(), one.kinds.end(), *kind) != one.kinds.end();
    if (holds || (digits && one.plugin.hex().starts_with(what))) {
      found.push_back(
          {one.path, one.plugin.hex() + " (" + coordinator::kinds_text(one.kinds) + ")"});
    }
  }
  for (const auto& one : listing.left_out) {
    const std::string stem = fs::path(one.path).stem().string();
    if (digits && listing.is_added(one.path) && stem.starts_with(what)) {
      found.push_back({one.path, stem});
    }
  }
  return found;
}

Result<void> remove(const std::string& what, const RoleOptions& options) {
  GOBLIN_TRY(const Shelf shelf, find_shelf(options));
  const auto found = find_plugins(shelf.listing, what);
  if (found.empty()) {
    return fail(Code::kNotFound, "no plugin is called '" + what +
                                     "': name its kind, such as my-kind/1, or the first digits " +
                                     "(at least " + std::to_string(kLeastDigits) +
                                     ") of its SHA-256; `goblin plugin list` shows them");
  }
  if (found.size() > 1) {
    return fail(Code::kInvalidArgument, "'" + what + "' may be " + found[0].name + " or " +
                                            found[1].name + ": give more digits");
  }
  if (!shelf.listing.is_added(found[0].path)) {
    return fail(Code::kInvalidArgument,
                found[0].name + " was not added by `goblin plugin add`: '" + found[0].path +
                    "' is installed or named in the settings; change plugins.files or "
                    "plugins.dirs there, or set plugins.installed = false");
  }
  std::error_code error;
  fs::remove(found[0].path, error);
  if (error) {
    return fail(Code::kUnavailable,
                "'" + found[0].path + "' cannot be removed: " + error.message());
  }
  if (shelf.socket) {
    GOBLIN_TRY_VOID(tell(*shelf.socket, "reload"));
  }
  std::cout << "removed " << found[0].name << "\n";
  return {};
}

Result<void> list(const RoleOptions& options) {
  GOBLIN_TRY(const Shelf shelf, find_shelf(options));
  if (options.json) {
    print_json(std::cout, shelf);
    return {};
  }
  if (!shelf.socket) {
    std::cerr << "no coordinator runs there; one that starts would offer:\n";
  }
  print_text(std::cout, shelf.listing);
  return {};
}

Result<void> reload(const RoleOptions& options) {
  GOBLIN_TRY(const std::string socket, socket_of("coordinator", options));
  auto now = tell(socket, "reload");
  if (!now) {
    return fail(unanswered("coordinator", socket, std::move(now).error()));
  }
  print_text(std::cout, *now);
  return {};
}

}  // namespace

int plugin_add(const std::string& file, const RoleOptions& options) {
  return report(add(file, options));
}
int plugin_list(const RoleOptions& options) { return report(list(options)); }
int plugin_remove(const std::string& what, const RoleOptions& options) {
  return report(remove(what, options));
}
int reload_plugins(const RoleOptions& options) { return report(reload(options)); }

}  // namespace goblin::cli
