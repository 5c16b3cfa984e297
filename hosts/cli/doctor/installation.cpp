// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Programs, backends and plugins of this installation.
#include "hosts/common/installation.hpp"

#include "hosts/cli/doctor/check.hpp"

namespace goblin::cli::doctor {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

void check_installation(const Subject& subject, Findings& findings) {
  const auto installation = hosts::Installation::locate("");
  if (!installation) {
    findings.bad("installation", installation.error().message,
                 "set GOBLIN_LIBDIR, or install anew");
    return;
  }
  if (const auto runner = installation->runner()) {
    findings.good("goblin-runner", *runner);
  } else {
    findings.bad("goblin-runner", runner.error().message,
                 "install goblin-runner of this version, or set GOBLIN_LIBDIR");
  }
  const auto backends = installation->backends();
  if (backends.empty()) {
    findings.bad("backends", "there is none", "install the backends of this version");
  } else {
    findings.good("backends", join(backends));
  }
  const std::size_t plugins = installation->plugins().size();
  if (plugins == 0 && subject.role == "coordinator") {
    findings.note("plugins", "none is installed",
                  "install the plugins of this version, or add some with `goblin plugin add`");
  } else if (subject.role == "coordinator") {
    findings.good("plugins", std::to_string(plugins) + " are installed");
  }
}

}  // namespace goblin::cli::doctor
