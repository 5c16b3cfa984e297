// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/installation.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

namespace goblin::hosts {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRunner = "goblin-runner";
constexpr std::string_view kBackendPrefix = "libgoblin_backend_";
constexpr std::string_view kSuffix = ".so";

/// "NAME" of "prefixNAME.so"; empty for other files.
std::string name_of(const std::string& file, std::string_view prefix) {
  if (!file.starts_with(prefix) || !file.ends_with(kSuffix) ||
      file.size() <= prefix.size() + kSuffix.size()) {
    return {};
  }
  return file.substr(prefix.size(), file.size() - prefix.size() - kSuffix.size());
}

/// Name to path of the libraries in the places.
std::map<std::string, std::string> scan(const std::vector<std::string>& places,
                                        std::string_view prefix) {
  std::map<std::string, std::string> found;
  for (const std::string& place : places) {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(place, missing)) {
      const std::string name = name_of(entry.path().filename().string(), prefix);
      std::error_code ignored;
      if (!name.empty() && entry.is_regular_file(ignored)) {
        found.emplace(name, entry.path().string());
      }
    }
  }
  return found;
}

std::string join(const std::vector<std::string>& items, const char* none) {
  std::string text;
  for (const std::string& item : items) {
    text += (text.empty() ? "" : ", ") + item;
  }
  return text.empty() ? none : text;
}

std::vector<std::string> keys(const std::map<std::string, std::string>& map) {
  std::vector<std::string> names;
  for (const auto& [name, path] : map) {
    names.push_back(name);
  }
  return names;
}

Result<std::string> pick(const std::vector<std::string>& places, std::string_view prefix,
                         std::string_view what, std::string_view name) {
  const auto found = scan(places, prefix);
  if (const auto at = found.find(std::string(name)); at != found.end()) {
    return at->second;
  }
  return fail(Code::kNotFound, std::string(what) + " '" + std::string(name) +
                                   "' is not installed; there are: " + join(keys(found), "none") +
                                   " (looked in " + join(places, "no directory") +
                                   "); install it, or set GOBLIN_LIBDIR");
}

}  // namespace

Result<Installation> Installation::locate(const std::string& libdir) {
  const char* variable = std::getenv("GOBLIN_LIBDIR");
  if (!libdir.empty() || (variable != nullptr && *variable != '\0')) {
    return at(libdir.empty() ? variable : libdir);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    return fail(Code::kNotFound,
                "cannot tell where this program is: " + error.message() + "; set GOBLIN_LIBDIR");
  }
  return beside(program.string());
}

Result<Installation> Installation::at(const std::string& libdir) {
  std::error_code error;
  if (!fs::is_directory(libdir, error)) {
    return fail(Code::kNotFound, "the library directory '" + libdir +
                                     "' does not exist; correct the configuration's libdir or the "
                                     "environment's GOBLIN_LIBDIR");
  }
  Installation result;
  result.runner_places_ = {libdir};
  result.backend_places_ = {libdir + "/backends"};
  result.plugin_places_ = {libdir + "/plugins"};
  result.root_file_ = libdir + "/root.signed";
  return result;
}

Installation Installation::beside(const std::string& program) {
  const fs::path bin = fs::path(program).parent_path();
  const fs::path prefix = bin.parent_path();
  Installation result;
  result.runner_places_ = {bin.string(), (prefix / "libexec/goblin").string()};
  result.root_file_ = (prefix / "share/gpugoblin/root.signed").string();
  std::vector<fs::path> libraries = {prefix / "lib", prefix / "lib64"};
  // Debian's lib/x86_64-linux-gnu and the like.
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", missing)) {
    if (entry.path().filename().string().ends_with("-linux-gnu")) {
      libraries.push_back(entry.path());
    }
  }
  for (const fs::path& library : libraries) {
    result.backend_places_.push_back((library / "goblin/backends").string());
    result.plugin_places_.push_back((library / "goblin/plugins").string());
  }
  // A build tree, told by its cache file: an installation's lib/ holds other people's libraries.
  if (fs::exists(prefix / "CMakeCache.txt", missing)) {
    result.backend_places_.push_back((prefix / "lib").string());
    result.plugin_places_.push_back((prefix / "plugins").string());
    for (const auto& entry : fs::directory_iterator(prefix / "plugins", missing)) {
      std::error_code ignored;
      if (entry.is_directory(ignored)) {
        result.plugin_places_.push_back(entry.path().string());
      }
    }
  }
  return result;
}

Result<std::string> Installation::root_file() const {
  if (::access(root_file_.c_str(), R_OK) == 0) {
    return root_file_;
  }
  return fail(Code::kNotFound, "there is no '" + root_file_ + "'");
}

Result<std::string> Installation::runner() const {
  for (const std::string& place : runner_places_) {
    std::string path = place + "/" + std::string(kRunner);
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return fail(Code::kNotFound, std::string(kRunner) + " is not installed (looked in " +
                                   join(runner_places_, "no directory") +
                                   "); install it, or set GOBLIN_LIBDIR");
}

Result<std::string> Installation::backend(std::string_view name) const {
  return pick(backend_places_, kBackendPrefix, "backend", name);
}

std::vector<std::string> Installation::backends() const {
  return keys(scan(backend_places_, kBackendPrefix));
}

Result<std::string> Installation::plugin(std::string_view name) const {
  return pick(plugin_places_, "", "plugin", name);
}

std::vector<std::string> Installation::plugins() const {
  std::vector<std::string> paths;
  for (const auto& [name, path] : scan(plugin_places_, "")) {
    paths.push_back(path);
  }
  return paths;
}

}  // namespace goblin::hosts
