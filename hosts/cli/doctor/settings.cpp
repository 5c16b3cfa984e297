// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/doctor/check.hpp"
#include "hosts/cli/doctor/subject.hpp"

namespace goblin::cli::doctor {

void check_settings(const Subject& subject, Findings& findings) {
  if (subject.role == kMachine) {
    return;
  }
  if (subject.settings) {
    findings.good("settings", subject.source);
  } else {
    findings.bad("settings", subject.settings.error().message,
                 "correct them: `goblin " + subject.role + " config-check` shows each");
  }
}

}  // namespace goblin::cli::doctor
