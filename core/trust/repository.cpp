// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/repository.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "core/store/files.hpp"
#include "core/trust/disk_file.hpp"
#include "core/trust/trusted.hpp"

namespace goblin::trust {
namespace {

constexpr std::string_view kSuffix = ".signed";

/// The version in "root-12.signed"; leading zeros are another name.
std::optional<std::uint64_t> version_in(std::string_view name, MetadataRole role) {
  const std::string prefix = std::string(role_name(role)) + "-";
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix) ||
      name.size() <= prefix.size() + kSuffix.size()) {
    return std::nullopt;
  }
  const std::string_view digits =
      name.substr(prefix.size(), name.size() - prefix.size() - kSuffix.size());
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (error != std::errc() || end != digits.data() + digits.size() || digits[0] == '0') {
    return std::nullopt;
  }
  return version;
}

tl::unexpected<Error> out_of_order(std::string_view role, std::uint64_t version,
                                   const std::string& why) {
  return fail(Code::kInvalidArgument,
              std::string(role) + " version " + std::to_string(version) + ": " + why);
}

}  // namespace

std::string Repository::path_of(MetadataRole role, std::uint64_t version) const {
  const std::string name = path_ + "/" + std::string(role_name(role));
  return role == MetadataRole::kTimestamp
             ? name + std::string(kSuffix)
             : name + "-" + std::to_string(version) + std::string(kSuffix);
}

Result<wire::Bytes> Repository::get(MetadataRole role, std::uint64_t version,
                                    std::uint64_t max_bytes) {
  return read_file(path_of(role, version), max_bytes, Readers::kAnybody);
}

Result<std::optional<std::uint64_t>> Repository::newest(MetadataRole role) const {
  const net::UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return fail(
        store::disk_error("cannot open the directory of published files '" + path_ + "'", errno));
  }
  std::optional<std::uint64_t> highest;
  GOBLIN_TRY_VOID(store::visit_files(fd.get(), [&](const std::string& name) {
    if (const auto version = version_in(name, role)) {
      highest = std::max(highest.value_or(0), *version);
    }
  }));
  return highest;
}

Result<wire::TrustRoot> Repository::newest_root() {
  GOBLIN_TRY(const auto version, newest(MetadataRole::kRoot));
  GOBLIN_TRY(const wire::Bytes file,
             get(MetadataRole::kRoot, version.value_or(1), max_file_bytes(MetadataRole::kRoot)));
  GOBLIN_TRY(OwnRoot own, read_own_root(file));
  return std::move(own.root);
}

Result<wire::Bytes> Repository::newest_targets_file() {
  GOBLIN_TRY(const auto version, newest(MetadataRole::kTargets));
  return get(MetadataRole::kTargets, version.value_or(1), max_file_bytes(MetadataRole::kTargets));
}

Result<wire::TrustTargets> Repository::newest_targets() {
  GOBLIN_TRY(const wire::Bytes file, newest_targets_file());
  GOBLIN_TRY(const Envelope envelope, parse_envelope(MetadataRole::kTargets, file));
  return read_targets(envelope.message);
}

Result<wire::TrustTimestamp> Repository::newest_timestamp() {
  GOBLIN_TRY(const wire::Bytes file,
             get(MetadataRole::kTimestamp, 0, max_file_bytes(MetadataRole::kTimestamp)));
  GOBLIN_TRY(const Envelope envelope, parse_envelope(MetadataRole::kTimestamp, file));
  return read_timestamp(envelope.message);
}

Result<wire::TrustTimestamp> Repository::judged_timestamp() {
  GOBLIN_TRY(const wire::TrustRoot root, newest_root());
  GOBLIN_TRY(const wire::Bytes file,
             get(MetadataRole::kTimestamp, 0, max_file_bytes(MetadataRole::kTimestamp)));
  return read_signed_timestamp(file, root);
}

