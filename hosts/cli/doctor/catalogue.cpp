// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Is the signed catalogue of plugins in order: what a coordinator publishes, what a lab node or a
// host has verified, and when each expires.
#include <filesystem>

#include "core/trust/disk_file.hpp"
#include "hosts/cli/doctor/check.hpp"
#include "hosts/link/clock.hpp"

namespace goblin::cli::doctor {
namespace {

constexpr std::uint64_t kSoonS = 30ULL * 86'400;
constexpr const char* kWhat = "signed catalogue";

std::uint64_t now_s() { return static_cast<std::uint64_t>(link::unix_ms()) / 1000; }

void check_expiry(const std::string& name, std::uint64_t expires_s, Findings& findings) {
  if (expires_s < now_s() + kSoonS) {
    findings.note(kWhat, name + " expires at " + trust::time_text(expires_s),
                  "have its holders sign the next one and publish it before");
  }
}

void check_published(const coordinator::PublisherSettings& settings, Findings& findings) {
  std::error_code error;
  trust::Repository repository(settings.directory);
  if (!std::filesystem::exists(settings.directory, error) || !repository.newest_root()) {
    findings.bad(kWhat, "no root is published in '" + settings.directory + "'",
                 "begin a network with `goblin plugin keys init`, or publish its first root");
    return;
  }
  const auto release = repository.release(0, now_s());
  if (!release) {
    findings.bad(kWhat, release.error().message,
                 "publish targets that the newest root's keys signed: `goblin plugin publish`");
    return;
  }
  coordinator::PluginFiles plugins(settings.directory + "/plugins");
  for (const auto& plugin : release->targets.plugins) {
    if (const auto good = plugins.check(plugin); !good) {
      findings.bad(kWhat, good.error().message, "publish the library again");
      return;
    }
  }
  const auto timestamp = repository.judged_timestamp();
  if (!timestamp || timestamp->expires_s <= now_s()) {
    findings.bad(kWhat,
                 timestamp ? "the timestamp expired at " + trust::time_text(timestamp->expires_s)
                           : timestamp.error().message,
                 "run the coordinator, which renews it with its own key; until then hosts begin no "
                 "tasks");
    return;
  }
  findings.good(kWhat, "targets version " + std::to_string(release->targets.version) + " with " +
                           std::to_string(release->targets.plugins.size()) +
                           " plugins; the timestamp expires at " +
                           trust::time_text(timestamp->expires_s));
  check_expiry("root version " + std::to_string(release->root.version), release->root.expires_s,
               findings);
  check_expiry("targets version " + std::to_string(release->targets.version),
               release->targets.expires_s, findings);
}

void check_verified(const link::CatalogueSettings& settings, Findings& findings) {
  const auto root =
      trust::read_file(settings.root_file, trust::max_file_bytes(trust::MetadataRole::kRoot),
                       trust::Readers::kAnybody);
  const auto own = root ? trust::read_own_root(*root) : fail(root.error());
  if (!own) {
    findings.bad(kWhat, "trust.root: " + own.error().message,
                 "ask the network's operator for its root file, and name it in trust.root");
    return;
  }
  const std::string name =
      "'" + settings.root_file + "' is root version " + std::to_string(own->root.version);
  std::error_code error;
  if (!std::filesystem::exists(settings.directory, error)) {
    findings.good(kWhat, name + "; nothing was verified with it yet");
    return;
  }
  const auto catalogue = link::Catalogue::open(settings);
  if (!catalogue && catalogue.error().code == Code::kUnavailable) {
    findings.good(kWhat, name + "; the daemon that runs says the rest (its status)");
    return;
  }
  if (!catalogue) {
    findings.bad(kWhat, catalogue.error().message,
                 "name the root file of this network, or give it another state directory");
    return;
  }
  if (!(*catalogue)->known()) {
    findings.good(kWhat, name + "; no catalogue has come yet");
    return;
  }
  if (const auto good = (*catalogue)->may_start(); !good) {
    findings.bad(kWhat, good.error().message,
                 "let it reach its coordinator; if it does, the network publishes nothing newer: "
                 "ask its operator");
    return;
  }
  findings.good(kWhat, name + "; " + std::to_string((*catalogue)->plugins().size()) +
                           " plugins are verified");
  for (const auto& [plugin, why] : (*catalogue)->refusals()) {
    findings.note(kWhat, "does not run " + plugin + ": " + why);
  }
}

}  // namespace

void check_catalogue(const Subject& subject, Findings& findings) {
  if (subject.publisher) {
    check_published(*subject.publisher, findings);
  }
  if (subject.catalogue) {
    check_verified(*subject.catalogue, findings);
  }
}

}  // namespace goblin::cli::doctor
