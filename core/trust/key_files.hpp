// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Keys as files of a few lines (docs/catalogue.md has the formats). No file is ever replaced: a key
// that is written over is lost. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/trust/disk_file.hpp"
#include "core/trust/keys.hpp"

namespace goblin::trust {

/// "goblin public key 1", a line with the key.
std::string public_key_text(const PublicKey& key);
/// `origin` names the text in errors. kCorrupt: no such text; kInvalidArgument: a key that cannot
/// be trusted.
Result<PublicKey> parse_public_key(std::string_view text, std::string_view origin);

Result<void> write_public_key(const std::string& path, const PublicKey& key,
                              Durable durable = Durable::kYes);
Result<PublicKey> read_public_key(const std::string& path);

/// A file of mode 0600. With a passphrase it is encrypted: Argon2id (64 MiB, 2 passes) gives the
/// key of XSalsa20-Poly1305. kExhausted: no memory for Argon2id.
Result<void> write_secret_key(const std::string& path, const SecretKey& key,
                              std::string_view passphrase, Durable durable = Durable::kYes);
/// kUnavailable: others may read the file, or another user owns it. kInvalidArgument: it is
/// encrypted and the passphrase is empty or wrong. kCorrupt: damaged, or no such file.
Result<SecretKey> read_secret_key(const std::string& path, std::string_view passphrase);
/// Does reading it need a passphrase?
Result<bool> secret_key_is_encrypted(const std::string& path);

}  // namespace goblin::trust
