// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/doctor/doctor.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "hosts/cli/doctor/check.hpp"
#include "hosts/cli/doctor/subject.hpp"
#include "hosts/cli/print.hpp"
#include "hosts/common/paths.hpp"

namespace goblin::cli {
namespace {

using namespace doctor;

constexpr std::array<const char*, 3> kRoles{"coordinator", "lab", "host"};

/// A further check is a line here.
constexpr std::array<Check, 8> kChecks{check_installation, check_jail,     check_settings,
                                       check_state,        check_limits,   check_daemon,
                                       check_coordinator,  check_catalogue};

/// Has somebody set this role up here?
bool is_used(const std::string& role, const RoleOptions& options) {
  if (!config_file(role, options).path.empty()) {
    return true;
  }
  const auto state = hosts::default_state_directory(role, hosts::Environment::process());
  std::error_code error;
  return state && std::filesystem::exists(*state, error);
}

const char* word(Verdict verdict) {
  return verdict == Verdict::kGood ? "ok" : verdict == Verdict::kNote ? "note" : "FAILED";
}

void print_text(const Findings& findings) {
  std::cout << findings.role() << "\n";
  std::size_t width = 0;
  for (const Finding& finding : findings.all()) {
    width = std::max(width, finding.what.size());
  }
  for (const Finding& finding : findings.all()) {
    std::cout << "  " << std::left << std::setw(8) << word(finding.verdict)
              << std::setw(static_cast<int>(width) + 2) << finding.what << finding.text << "\n";
    if (!finding.remedy.empty()) {
      std::cout << std::string(10, ' ') << "to do: " << finding.remedy << "\n";
    }
  }
}

void print_json(const std::vector<Findings>& all) {
  std::cout << "[";
  bool first = true;
  for (const Findings& findings : all) {
    for (const Finding& finding : findings.all()) {
      std::cout << (first ? "\n" : ",\n") << "{\"role\": " << json_text(findings.role())
                << ", \"check\": " << json_text(finding.what)
                << ", \"verdict\": " << json_text(word(finding.verdict))
                << ", \"found\": " << json_text(finding.text)
                << ", \"to_do\": " << json_text(finding.remedy) << "}";
      first = false;
    }
  }
  std::cout << "\n]\n";
}

bool is_bad(const Findings& findings) {
  return std::any_of(findings.all().begin(), findings.all().end(),
                     [](const Finding& finding) { return finding.verdict == Verdict::kBad; });
}

}  // namespace

int run_doctor(const std::string& role, const RoleOptions& options) {
  std::vector<std::string> roles;
  for (const char* one : kRoles) {
    if (role.empty() ? is_used(one, options) : role == one) {
      roles.emplace_back(one);
    }
  }
  if (roles.empty()) {
    roles.emplace_back(kMachine);
  }
  std::vector<Findings> all;
  for (const std::string& one : roles) {
    const Subject subject = examine(one, options);
    Findings findings(one);
    for (const Check check : kChecks) {
      check(subject, findings);
    }
    all.push_back(std::move(findings));
  }
  const bool bad = std::any_of(all.begin(), all.end(), is_bad);
  if (options.json) {
    print_json(all);
    return bad ? 1 : 0;
  }
  for (const Findings& findings : all) {
    print_text(findings);
  }
  if (roles.front() == kMachine) {
    std::cout << "no coordinator, lab node or host is set up here: `goblin doctor ROLE` examines "
                 "one\n";
  }
  std::cout << (bad ? "something must be mended\n" : "all is well\n");
  return bad ? 1 : 0;
}

}  // namespace goblin::cli
