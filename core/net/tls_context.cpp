// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/tls_context.hpp"

#include <algorithm>
#include <string_view>

#include "core/net/sha256.hpp"

namespace goblin::net {
namespace {

constexpr std::string_view kAlpn = "\x08goblin/1";
/// A self-signed Ed25519 certificate has about 350 bytes.
constexpr long kMaxCertificate = 4096;
/// Bytes that OpenSSL asks the socket for at once.
constexpr std::size_t kReadBuffer = 256u << 10;

/// Replaces OpenSSL's check of chains and dates: a peer is its key, pinned by its digest. That it
/// holds the key, the handshake itself proves.
int verify_peer(X509_STORE_CTX* store, void*) {
  auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* key = static_cast<PeerKey*>(SSL_get_app_data(ssl));
  X509* leaf = X509_STORE_CTX_get0_cert(store);
  const auto refuse = [&](std::string why) {
    key->refused = std::move(why);
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  };
  if (leaf == nullptr || EVP_PKEY_get_id(X509_get0_pubkey(leaf)) != EVP_PKEY_ED25519) {
    return refuse("the peer's key is no Ed25519 key");
  }
  if (X509_self_signed(leaf, 1) != 1) {
    ERR_clear_error();
    return refuse("the peer's certificate is not signed by its own key");
  }
  key->seen = pin_of(leaf);
  if (key->expected && *key->expected != key->seen) {
    return refuse("its key is " + key->seen.hex() + "; " + key->expected->hex() +
                  " was expected: another machine answers at this address, or it has a new "
                  "identity");
  }
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return 1;
}

int choose_alpn(SSL*, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                unsigned int in_length, void*) {
  unsigned char* chosen = nullptr;
  const auto* ours = reinterpret_cast<const unsigned char*>(kAlpn.data());
  if (SSL_select_next_proto(&chosen, out_length, ours, kAlpn.size(), in, in_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Result<ContextPtr> make_context(bool server, EVP_PKEY* key, X509* certificate) {
  ContextPtr context(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* c = context.get();
  if (c == nullptr) {
    return fail(tls_error(Code::kInternal, "cannot set up TLS"));
  }
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  // Memory of a connection that waits goes back; writes may take part of what is offered.
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_default_read_buffer_len(c, kReadBuffer);
  SSL_CTX_set_max_cert_list(c, kMaxCertificate);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(c, verify_peer, nullptr);
  // AES-128-GCM is the fastest where the processor has AES (5.6 GB/s against 5.25 of AES-256 here);
  // ChaCha20 is for a client whose processor has none.
  const bool ok =
      SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(c,
                               "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                               "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
      SSL_CTX_set1_groups_list(c, "X25519") == 1 && SSL_CTX_set1_sigalgs_list(c, "ed25519") == 1 &&
      SSL_CTX_set_num_tickets(c, 0) == 1 && SSL_CTX_use_certificate(c, certificate) == 1 &&
      SSL_CTX_use_PrivateKey(c, key) == 1;
  if (!ok) {
    return fail(tls_error(Code::kInternal, "cannot set up TLS"));
  }
  if (server) {
    SSL_CTX_set_alpn_select_cb(c, choose_alpn, nullptr);
  } else if (SSL_CTX_set_alpn_protos(c, reinterpret_cast<const unsigned char*>(kAlpn.data()),
                                     kAlpn.size()) != 0) {
    return fail(tls_error(Code::kInternal, "cannot set up TLS"));
  }
  return context;
}

}  // namespace

Error tls_error(Code code, const std::string& what) {
  const unsigned long number = ERR_peek_last_error();
  const char* reason = number == 0 ? nullptr : ERR_reason_error_string(number);
  ERR_clear_error();
  return {code, what + (reason == nullptr ? "" : std::string(": ") + reason)};
}

wire::Digest pin_of(const X509* certificate) {
  unsigned char* der = nullptr;
  const int length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
  if (length <= 0) {
    return {};
  }
  const wire::Digest pin =
      sha256({reinterpret_cast<const std::byte*>(der), static_cast<std::size_t>(length)});
  OPENSSL_free(der);
  return pin;
}

bool speaks_goblin(const SSL* ssl) {
  const unsigned char* chosen = nullptr;
  unsigned int length = 0;
  SSL_get0_alpn_selected(ssl, &chosen, &length);
  return std::string_view(reinterpret_cast<const char*>(chosen), length) == kAlpn.substr(1);
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::create(KeyPtr key,
                                                               CertificatePtr certificate) {
  auto made = std::make_shared<TlsIdentity>();
  made->pin_ = pin_of(certificate.get());
  GOBLIN_TRY(made->client_, make_context(false, key.get(), certificate.get()));
  GOBLIN_TRY(made->server_, make_context(true, key.get(), certificate.get()));
  return std::shared_ptr<const TlsIdentity>(std::move(made));
}

SslPtr TlsIdentity::connection(bool server, PeerKey& key) const {
  SslPtr ssl(SSL_new(server ? server_.get() : client_.get()));
  if (ssl) {
    SSL_set_app_data(ssl.get(), &key);
    if (server) {
      SSL_set_accept_state(ssl.get());
    } else {
      SSL_set_connect_state(ssl.get());
    }
  }
  return ssl;
}

}  // namespace goblin::net
