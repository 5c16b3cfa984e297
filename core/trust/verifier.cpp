// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/verifier.hpp"

#include <algorithm>

#include "core/trust/trusted.hpp"

namespace goblin::trust {
namespace {

std::string root_text(std::uint64_t version) { return "root version " + std::to_string(version); }

/// Is the installation's root one of those that the directory has followed?
Result<void> check_same_chain(const Trusted& trusted) {
  for (const wire::TrustFile& known : trusted.state.roots) {
    if (known.version == trusted.installed.version && known != trusted.installed) {
      return fail(Code::kInvalidArgument,
                  "trust directory '" + trusted.directory.path() + "' follows a network whose " +
                      root_text(known.version) +
                      " is another one than the installation's; give this network a directory of "
                      "its own");
    }
  }
  return {};
}

Result<void> load_root(Trusted& trusted) {
  const wire::TrustFile& file = trusted.state.roots.back();
  const auto remedy = [](const Error& error) {
    if (error.code != Code::kCorrupt && error.code != Code::kNotFound) {
      return fail(error);
    }
    return fail(Code::kCorrupt, error.message +
                                    "; restore the trust directory from a backup, or remove it to "
                                    "begin again from the installation's root");
  };
  const auto bytes = trusted.directory.read(file);
  if (!bytes) {
    return remedy(bytes.error());
  }
  auto own = read_own_root(*bytes);
  if (!own) {
    return remedy(own.error());
  }
  trusted.root = std::move(own->root);
  return {};
}

}  // namespace

const wire::TrustPlugin* Catalogue::find(const wire::Digest& plugin) const {
  const auto found =
      std::find_if(plugins.begin(), plugins.end(),
                   [&](const wire::TrustPlugin& entry) { return entry.plugin == plugin; });
  return found == plugins.end() ? nullptr : &*found;
}

Result<SignedTargets> read_signed_targets(wire::ByteView file, const wire::TrustRoot& root) {
  GOBLIN_TRY(const Envelope envelope, parse_envelope(MetadataRole::kTargets, file));
  SignedTargets read;
  GOBLIN_TRY(read.signers, check_signatures(envelope, root.targets, root_text(root.version)));
  GOBLIN_TRY(read.targets, read_targets(envelope.message));
  return read;
}

Result<wire::TrustTimestamp> read_signed_timestamp(wire::ByteView file,
                                                   const wire::TrustRoot& root) {
  GOBLIN_TRY(const Envelope envelope, parse_envelope(MetadataRole::kTimestamp, file));
  if (auto signers = check_signatures(envelope, root.timestamp, root_text(root.version));
      !signers) {
    return fail(signers.error());
  }
  return read_timestamp(envelope.message);
}

Result<wire::TrustRoot> read_next_root(wire::ByteView file, const wire::TrustRoot& current) {
  GOBLIN_TRY(const Envelope envelope, parse_envelope(MetadataRole::kRoot, file));
  // By the old keys before anything is decoded.
  if (auto old = check_signatures(envelope, current.root, root_text(current.version)); !old) {
    return fail(old.error());
  }
  GOBLIN_TRY(wire::TrustRoot next, read_root(envelope.message));
  if (auto own = check_signatures(envelope, next.root, "the new " + root_text(next.version));
      !own) {
    return fail(own.error());
  }
  if (next.version != current.version + 1) {
    return fail(Code::kCorrupt, root_text(next.version) + " was served where version " +
                                    std::to_string(current.version + 1) +
                                    " must follow; no root may be skipped");
  }
  return next;
}

Catalogue make_catalogue(const wire::TrustRoot& root, const wire::TrustTimestamp& timestamp,
                         SignedTargets targets) {
  return {.version = targets.targets.version,
          .expires_s = std::min({root.expires_s, timestamp.expires_s, targets.targets.expires_s}),
          .plugins = std::move(targets.targets.plugins),
          .signers = std::move(targets.signers)};
}

void Trusted::load_catalogue() {
  catalogue.reset();
  // Keys that the installation's root has taken away sign nothing any more.
  if (root.version < installed.version) {
    return;
  }
  if (state.targets.version == 0 || state.timestamp.version == 0) {
    return;
  }
  const auto timestamp_file = directory.read(state.timestamp);
  const auto targets_file = directory.read(state.targets);
  if (!timestamp_file || !targets_file) {
    return;
  }
  const auto timestamp = read_signed_timestamp(*timestamp_file, root);
  auto targets = read_signed_targets(*targets_file, root);
  if (timestamp && targets && timestamp->targets == state.targets) {
    catalogue = make_catalogue(root, *timestamp, std::move(*targets));
  }
}

Result<void> check_clock(const Clock& clock, std::uint64_t now_s) {
  if (now_s + clock.tolerance_s < clock.latest_s) {
    return fail(
        Code::kUnavailable,
        "this computer's clock says " + time_text(now_s) +
            ", but signed metadata has "
            "vouched for " +
            time_text(clock.latest_s) +
            " already: it was set back; set it right (timedatectl). If it was wrong before, "
            "wait, or remove the trust directory '" +
            clock.directory + "' to begin again from the installation's root");
  }
  return {};
}

Result<void> check_times(const Clock& clock, std::string_view what, std::uint64_t issued_s,
                         std::uint64_t expires_s, std::uint64_t now_s) {
  if (now_s >= expires_s) {
    return fail(
        Code::kUnavailable,
        std::string(what) + " expired at " + time_text(expires_s) + ", and it is " +
            time_text(now_s) +
            " now: no new tasks until the network publishes a newer one that reaches this "
            "computer; check its clock and its connection, then ask the network's operator");
  }
  if (issued_s > now_s + clock.tolerance_s) {
    return fail(Code::kUnavailable, std::string(what) + " was issued at " + time_text(issued_s) +
                                        ", but this computer's clock says " + time_text(now_s) +
                                        ": it is behind; set it right (timedatectl)");
  }
  return {};
}

Result<std::unique_ptr<Verifier>> Verifier::open(const VerifierSettings& settings) {
  const auto own = read_own_root(settings.root);
  if (!own) {
    const Code code =
        own.error().code == Code::kUnsupported ? Code::kUnsupported : Code::kInvalidArgument;
    return fail(code, "the installation's root: " + own.error().message +
                          "; install the root file of the network again");
  }
  GOBLIN_TRY(TrustDirectory directory, TrustDirectory::open(settings.directory));
  auto trusted =
      std::make_unique<Trusted>(Trusted{.directory = std::move(directory),
                                        .clock_tolerance_s = settings.clock_tolerance_s,
                                        .installed = file_of(own->root.version, settings.root),
                                        .state = {},
                                        .root = {},
                                        .catalogue = {}});
  GOBLIN_TRY(trusted->state, trusted->directory.load());
  if (trusted->state.roots.empty()) {
    trusted->state.roots = {trusted->installed};
    trusted->root = own->root;
    GOBLIN_TRY_VOID(trusted->directory.commit(trusted->state, {settings.root}));
  } else {
    GOBLIN_TRY_VOID(check_same_chain(*trusted));
    GOBLIN_TRY_VOID(load_root(*trusted));
    trusted->load_catalogue();
  }
  return std::unique_ptr<Verifier>(new Verifier(std::move(trusted)));
}

Verifier::Verifier(std::unique_ptr<Trusted> trusted) : trusted_(std::move(trusted)) {}
Verifier::~Verifier() = default;

Result<UpdateOutcome> Verifier::update(Fetch& fetch, std::uint64_t now_s) {
  Update update(*this, now_s);
  while (const auto& wanted = update.wanted()) {
    update.give(fetch.get(wanted->role, wanted->version, wanted->max_bytes));
  }
  return update.outcome();
}

const Catalogue* Verifier::catalogue() const {
  return trusted_->catalogue ? &*trusted_->catalogue : nullptr;
}

Verified Verifier::verified() const {
  return {.catalogue = trusted_->catalogue,
          .root_version = trusted_->root.version,
          .latest_s = trusted_->state.latest_s,
          .clock_tolerance_s = trusted_->clock_tolerance_s,
          .directory = trusted_->directory.path()};
}

Result<void> Verified::may_start(std::uint64_t now_s) const {
  const Clock clock{latest_s, clock_tolerance_s, directory};
  GOBLIN_TRY_VOID(check_clock(clock, now_s));
  if (!catalogue) {
    return fail(Code::kUnavailable,
                "no catalogue of plugins that the keys of " + root_text(root_version) +
                    " signed has reached this computer yet: no new tasks until one does; check its "
                    "connection to the coordinator");
  }
  return check_times(clock, "the catalogue (version " + std::to_string(catalogue->version) + ")", 0,
                     catalogue->expires_s, now_s);
}

const wire::TrustRoot& Verifier::root() const { return trusted_->root; }
const wire::TrustState& Verifier::state() const { return trusted_->state; }

}  // namespace goblin::trust
