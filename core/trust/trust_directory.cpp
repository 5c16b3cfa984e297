// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/trust_directory.hpp"

#include <unistd.h>

#include <cstring>
#include <set>

#include "core/net/sha256.hpp"
#include "core/store/files.hpp"
#include "core/trust/disk_file.hpp"
#include "core/trust/envelope.hpp"

namespace goblin::trust {
namespace {

// The file: magic, SHA-256 of the message, the message.
constexpr const char* kStateName = "state";
constexpr std::string_view kMagic = "GBLNTRS1";
constexpr std::size_t kHeaderBytes = 8 + 32;
constexpr std::uint64_t kMaxStateFile = 1u << 20;
constexpr std::string_view kSuffix = ".signed";

std::string name_of(const wire::Digest& digest) { return digest.hex() + std::string(kSuffix); }

}  // namespace

Result<TrustDirectory> TrustDirectory::open(const std::string& path) {
  GOBLIN_TRY(net::UniqueFd fd, store::open_owned_directory(path, "trust directory"));
  return TrustDirectory(path, std::move(fd));
}

Result<wire::TrustState> TrustDirectory::load() const {
  auto bytes = read_file_at(fd_.get(), path_, kStateName, kMaxStateFile, Readers::kAnybody);
  if (!bytes && bytes.error().code == Code::kNotFound) {
    return wire::TrustState{};
  }
  const std::string remedy =
      "; restore the directory from a backup, or remove it to begin again from the installation's "
      "root (what it knew of withdrawn versions is lost then)";
  const auto damaged = [&](const std::string& why) {
    return fail(Code::kCorrupt, "'" + path_ + "/" + kStateName + "': " + why + remedy);
  };
  if (!bytes) {
    return bytes.error().code == Code::kCorrupt
               ? fail(Code::kCorrupt, bytes.error().message + remedy)
               : fail(bytes.error());
  }
  if (bytes->size() < kHeaderBytes ||
      std::memcmp(bytes->data(), kMagic.data(), kMagic.size()) != 0) {
    return damaged("it is cut short or no state of a verifier");
  }
  wire::Digest digest;
  std::memcpy(digest.bytes.data(), bytes->data() + kMagic.size(), digest.bytes.size());
  const auto message = wire::ByteView(*bytes).subspan(kHeaderBytes);
  if (net::sha256(message) != digest) {
    return damaged("its checksum does not fit, so it is damaged");
  }
  auto state = wire::decode_trust_state(message);
  if (!state) {
    return damaged(state.error().message);
  }
  if (state->format != wire::kTrustFormat) {
    return fail(Code::kUnsupported,
                "'" + path_ + "/" + kStateName + "' has format " + std::to_string(state->format) +
                    ", this release knows format " + std::to_string(wire::kTrustFormat) +
                    "; use the release that wrote it, or a newer one");
  }
  if (state->roots.empty()) {
    return damaged("it names no root");
  }
  return state;
}

Result<wire::Bytes> TrustDirectory::read(const wire::TrustFile& file) const {
  const std::string name = name_of(file.digest);
  GOBLIN_TRY(wire::Bytes bytes,
             read_file_at(fd_.get(), path_, name, max_file_bytes(MetadataRole::kTargets),
                          Readers::kAnybody));
  if (bytes.size() != file.size || net::sha256(bytes) != file.digest) {
    return fail(Code::kCorrupt, "'" + path_ + "/" + name + "' is damaged");
  }
  return bytes;
}

Result<void> TrustDirectory::commit(const wire::TrustState& state,
                                    const std::vector<wire::ByteView>& files) {
  for (const wire::ByteView file : files) {
    GOBLIN_TRY_VOID(write_file_at(fd_.get(), path_, name_of(net::sha256(file)), file, 0600,
                                  Existing::kReplace));
  }
  // The names of the files must be on disk before a state that uses them can be.
  if (!files.empty()) {
    GOBLIN_TRY_VOID(sync_directory(fd_.get(), path_));
  }
  const wire::Bytes message = wire::encode(state);
  const wire::Digest digest = net::sha256(message);
  wire::Bytes bytes(kHeaderBytes + message.size());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kMagic.size(), digest.bytes.data(), digest.bytes.size());
  std::memcpy(bytes.data() + kHeaderBytes, message.data(), message.size());
  GOBLIN_TRY_VOID(write_file_at(fd_.get(), path_, kStateName, bytes, 0600, Existing::kReplace));
  GOBLIN_TRY_VOID(sync_directory(fd_.get(), path_));
  remove_unnamed(state);
  return {};
}

void TrustDirectory::remove_unnamed(const wire::TrustState& state) const {
  std::set<std::string> named = {name_of(state.roots.back().digest), name_of(state.targets.digest),
                                 name_of(state.timestamp.digest)};
  std::vector<std::string> unnamed;
  const auto listed = store::visit_files(fd_.get(), [&](const std::string& name) {
    const bool part = name.ends_with(".part");
    const std::string whole = part ? name.substr(0, name.size() - 5) : name;
    if (whole.size() == 64 + kSuffix.size() && whole.ends_with(kSuffix) &&
        (part || !named.contains(whole))) {
      unnamed.push_back(name);
    }
  });
  // What stays for once takes a little room; the next commit tries again.
  if (listed) {
    for (const std::string& name : unnamed) {
      ::unlinkat(fd_.get(), name.c_str(), 0);
    }
  }
}

}  // namespace goblin::trust