Result<Repository::Release> Repository::release(std::uint64_t version, std::uint64_t now_s) {
  Release release;
  GOBLIN_TRY(release.root, newest_root());
  if (version == 0) {
    GOBLIN_TRY(release.targets_file, newest_targets_file());
  } else {
    GOBLIN_TRY(release.targets_file,
               get(MetadataRole::kTargets, version, max_file_bytes(MetadataRole::kTargets)));
  }
  GOBLIN_TRY(SignedTargets read, read_signed_targets(release.targets_file, release.root));
  const auto check = [now_s](const std::string& what, std::uint64_t issued_s,
                             std::uint64_t expires_s) -> Result<void> {
    if (now_s >= expires_s) {
      return fail(Code::kUnavailable,
                  what + " expired at " + time_text(expires_s) + ": sign and publish a newer one");
    }
    if (issued_s > now_s) {
      return fail(Code::kUnavailable, what + " was issued at " + time_text(issued_s) +
                                          ", but it is " + time_text(now_s) +
                                          " here: set this computer's clock right (timedatectl)");
    }
    return {};
  };
  GOBLIN_TRY_VOID(check("root version " + std::to_string(release.root.version),
                        release.root.issued_s, release.root.expires_s));
  GOBLIN_TRY_VOID(check("targets version " + std::to_string(read.targets.version),
                        read.targets.issued_s, read.targets.expires_s));
  release.targets = std::move(read.targets);
  release.signers = std::move(read.signers);
  return release;
}

Result<wire::Bytes> Repository::first_root() {
  return get(MetadataRole::kRoot, 1, max_file_bytes(MetadataRole::kRoot));
}

Result<void> Repository::put(wire::ByteView file) {
  GOBLIN_TRY(const MetadataRole role, role_of(file));
  switch (role) {
    case MetadataRole::kRoot:
      return put_root(file);
    case MetadataRole::kTargets:
      return put_targets(file);
    case MetadataRole::kTimestamp:
      return put_timestamp(file);
  }
  return {};
}

Result<void> Repository::put_root(wire::ByteView file) {
  GOBLIN_TRY(const auto highest, newest(MetadataRole::kRoot));
  std::uint64_t version = 1;
  if (!highest) {
    GOBLIN_TRY(const OwnRoot own, read_own_root(file));
    if (own.root.version != 1) {
      return out_of_order("root", own.root.version, "the first one that is published is version 1");
    }
  } else {
    GOBLIN_TRY(const wire::TrustRoot current, newest_root());
    GOBLIN_TRY(const wire::TrustRoot next, read_next_root(file, current));
    version = next.version;
  }
  return write_file(path_of(MetadataRole::kRoot, version), file, 0644, Existing::kRefuse, durable_);
}

Result<void> Repository::put_targets(wire::ByteView file) {
  GOBLIN_TRY(const wire::TrustRoot root, newest_root());
  GOBLIN_TRY(const SignedTargets targets, read_signed_targets(file, root));
  GOBLIN_TRY(const auto highest, newest(MetadataRole::kTargets));
  const std::uint64_t version = targets.targets.version;
  if (version <= highest.value_or(0)) {
    return out_of_order("targets", version,
                        "version " + std::to_string(*highest) +
                            " is published already; make one with a higher version");
  }
  return write_file(path_of(MetadataRole::kTargets, version), file, 0644, Existing::kRefuse,
                    durable_);
}

Result<void> Repository::put_timestamp(wire::ByteView file) {
  GOBLIN_TRY(const wire::TrustRoot root, newest_root());
  GOBLIN_TRY(const wire::TrustTimestamp timestamp, read_signed_timestamp(file, root));
  const std::uint64_t version = timestamp.version;
  if (const auto last = newest_timestamp()) {
    if (version <= last->version) {
      return out_of_order("timestamp", version,
                          "version " + std::to_string(last->version) +
                              " is published already; make one with a higher version");
    }
    if (timestamp.targets.version < last->targets.version) {
      return out_of_order("timestamp", version,
                          "it names targets version " + std::to_string(timestamp.targets.version) +
                              ", version " + std::to_string(last->targets.version) +
                              " was named already; publish the older contents as a higher version");
    }
  } else if (last.error().code != Code::kNotFound) {
    return fail(last.error());
  }
  const auto targets = get(MetadataRole::kTargets, timestamp.targets.version,
                           max_file_bytes(MetadataRole::kTargets));
  if (!targets) {
    return fail(targets.error().with_context("publish the targets before their timestamp"));
  }
  if (file_of(timestamp.targets.version, *targets) != timestamp.targets) {
    return out_of_order("timestamp", version,
                        "the published targets version " +
                            std::to_string(timestamp.targets.version) +
                            " is another file than the one that it names; make it from that file");
  }
  // As hosts will: a root may have taken away keys since these targets were published.
  if (auto good = read_signed_targets(*targets, root); !good) {
    return fail(good.error());
  }
  return write_file(path_of(MetadataRole::kTimestamp, 0), file, 0644, Existing::kReplace, durable_);
}

}  // namespace goblin::trust
