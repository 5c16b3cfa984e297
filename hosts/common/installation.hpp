// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The files that belong to this program: goblin-runner, backends, plugins. Found relative to the
// program itself, so that an installation can be moved and a build tree runs as it is.
//
//   place                     runner                     backends           plugins
//   LIBDIR (override)         LIBDIR/goblin-runner       LIBDIR/backends    LIBDIR/plugins
//   installed, PREFIX/bin     PREFIX/libexec/goblin      PREFIX/lib*/goblin/backends, …/plugins
//   build tree, BUILD/bin     BUILD/bin                  BUILD/lib          BUILD/plugins/NAME
//
// A backend is libgoblin_backend_NAME.so, a plugin NAME.so. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "goblin/error.hpp"

namespace goblin::hosts {

class Installation {
 public:
  /// `libdir`: the configured directory; empty: the environment's GOBLIN_LIBDIR; else relative to
  /// /proc/self/exe. kNotFound when a named directory does not exist.
  static Result<Installation> locate(const std::string& libdir);
  /// As a program at `program` would see it, with no override.
  static Installation beside(const std::string& program);
  /// A LIBDIR of that layout.
  static Result<Installation> at(const std::string& libdir);

  /// Path of goblin-runner. kNotFound names every place where it was looked for.
  [[nodiscard]] Result<std::string> runner() const;
  /// Path of the backend's library; kNotFound lists the backends that are there.
  [[nodiscard]] Result<std::string> backend(std::string_view name) const;
  /// Names of the backends that are there, sorted.
  [[nodiscard]] std::vector<std::string> backends() const;
  /// Path of the plugin's library.
  [[nodiscard]] Result<std::string> plugin(std::string_view name) const;
  /// Path of the root file of the network that this installation belongs to: LIBDIR/root.signed, or
  /// PREFIX/share/gpugoblin/root.signed. kNotFound when it belongs to none.
  [[nodiscard]] Result<std::string> root_file() const;
  /// Paths of all plugins, sorted by name; one of an earlier place hides its namesakes.
  [[nodiscard]] std::vector<std::string> plugins() const;

 private:
  std::vector<std::string> runner_places_;
  std::vector<std::string> backend_places_;
  std::vector<std::string> plugin_places_;
  std::string root_file_;
};

}  // namespace goblin::hosts
