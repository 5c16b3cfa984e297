// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/key_files.hpp"

#include <vector>

#include "core/trust/disk_file.hpp"
#include "core/trust/sodium.hpp"

namespace goblin::trust {
namespace {

constexpr std::string_view kPublicHeader = "goblin public key 1";
constexpr std::string_view kSecretHeader = "goblin secret key 1";
constexpr std::string_view kPlain = "not encrypted";
constexpr std::string_view kEncrypted = "argon2id 2 67108864 xsalsa20-poly1305";
// The numbers of that line: libsodium's INTERACTIVE, which later releases may change.
constexpr unsigned long long kPasses = 2;
constexpr std::size_t kMemoryBytes = 67108864;
constexpr std::uint64_t kMaxKeyFile = 1024;
constexpr std::size_t kBoxBytes = kSeedBytes + crypto_secretbox_MACBYTES;

/// Text that is wiped when it goes.
struct SecretText {
  std::string text;
  SecretText() = default;
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText() { sodium_memzero(text.data(), text.size()); }
};

template <std::size_t N>
struct SecretBytes {
  std::array<std::uint8_t, N> bytes{};
  SecretBytes() = default;
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  ~SecretBytes() { sodium_memzero(bytes.data(), N); }
};

void append_hex(std::string& text, std::span<const std::uint8_t> bytes) {
  SecretText hex;
  hex.text.resize(bytes.size() * 2 + 1);
  sodium_bin2hex(hex.text.data(), hex.text.size(), bytes.data(), bytes.size());
  hex.text.back() = '\n';
  text += hex.text;
}

/// Exactly out.size() bytes of lower-case hexadecimal digits.
bool parse_hex(std::string_view hex, std::span<std::uint8_t> out) {
  if (hex.size() != out.size() * 2 ||
      hex.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return false;
  }
  std::size_t count = 0;
  return sodium_hex2bin(out.data(), out.size(), hex.data(), hex.size(), nullptr, &count, nullptr) ==
             0 &&
         count == out.size();
}

/// The lines of a text that ends with a line break; none of another text.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      return {};
    }
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string_view text_of(const wire::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct SecretFile {
  wire::Bytes bytes;
  std::vector<std::string_view> lines;  ///< of bytes
  bool encrypted = false;
  SecretFile() = default;
  SecretFile(SecretFile&&) = default;
  SecretFile& operator=(SecretFile&&) = delete;
  ~SecretFile() { sodium_memzero(bytes.data(), bytes.size()); }
};

tl::unexpected<Error> damaged(const std::string& path, std::string_view why) {
  return fail(Code::kCorrupt, "'" + path + "' is no secret key file of GPU Goblin (" +
                                  std::string(why) + "); restore it from a backup");
}

Result<SecretFile> open_secret(const std::string& path) {
  start_sodium();
  SecretFile file;
  GOBLIN_TRY(file.bytes, read_file(path, kMaxKeyFile, Readers::kOwnerOnly));
  file.lines = lines_of(text_of(file.bytes));
  if (file.lines.empty() || file.lines[0] != kSecretHeader) {
    return damaged(path, "its first line is not \"" + std::string(kSecretHeader) + "\"");
  }
  if (file.lines.size() == 4 && file.lines[2] == kPlain) {
    return file;
  }
  if (file.lines.size() == 6 && file.lines[2] == kEncrypted) {
    file.encrypted = true;
    return file;
  }
  return damaged(path, "its third line or the number of lines is unknown");
}

/// The key of the box; slow on purpose.
Result<void> derive(std::string_view passphrase,
                    std::span<const std::uint8_t, crypto_pwhash_SALTBYTES> salt,
                    SecretBytes<crypto_secretbox_KEYBYTES>& key) {
  if (crypto_pwhash(key.bytes.data(), key.bytes.size(), passphrase.data(), passphrase.size(),
                    salt.data(), kPasses, kMemoryBytes, crypto_pwhash_ALG_ARGON2ID13) != 0) {
    return fail(Code::kExhausted,
                "no 64 MiB of memory for the passphrase's key; free memory or raise this process' "
                "limit (ulimit -v)");
  }
  return {};
}

}  // namespace

std::string public_key_text(const PublicKey& key) {
  start_sodium();
  std::string text = std::string(kPublicHeader) + "\n";
  append_hex(text, key.bytes);
  return text;
}

Result<PublicKey> parse_public_key(std::string_view text, std::string_view origin) {
  start_sodium();
  const auto lines = lines_of(text);
  PublicKey key;
  if (lines.size() != 2 || lines[0] != kPublicHeader || !parse_hex(lines[1], key.bytes)) {
    return fail(Code::kCorrupt, std::string(origin) + " holds no public key: a line \"" +
                                    std::string(kPublicHeader) +
                                    "\" and one of 64 hexadecimal digits were expected; ask the "
                                    "key's owner for the file");
  }
  if (auto good = check_public_key(key); !good) {
    return fail(good.error().with_context(origin));
  }
  return key;
}

Result<void> write_public_key(const std::string& path, const PublicKey& key, Durable durable) {
  GOBLIN_TRY_VOID(check_public_key(key));
  const std::string text = public_key_text(key);
  return write_file(path, std::as_bytes(std::span(text)), 0644, Existing::kRefuse, durable);
}

Result<PublicKey> read_public_key(const std::string& path) {
  GOBLIN_TRY(const wire::Bytes bytes, read_file(path, kMaxKeyFile, Readers::kAnybody));
  return parse_public_key(text_of(bytes), "'" + path + "'");
}

Result<void> write_secret_key(const std::string& path, const SecretKey& key,
                              std::string_view passphrase, Durable durable) {
  start_sodium();
  SecretText file;
  file.text.reserve(kMaxKeyFile);  // grown text would leave copies behind
  file.text.append(kSecretHeader).append("\n");
  append_hex(file.text, key.public_key().bytes);
  if (passphrase.empty()) {
    file.text.append(kPlain).append("\n");
    append_hex(file.text, key.seed());
  } else {
    std::array<std::uint8_t, crypto_pwhash_SALTBYTES> salt{};
    std::array<std::uint8_t, crypto_secretbox_NONCEBYTES> nonce{};
    std::array<std::uint8_t, kBoxBytes> box{};
    SecretBytes<crypto_secretbox_KEYBYTES> derived;
    randombytes_buf(salt.data(), salt.size());
    randombytes_buf(nonce.data(), nonce.size());
    GOBLIN_TRY_VOID(derive(passphrase, salt, derived));
    crypto_secretbox_easy(box.data(), key.seed().data(), kSeedBytes, nonce.data(),
                          derived.bytes.data());
    file.text.append(kEncrypted).append("\n");
    append_hex(file.text, salt);
    append_hex(file.text, nonce);
    append_hex(file.text, box);
  }
  return write_file(path, std::as_bytes(std::span(file.text)), 0600, Existing::kRefuse, durable);
}

Result<bool> secret_key_is_encrypted(const std::string& path) {
  GOBLIN_TRY(const SecretFile file, open_secret(path));
  return file.encrypted;
}

Result<SecretKey> read_secret_key(const std::string& path, std::string_view passphrase) {
  GOBLIN_TRY(const SecretFile file, open_secret(path));
  PublicKey named;
  if (!parse_hex(file.lines[1], named.bytes)) {
    return damaged(path, "its second line is no public key");
  }
  SecretBytes<kSeedBytes> seed;
  if (!file.encrypted) {
    if (!parse_hex(file.lines[3], seed.bytes)) {
      return damaged(path, "its last line is no key");
    }
  } else {
    std::array<std::uint8_t, crypto_pwhash_SALTBYTES> salt{};
    std::array<std::uint8_t, crypto_secretbox_NONCEBYTES> nonce{};
    std::array<std::uint8_t, kBoxBytes> box{};
    if (!parse_hex(file.lines[3], salt) || !parse_hex(file.lines[4], nonce) ||
        !parse_hex(file.lines[5], box)) {
      return damaged(path, "salt, nonce or box is no hexadecimal number of its length");
    }
    if (passphrase.empty()) {
      return fail(Code::kInvalidArgument,
                  "the secret key '" + path + "' is encrypted; give its passphrase");
    }
    SecretBytes<crypto_secretbox_KEYBYTES> derived;
    GOBLIN_TRY_VOID(derive(passphrase, salt, derived));
    if (crypto_secretbox_open_easy(seed.bytes.data(), box.data(), box.size(), nonce.data(),
                                   derived.bytes.data()) != 0) {
      return fail(Code::kInvalidArgument,
                  "the passphrase of the secret key '" + path +
                      "' is wrong, or the file is damaged; try again, or restore it from a backup");
    }
  }
  SecretKey key = SecretKey::from_seed(seed.bytes);
  if (key.public_key() != named) {
    return damaged(path, "secret and public key do not belong together");
  }
  return key;
}

}  // namespace goblin::trust
