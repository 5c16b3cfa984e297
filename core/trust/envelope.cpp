// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/envelope.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "core/wire/bounds.hpp"

namespace goblin::trust {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::string_view kMagic = "GBLNSIG1";
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kSignatureBytes = 32 + 64;

template <typename T>
T number_at(wire::ByteView bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// Fills bytes of a length that is known before.
class Writer {
 public:
  explicit Writer(std::size_t size) : bytes_(size) {}
  template <typename T>
  void put(const T* data, std::size_t count) {
    if (count > 0) {
      std::memcpy(bytes_.data() + at_, data, count * sizeof(T));
      at_ += count * sizeof(T);
    }
  }
  [[nodiscard]] wire::Bytes take() { return std::move(bytes_); }

 private:
  wire::Bytes bytes_;
  std::size_t at_ = 0;
};

tl::unexpected<Error> no_file(std::string_view of, const std::string& why) {
  return fail(Code::kCorrupt,
              "these bytes are no signed " + std::string(of) + " file: " + why + "; get it again");
}

}  // namespace

std::string_view role_name(MetadataRole role) {
  switch (role) {
    case MetadataRole::kRoot:
      return "root";
    case MetadataRole::kTargets:
      return "targets";
    case MetadataRole::kTimestamp:
      return "timestamp";
  }
  return "unknown role";
}

std::uint64_t max_file_bytes(MetadataRole role) {
  switch (role) {
    case MetadataRole::kRoot:
      return 64u << 10;
    case MetadataRole::kTargets:
      return 4u << 20;
    case MetadataRole::kTimestamp:
      return 8u << 10;
  }
  return 0;
}

wire::Bytes encode_envelope(const Envelope& envelope) {
  Writer out(kHeaderBytes + envelope.signatures.size() * kSignatureBytes + envelope.message.size());
  const auto role = static_cast<std::uint32_t>(envelope.role);
  const auto count = static_cast<std::uint32_t>(envelope.signatures.size());
  const auto length = static_cast<std::uint64_t>(envelope.message.size());
  out.put(kMagic.data(), kMagic.size());
  out.put(&role, 1);
  out.put(&count, 1);
  out.put(&length, 1);
  for (const KeySignature& one : envelope.signatures) {
    out.put(one.key.bytes.data(), one.key.bytes.size());
    out.put(one.signature.data(), one.signature.size());
  }
  out.put(envelope.message.data(), envelope.message.size());
  return out.take();
}

Result<MetadataRole> role_of(wire::ByteView file) {
  if (file.size() < kHeaderBytes || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    return no_file("metadata", "they do not begin with " + std::string(kMagic));
  }
  const auto role = number_at<std::uint32_t>(file, 8);
  if (role < 1 || role > 3) {
    return no_file("metadata", "role " + std::to_string(role) + " is unknown");
  }
  return static_cast<MetadataRole>(role);
}

Result<Envelope> parse_envelope(MetadataRole role, wire::ByteView file) {
  const std::string_view name = role_name(role);
  if (file.size() > max_file_bytes(role)) {
    return no_file(name, std::to_string(file.size()) + " bytes, at most " +
                             std::to_string(max_file_bytes(role)) + " were expected");
  }
  GOBLIN_TRY(const MetadataRole claimed, role_of(file));
  if (claimed != role) {
    return no_file(name, "they are of the role " + std::string(role_name(claimed)));
  }
  const auto count = number_at<std::uint32_t>(file, 12);
  const auto length = number_at<std::uint64_t>(file, 16);
  if (count > kMaxSignatures) {
    return no_file(name, std::to_string(count) + " signatures, at most " +
                             std::to_string(kMaxSignatures) + " may stand there");
  }
  if (length < 8 || length % 8 != 0 || length > wire::kMaxMessageBytes ||
      file.size() != kHeaderBytes + count * kSignatureBytes + length) {
    return no_file(name, std::to_string(file.size()) + " bytes do not hold " +
                             std::to_string(count) + " signatures and a message of " +
                             std::to_string(length) + " bytes");
  }
  Envelope envelope{.role = role, .signatures = {}, .message = {}};
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = file.data() + kHeaderBytes + i * kSignatureBytes;
    KeySignature& one = envelope.signatures.emplace_back();
    std::memcpy(one.key.bytes.data(), at, 32);
    std::memcpy(one.signature.data(), at + 32, 64);
    if (i > 0 && envelope.signatures[i - 1].key >= one.key) {
      return no_file(name, "two signatures name the same key, or they are not in order");
    }
  }
  const wire::ByteView message = file.last(length);
  envelope.message.assign(message.begin(), message.end());
  return envelope;
}

wire::Bytes signed_input(MetadataRole role, wire::ByteView message) {
  const std::string domain = "gpu-goblin/trust/1/" + std::string(role_name(role));
  const auto domain_length = static_cast<std::uint8_t>(domain.size());
  const auto length = static_cast<std::uint64_t>(message.size());
  Writer out(1 + domain.size() + 8 + message.size());
  out.put(&domain_length, 1);
  out.put(domain.data(), domain.size());
  out.put(&length, 1);
  out.put(message.data(), message.size());
  return out.take();
}

Result<std::vector<wire::Digest>> check_signatures(const Envelope& envelope,
                                                   const wire::TrustRole& keys,
                                                   std::string_view whose) {
  const std::string what = std::string(role_name(envelope.role)) + " metadata";
  if (keys.threshold == 0) {
    return fail(Code::kCorrupt, what + ": " + std::string(whose) + " asks for no signature at all");
  }
  std::map<wire::Digest, PublicKey> known;
  for (const PublicKey& key : keys.keys) {
    known.emplace(key_id(key), key);
  }
  const wire::Bytes input = signed_input(envelope.role, envelope.message);
  std::set<wire::Digest> held;  // a key counts once, however often it stands there
  for (const KeySignature& one : envelope.signatures) {
    const auto key = known.find(one.key);
    if (key == known.end()) {
      continue;
    }
    if (!verify(key->second, input, one.signature)) {
      return fail(Code::kCorrupt, what + ": the signature of key " + one.key.hex() +
                                      " does not hold; get the file again");
    }
    held.insert(one.key);
  }
  if (held.size() < keys.threshold) {
    return fail(Code::kCorrupt, what + ": signed by " + std::to_string(held.size()) + " of the " +
                                    std::to_string(keys.threshold) + " keys of " +
                                    std::string(whose) + " that it needs");
  }
  return std::vector<wire::Digest>(held.begin(), held.end());
}

}  // namespace goblin::trust
