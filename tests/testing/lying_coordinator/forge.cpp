// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lying_coordinator/forge.hpp"

#include "core/trust/disk_file.hpp"
#include "core/trust/key_files.hpp"
#include "core/trust/publish.hpp"
#include "hosts/link/clock.hpp"

namespace goblin::testing {
namespace {

constexpr std::uint64_t kLongest = 64u << 20;

Result<wire::Bytes> targets_of(const std::map<std::string, std::string>& options) {
  GOBLIN_TRY(const wire::Bytes library,
             trust::read_file(options.at("library"), kLongest, trust::Readers::kAnybody));
  const std::string& abi = options.at("abi");
  trust::PluginFacts facts;
  facts.name = options.at("name");
  facts.abi_major = static_cast<std::uint32_t>(std::stoul(abi));
  facts.abi_minor = static_cast<std::uint32_t>(std::stoul(abi.substr(abi.find('.') + 1)));
  facts.kinds.push_back({options.at("kind"), 1});
  if (const auto backend = options.find("backend"); backend != options.end()) {
    facts.backends = {backend->second};
  }
  if (const auto release = options.find("release"); release != options.end()) {
    facts.min_release = static_cast<std::uint32_t>(std::stoul(release->second));
  }
  wire::TrustTargets targets;
  targets.version = std::stoull(options.at("version"));
  targets.issued_s = static_cast<std::uint64_t>(link::unix_ms()) / 1000;
  targets.expires_s = targets.issued_s + 86'400;
  GOBLIN_TRY_VOID(trust::add_plugin(targets, trust::plugin_entry(facts, library)));
  return trust::make_targets_file(targets);
}

Result<wire::Bytes> timestamp_of(const std::map<std::string, std::string>& options) {
  GOBLIN_TRY(const wire::Bytes targets,
             trust::read_file(options.at("targets"), kLongest, trust::Readers::kAnybody));
  return trust::make_timestamp_file(std::stoull(options.at("version")),
                                    std::stoull(options.at("issued")),
                                    std::stoull(options.at("expires")), targets);
}

}  // namespace

Result<void> forge(const std::string& what, const std::map<std::string, std::string>& options) {
  GOBLIN_TRY(const wire::Bytes root_file,
             trust::read_file(options.at("root"), kLongest, trust::Readers::kAnybody));
  GOBLIN_TRY(const trust::OwnRoot root, trust::read_own_root(root_file));
  GOBLIN_TRY(const trust::SecretKey key, trust::read_secret_key(options.at("key"), ""));
  GOBLIN_TRY(const wire::Bytes bare,
             what == "targets" ? targets_of(options) : timestamp_of(options));
  GOBLIN_TRY(const wire::Bytes file, trust::sign(bare, key, &root.root));
  return trust::write_file(options.at("out"), file, 0644, trust::Existing::kReplace);
}

}  // namespace goblin::testing
