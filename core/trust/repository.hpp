// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A directory of published files, as a coordinator serves it: root-1.signed, root-2.signed, …,
// targets-1.signed, …, timestamp.signed. It holds no key. What is put in is judged as hosts will
// judge it, so that a slip of an operator is refused here and not by every host. One thread.
#pragma once

#include <optional>
#include <string>

#include "core/trust/disk_file.hpp"
#include "core/trust/verifier.hpp"

namespace goblin::trust {

class Repository final : public Fetch {
 public:
  /// A directory that exists, may it be empty.
  explicit Repository(std::string path, Durable durable = Durable::kYes)
      : path_(std::move(path)), durable_(durable) {}

  /// kNotFound; kCorrupt when it is longer than `max_bytes`.
  Result<wire::Bytes> get(MetadataRole role, std::uint64_t version,
                          std::uint64_t max_bytes) override;

  /// Publishes a file. A root must be the first or the next one; targets must have a higher version
  /// than all before; the timestamp a higher one than the last, for targets that are here and not
  /// older than those of the last. kInvalidArgument says what breaks the order, kCorrupt which
  /// signatures are missing. Nothing but the timestamp is ever replaced.
  Result<void> put(wire::ByteView file);

  /// Targets and the root in force, as hosts judge them at a time.
  struct Release {
    wire::TrustRoot root;
    wire::TrustTargets targets;
    wire::Bytes targets_file;
    std::vector<wire::Digest> signers;
  };
  /// `version` 0: the newest. kNotFound: nothing is published; kCorrupt: the newest root's keys did
  /// not sign the targets; kUnavailable: root or targets have expired, or lie in the future.
  Result<Release> release(std::uint64_t version, std::uint64_t now_s);
  /// The timestamp, signed by the newest root's keys. kCorrupt when it is not.
  Result<wire::TrustTimestamp> judged_timestamp();

  /// kNotFound when nothing was published.
  Result<wire::TrustRoot> newest_root();
  Result<wire::Bytes> newest_targets_file();
  Result<wire::TrustTargets> newest_targets();
  Result<wire::TrustTimestamp> newest_timestamp();
  /// The first root: what an installation is given to trust.
  Result<wire::Bytes> first_root();

 private:
  [[nodiscard]] Result<std::optional<std::uint64_t>> newest(MetadataRole role) const;
  Result<void> put_root(wire::ByteView file);
  Result<void> put_targets(wire::ByteView file);
  Result<void> put_timestamp(wire::ByteView file);
  [[nodiscard]] std::string path_of(MetadataRole role, std::uint64_t version) const;

  std::string path_;
  Durable durable_;
};

}  // namespace goblin::trust
