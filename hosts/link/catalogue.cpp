// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/catalogue.hpp"

#include <algorithm>

#include "core/trust/disk_file.hpp"
#include "goblin/abi/plugin.h"
#include "hosts/link/clock.hpp"

namespace goblin::link {

Catalogue::Catalogue(const CatalogueSettings& settings, std::shared_ptr<trust::Verifier> verifier)
    : settings_(settings), verifier_(std::move(verifier)), verified_(verifier_->verified()) {
  if (!settings_.now_s) {
    settings_.now_s = [] { return static_cast<std::uint64_t>(unix_ms()) / 1000; };
  }
}

Result<std::unique_ptr<Catalogue>> Catalogue::open(const CatalogueSettings& settings) {
  trust::VerifierSettings verifier;
  verifier.directory = settings.directory;
  auto root =
      trust::read_file(settings.root_file, trust::max_file_bytes(trust::MetadataRole::kRoot),
                       trust::Readers::kAnybody);
  if (!root) {
    return fail(root.error().code, "trust.root: " + root.error().message +
                                       "; name the root file that the network's operator gave you");
  }
  verifier.root = std::move(*root);
  auto opened = trust::Verifier::open(verifier);
  if (!opened) {
    return fail(opened.error().with_context("trust.root = '" + settings.root_file + "'"));
  }
  return std::unique_ptr<Catalogue>(new Catalogue(settings, std::move(*opened)));
}

net::Task<Result<void>> Catalogue::update(net::Loop& loop, MetadataSource& source) {
  // Shared, so that a worker owns what it uses.
  const auto update = std::make_shared<trust::Update>(*verifier_, now_s());
  while (update->wanted()) {
    const trust::Wanted wanted = *update->wanted();
    auto answer = co_await source.get(wanted);
    auto give = [update, verifier = verifier_, answer = std::move(answer)] {
      update->give(answer);
      return true;
    };
    (void)co_await loop.offload(give);
  }
  verified_ = verifier_->verified();
  looked_ = true;
  const auto outcome = update->outcome();
  trouble_ = outcome ? "" : outcome.error().message;
  if (!outcome) {
    co_return fail(outcome.error());
  }
  co_return Result<void>{};
}

const std::vector<wire::TrustPlugin>& Catalogue::plugins() const {
  static const std::vector<wire::TrustPlugin> none;
  return verified_.catalogue ? verified_.catalogue->plugins : none;
}

bool Catalogue::lists(const wire::Digest& plugin) const {
  return verified_.catalogue && verified_.catalogue->find(plugin) != nullptr;
}

Result<void> Catalogue::suits(const wire::TrustPlugin& plugin) const {
  trust::Runtime runtime;
  runtime.abi_major = GOBLIN_ABI_MAJOR;
  runtime.abi_minor = GOBLIN_ABI_MINOR;
  runtime.release = settings_.release;
  runtime.backends = settings_.backends;
  GOBLIN_TRY_VOID(trust::check_runtime(plugin, runtime));
  return trust::check_restriction(plugin, verified_.catalogue->signers, settings_.restriction);
}

Result<const wire::TrustPlugin*> Catalogue::allow(const wire::Digest& plugin) const {
  GOBLIN_TRY_VOID(may_start());
  const wire::TrustPlugin* const entry = verified_.catalogue->find(plugin);
  if (entry == nullptr) {
    return fail(Code::kNotFound,
                "plugin " + plugin.hex().substr(0, 16) +
                    " is not in the signed catalogue (version " +
                    std::to_string(verified_.catalogue->version) +
                    "): it was revoked, or is not published yet; ask the network's operator");
  }
  GOBLIN_TRY_VOID(suits(*entry));
  return entry;
}

std::vector<std::pair<std::string, std::string>> Catalogue::refusals() const {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const auto& plugin : plugins()) {
    if (const auto good = suits(plugin); !good) {
      reasons.emplace_back(plugin.name, good.error().message);
    }
  }
  return reasons;
}

void Catalogue::report(std::vector<std::pair<std::string, std::string>>& lines) const {
  const auto& catalogue = verified_.catalogue;
  const std::string root = "root version " + std::to_string(verified_.root_version);
  lines.emplace_back("catalogue", catalogue ? "version " + std::to_string(catalogue->version) +
                                                  " of " + root + ", expires " +
                                                  trust::time_text(catalogue->expires_s)
                                            : "none yet that the keys of " + root + " signed");
  if (const auto good = may_start(); !good) {
    lines.emplace_back("no new tasks because", good.error().message);
  }
  if (!trouble_.empty()) {
    lines.emplace_back("catalogue trouble", trouble_);
  }
  constexpr std::size_t kMost = 100;
  const auto reasons = refusals();
  for (std::size_t i = 0; i < reasons.size() && i < kMost; ++i) {
    lines.emplace_back("refuses plugin " + reasons[i].first, reasons[i].second);
  }
}

}  // namespace goblin::link
