// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The side that trusts nobody but the root that it was installed with: follows the chain of roots,
// takes only timestamps and targets that the keys of the root in force signed, never an older
// version than it has seen, and remembers on disk what it has seen. Hosts and lab nodes ask it what
// may run. Times are seconds since 1970, UTC. One thread at a time.
//
// What an error's code means here: kCorrupt: what was served is not genuine or not current (rolled
// back, mixed, damaged, signed by too few): get it from elsewhere. kUnavailable: it has expired, or
// this computer's clock is wrong: no new tasks until that is mended. kUnsupported: a later release
// wrote it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/trust/metadata.hpp"

namespace goblin::trust {

/// Where signed files come from: nobody that is trusted.
class Fetch {
 public:
  Fetch() = default;
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;
  virtual ~Fetch() = default;
  /// The file of that role and version; version 0 of the timestamp: the newest. kNotFound when
  /// there is none. Whoever reads from a network stops at `max_bytes`; more is refused anyway.
  virtual Result<wire::Bytes> get(MetadataRole role, std::uint64_t version,
                                  std::uint64_t max_bytes) = 0;
};

/// What was verified, whole.
struct Catalogue {
  std::uint64_t version = 0;    ///< of the targets
  std::uint64_t expires_s = 0;  ///< the first of root, targets and timestamp
  std::vector<wire::TrustPlugin> plugins;
  std::vector<wire::Digest> signers;  ///< keys that signed the targets, ascending

  /// Null: not listed, so never published or revoked.
  [[nodiscard]] const wire::TrustPlugin* find(const wire::Digest& plugin) const;
};

/// What a verifier held at one time: a value, for other threads while the verifier updates.
struct Verified {
  std::optional<Catalogue> catalogue;  ///< none: nothing was verified, or a new root took it away
  std::uint64_t root_version = 0;
  std::uint64_t latest_s = 0;  ///< latest time that signed metadata vouched for
  std::uint64_t clock_tolerance_s = 0;
  std::string directory;

  /// May tasks be started now? kUnavailable says why not: nothing verified, expired, or the clock
  /// is set back.
  [[nodiscard]] Result<void> may_start(std::uint64_t now_s) const;
};

struct VerifierSettings {
  std::string directory;
  wire::Bytes root;                        ///< signed root file of the installation
  std::uint64_t clock_tolerance_s = 3600;  ///< how far clocks may disagree
};

/// What an update did. Tasks of revoked plugins must stop.
struct UpdateOutcome {
  std::vector<wire::Digest> added;
  std::vector<wire::Digest> revoked;
};

struct Trusted;  // internal: core/trust/trusted.hpp

class Verifier final {
 public:
  /// The first time the installation's root is trusted; later the one in the directory is, and the
  /// installation's must belong to the same chain. kInvalidArgument: it does not, or is none;
  /// kUnavailable: the directory is in use; kCorrupt: it is damaged.
  static Result<std::unique_ptr<Verifier>> open(const VerifierSettings& settings);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  /// Brings everything up to date as of `now_s`, in as many calls of `fetch` as there are new roots
  /// and at most three more. When it fails, the catalogue stays as it was, but for a new root that
  /// was verified: keys that it revokes are not believed again, and a catalogue that its keys did
  /// not sign is none. So after a failure, too, ask `find` whether running tasks may go on.
  Result<UpdateOutcome> update(Fetch& fetch, std::uint64_t now_s);

  /// What was verified last, even if it has expired since; null when nothing was yet, or a new root
  /// took it away. Valid until the next update.
  [[nodiscard]] const Catalogue* catalogue() const;
  /// As of now, for may_start and for other threads.
  [[nodiscard]] Verified verified() const;
  [[nodiscard]] Result<void> may_start(std::uint64_t now_s) const {
    return verified().may_start(now_s);
  }
  [[nodiscard]] const wire::TrustRoot& root() const;
  /// The state as it is on disk.
  [[nodiscard]] const wire::TrustState& state() const;

 private:
  friend class Update;
  explicit Verifier(std::unique_ptr<Trusted> trusted);
  std::unique_ptr<Trusted> trusted_;
};

/// A file that an update needs next.
struct Wanted {
  MetadataRole role = MetadataRole::kRoot;
  std::uint64_t version = 0;  ///< 0: the newest
  std::uint64_t max_bytes = 0;
  wire::Digest digest{};  ///< SHA-256 of the targets; of other files nobody knows it before
};

/// Verifier::update in steps, for callers that fetch without blocking: while wanted(), give() what
/// came. give() hashes and writes to disk. One update of a verifier at a time.
class Update final {
 public:
  Update(Verifier& verifier, std::uint64_t now_s);

  /// None: finished or failed.
  [[nodiscard]] const std::optional<Wanted>& wanted() const { return wanted_; }
  void give(const Result<wire::Bytes>& answer);
  /// Once nothing is wanted.
  [[nodiscard]] Result<UpdateOutcome> outcome() const;

 private:
  Result<void> step(const Result<wire::Bytes>& answer);
  Result<void> take_root(const Result<wire::Bytes>& answer);
  Result<void> end_roots();
  Result<void> take_timestamp(const Result<wire::Bytes>& answer);
  Result<void> take_targets(const Result<wire::Bytes>& answer);
  /// The targets that the timestamp names, to the byte; `on_disk`: they need not be written.
  Result<void> accept(wire::ByteView targets_file, bool on_disk);
  void fail_with(const Error& error);

  Trusted& trusted_;
  std::uint64_t now_s_;
  std::optional<Wanted> wanted_;
  std::optional<Error> error_;
  std::uint32_t root_steps_ = 0;
  bool seen_more_ = false;  ///< than the state on disk says
  std::vector<wire::Digest> before_;
  wire::Bytes timestamp_file_;
  wire::TrustTimestamp timestamp_;
};

}  // namespace goblin::trust
