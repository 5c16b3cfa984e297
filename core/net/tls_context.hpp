// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// OpenSSL's objects with owners, and the one TLS configuration. For this folder's .cpp files only.
#pragma once

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <optional>

#include "core/net/channel.hpp"

namespace goblin::net {

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Free<BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Free<X509_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Free<SSL_free>>;

/// "what: OpenSSL's last reason"; empties OpenSSL's queue of errors.
Error tls_error(Code code, const std::string& what);

/// SHA-256 of the DER of a certificate's public key (SPKI).
wire::Digest pin_of(const X509* certificate);

/// What one handshake expects of the peer's key and has seen of it. Attached to its SSL.
struct PeerKey {
  std::optional<wire::Digest> expected;
  wire::Digest seen;
  std::string refused;  ///< why it was; empty: it was not
};

class TlsIdentity final : public Identity {
 public:
  static Result<std::shared_ptr<const TlsIdentity>> create(KeyPtr key, CertificatePtr certificate);
  [[nodiscard]] const wire::Digest& pin() const override { return pin_; }
  /// A new connection's state; `key` outlives it.
  [[nodiscard]] SslPtr connection(bool server, PeerKey& key) const;

 private:
  ContextPtr client_, server_;
  wire::Digest pin_;
};

/// Every Identity is made by Identity::load_or_create and is a TlsIdentity.
inline const TlsIdentity& tls_identity(const Identity& identity) {
  return static_cast<const TlsIdentity&>(identity);
}

/// True when both sides agreed on "goblin/1".
bool speaks_goblin(const SSL* ssl);

}  // namespace goblin::net
