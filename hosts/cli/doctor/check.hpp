// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What `goblin doctor` looks at. A check is one small file with one function, listed in doctor.cpp;
// it changes nothing on this computer, and whatever it finds wrong it says what to do about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plugin/jail_probe.hpp"
#include "core/plugin/runner_client.hpp"
#include "hosts/cli/role.hpp"
#include "hosts/coordinator/publisher.hpp"
#include "hosts/link/read_config.hpp"

namespace goblin::cli::doctor {

enum class Verdict {
  kGood,
  kNote,  ///< works, but somebody should know
  kBad,   ///< must be mended: exit status 1
};

struct Finding {
  Verdict verdict = Verdict::kGood;
  std::string what;    ///< "state directory", "layer landlock"
  std::string text;    ///< what was found
  std::string remedy;  ///< what to do; never empty for kBad
};

class Findings {
 public:
  explicit Findings(std::string role) : role_(std::move(role)) {}
  void good(std::string what, std::string text) {
    all_.push_back({Verdict::kGood, std::move(what), std::move(text), {}});
  }
  void note(std::string what, std::string text, std::string remedy = {}) {
    all_.push_back({Verdict::kNote, std::move(what), std::move(text), std::move(remedy)});
  }
  void bad(std::string what, std::string text, std::string remedy) {
    all_.push_back({Verdict::kBad, std::move(what), std::move(text), std::move(remedy)});
  }
  [[nodiscard]] const std::string& role() const { return role_; }
  [[nodiscard]] const std::vector<Finding>& all() const { return all_; }

 private:
  std::string role_;
  std::vector<Finding> all_;
};

/// What is examined: one role's installation on this computer, or, with `role` "machine", what
/// every role has in common. Settings that cannot be read are left empty.
struct Subject {
  std::string role;
  RoleOptions options;
  std::string source;     ///< where settings come from, in words
  Result<void> settings;  ///< what is wrong with them
  std::string state_dir;
  std::string socket;
  std::string listen_address;     ///< empty: it does not listen
  std::uint16_t listen_port = 0;  ///< 0: any
  std::uint64_t connections = 0;  ///< descriptors it may need for peers
  std::optional<link::Endpoint> coordinator;
  std::optional<plugin::RunnerOptions> runner;
  std::optional<coordinator::PublisherSettings> publisher;  ///< of a coordinator
  std::optional<link::CatalogueSettings> catalogue;         ///< of a lab node or a host
  std::uint64_t memory_bytes = 0;                           ///< what it may use; 0: no cap
  std::uint64_t disk_bytes = 0;                             ///< what its caches may grow to
};

using Check = void (*)(const Subject& subject, Findings& findings);

// One file each.
void check_installation(const Subject& subject, Findings& findings);
void check_jail(const Subject& subject, Findings& findings);
void check_settings(const Subject& subject, Findings& findings);
void check_state(const Subject& subject, Findings& findings);
void check_limits(const Subject& subject, Findings& findings);
void check_daemon(const Subject& subject, Findings& findings);
void check_coordinator(const Subject& subject, Findings& findings);
void check_catalogue(const Subject& subject, Findings& findings);

}  // namespace goblin::cli::doctor
