// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// An update, step by step: roots, one after the other; the timestamp; the targets that it names.
#include <algorithm>

#include "core/net/sha256.hpp"
#include "core/trust/trusted.hpp"
#include "core/wire/bounds.hpp"

namespace goblin::trust {
namespace {

// More than a network makes in decades; whoever was away longer goes on at the next update.
constexpr std::uint32_t kMaxRootSteps = 128;

std::string version_text(std::string_view role, std::uint64_t version) {
  return std::string(role) + " version " + std::to_string(version);
}

/// Has a key that could sign timestamps lost that right?
bool removes_timestamp_key(const wire::TrustRoot& before, const wire::TrustRoot& after) {
  return std::any_of(
      before.timestamp.keys.begin(), before.timestamp.keys.end(), [&](const PublicKey& key) {
        return std::find(after.timestamp.keys.begin(), after.timestamp.keys.end(), key) ==
               after.timestamp.keys.end();
      });
}

/// Older than what was seen, or the same version with other bytes.
Result<void> check_not_older(std::string_view role, const wire::TrustFile& served,
                             const wire::TrustFile& seen) {
  if (served.version < seen.version) {
    return fail(Code::kCorrupt, version_text(role, served.version) +
                                    " was served, but this computer has seen version " +
                                    std::to_string(seen.version) +
                                    ": what was withdrawn is not taken back; get the newest one, "
                                    "from another coordinator if this one keeps serving it");
  }
  if (served.version == seen.version && served != seen) {
    return fail(Code::kCorrupt, version_text(role, served.version) + " was served with SHA-256 " +
                                    served.digest.hex() + ", but was seen with " +
                                    seen.digest.hex() +
                                    ": two files have one version; the network's operator must "
                                    "publish a higher one");
  }
  return {};
}

std::vector<wire::Digest> digests_of(const std::optional<Catalogue>& catalogue) {
  std::vector<wire::Digest> digests;
  if (catalogue) {
    for (const wire::TrustPlugin& plugin : catalogue->plugins) {
      digests.push_back(plugin.plugin);
    }
  }
  std::sort(digests.begin(), digests.end());
  return digests;
}

}  // namespace

Update::Update(Verifier& verifier, std::uint64_t now_s)
    : trusted_(*verifier.trusted_), now_s_(now_s), before_(digests_of(trusted_.catalogue)) {
  if (auto clock = check_clock(trusted_.clock(), now_s_); !clock) {
    fail_with(clock.error());
    return;
  }
  wanted_ = Wanted{
      MetadataRole::kRoot, trusted_.root.version + 1, max_file_bytes(MetadataRole::kRoot), {}};
}

void Update::give(const Result<wire::Bytes>& answer) {
  if (!wanted_) {
    return;
  }
  if (auto done = step(answer); !done) {
    fail_with(done.error());
  }
}

Result<UpdateOutcome> Update::outcome() const {
  if (error_) {
    return fail(*error_);
  }
  if (wanted_) {
    return fail(Code::kInternal, "an update was asked for its outcome before it was over");
  }
  UpdateOutcome outcome;
  const auto after = digests_of(trusted_.catalogue);
  std::set_difference(after.begin(), after.end(), before_.begin(), before_.end(),
                      std::back_inserter(outcome.added));
  std::set_difference(before_.begin(), before_.end(), after.begin(), after.end(),
                      std::back_inserter(outcome.revoked));
  return outcome;
}

void Update::fail_with(const Error& error) {
  error_ = error;
  wanted_.reset();
  // Versions that were verified are remembered even if nothing else came of it. That this fails
  // too adds nothing: they are remembered until the process ends.
  if (seen_more_) {
    [[maybe_unused]] const auto kept = trusted_.directory.commit(trusted_.state, {});
  }
}

Result<void> Update::step(const Result<wire::Bytes>& answer) {
  const Wanted asked = *wanted_;
  wanted_.reset();
  if (answer && answer->size() > asked.max_bytes) {
    return fail(Code::kCorrupt, std::string(role_name(asked.role)) + " metadata of " +
                                    std::to_string(answer->size()) + " bytes, at most " +
                                    std::to_string(asked.max_bytes) + " may come");
  }
  switch (asked.role) {
    case MetadataRole::kRoot:
      return take_root(answer);
    case MetadataRole::kTimestamp:
      return take_timestamp(answer);
    case MetadataRole::kTargets:
      return take_targets(answer);
  }
  return {};
}

Result<void> Update::take_root(const Result<wire::Bytes>& answer) {
  const std::uint64_t version = trusted_.root.version + 1;
  if (!answer && answer.error().code == Code::kNotFound) {
    return end_roots();
  }
  if (!answer) {
    return fail(answer.error().with_context("cannot get " + version_text("root", version)));
  }
  GOBLIN_TRY(wire::TrustRoot next, read_next_root(*answer, trusted_.root));
  const wire::TrustFile file = file_of(next.version, *answer);
  if (file.version == trusted_.installed.version && file != trusted_.installed) {
    return fail(Code::kCorrupt,
                version_text("root", version) +
                    " is another one than the installation's of the same version; get it from "
                    "elsewhere, or install the network's root file again");
  }
  wire::TrustState state = trusted_.state;
  state.roots.push_back(file);
  if (state.roots.size() > wire::kMaxTrustRoots) {
    state.roots.erase(state.roots.begin());
  }
  // Whoever stole that key may have signed a version so high that no honest one comes after it.
  if (removes_timestamp_key(trusted_.root, next)) {
    state.seen_timestamp = {};
    state.seen_targets = state.targets;
  }
  GOBLIN_TRY_VOID(trusted_.directory.commit(state, {*answer}));
  trusted_.state = std::move(state);
  trusted_.root = std::move(next);
  trusted_.load_catalogue();
  if (++root_steps_ == kMaxRootSteps) {
    return fail(Code::kUnavailable, std::to_string(kMaxRootSteps) +
                                        " new roots were followed in one update; update again to "
                                        "go on");
  }
  wanted_ = Wanted{
      MetadataRole::kRoot, trusted_.root.version + 1, max_file_bytes(MetadataRole::kRoot), {}};
  return {};
}

Result<void> Update::end_roots() {
  const wire::TrustRoot& root = trusted_.root;
  if (root.version < trusted_.installed.version) {
    return fail(Code::kUnavailable,
                "the coordinator serves no root after version " + std::to_string(root.version) +
                    ", and this installation came with version " +
                    std::to_string(trusted_.installed.version) +
                    ": it holds back that keys were changed; nothing starts until it serves it");
  }
  GOBLIN_TRY_VOID(check_times(trusted_.clock(), version_text("root", root.version), root.issued_s,
                              root.expires_s, now_s_));
  wanted_ = Wanted{MetadataRole::kTimestamp, 0, max_file_bytes(MetadataRole::kTimestamp), {}};
  return {};
}

Result<void> Update::take_timestamp(const Result<wire::Bytes>& answer) {
  if (!answer) {
    return fail(answer.error().with_context("cannot get the timestamp"));
  }
  GOBLIN_TRY(timestamp_, read_signed_timestamp(*answer, trusted_.root));
  timestamp_file_ = *answer;
  const wire::TrustFile file = file_of(timestamp_.version, timestamp_file_);
  wire::TrustState& state = trusted_.state;
  GOBLIN_TRY_VOID(check_not_older("timestamp", file, state.seen_timestamp));
  GOBLIN_TRY_VOID(check_not_older("targets", timestamp_.targets, state.seen_targets));
  GOBLIN_TRY_VOID(check_times(trusted_.clock(), version_text("timestamp", timestamp_.version),
                              timestamp_.issued_s, timestamp_.expires_s, now_s_));
  seen_more_ = state.seen_timestamp != file || state.seen_targets != timestamp_.targets;
  state.seen_timestamp = file;
  state.seen_targets = timestamp_.targets;
  // What was signed, not what this clock says: one that was fast for a moment must not shut us out.
  state.latest_s = std::max(state.latest_s, timestamp_.issued_s);
  if (timestamp_.targets == state.targets) {
    if (const auto kept = trusted_.directory.read(state.targets)) {
      return accept(*kept, true);
    }
  }
  wanted_ = Wanted{MetadataRole::kTargets, timestamp_.targets.version, timestamp_.targets.size,
                   timestamp_.targets.digest};
  return {};
}

Result<void> Update::take_targets(const Result<wire::Bytes>& answer) {
  const wire::TrustFile& named = timestamp_.targets;
  const std::string what = version_text("targets", named.version);
  if (!answer) {
    return fail(answer.error().with_context("cannot get " + what));
  }
  if (answer->size() != named.size) {
    return fail(Code::kCorrupt, what + ": " + std::to_string(answer->size()) + " bytes, " +
                                    std::to_string(named.size) +
                                    " were named by the timestamp; get it again");
  }
  if (const wire::Digest digest = net::sha256(*answer); digest != named.digest) {
    return fail(Code::kCorrupt, what + ": SHA-256 " + digest.hex() + ", " + named.digest.hex() +
                                    " was named by the timestamp; get it again");
  }
  return accept(*answer, false);
}

Result<void> Update::accept(wire::ByteView targets_file, bool on_disk) {
  GOBLIN_TRY(SignedTargets targets, read_signed_targets(targets_file, trusted_.root));
  const std::string what = version_text("targets", targets.targets.version);
  if (targets.targets.version != timestamp_.targets.version) {
    return fail(Code::kCorrupt,
                what + " was served as version " + std::to_string(timestamp_.targets.version));
  }
  GOBLIN_TRY_VOID(check_times(trusted_.clock(), what, targets.targets.issued_s,
                              targets.targets.expires_s, now_s_));
  wire::TrustState state = trusted_.state;
  state.targets = timestamp_.targets;
  state.timestamp = file_of(timestamp_.version, timestamp_file_);
  std::vector<wire::ByteView> files = {timestamp_file_};
  if (!on_disk) {
    files.push_back(targets_file);
  }
  GOBLIN_TRY_VOID(trusted_.directory.commit(state, files));
  seen_more_ = false;
  trusted_.state = std::move(state);
  trusted_.catalogue = make_catalogue(trusted_.root, timestamp_, std::move(targets));
  return {};
}

}  // namespace goblin::trust
