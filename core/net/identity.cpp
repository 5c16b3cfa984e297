// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <fcntl.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/net/sha256.hpp"
#include "core/net/stream.hpp"
#include "core/net/tls_context.hpp"

namespace goblin::net {
namespace {

constexpr std::size_t kMaxFile = 64u << 10;

/// A file's text; nullopt when there is none.
Result<std::optional<std::string>> read_file(const std::string& path, bool secret) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    return fail(errno_error(Code::kUnavailable, "cannot open " + path, errno));
  }
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) {
    return fail(Code::kUnavailable, path + " is no plain file: move it away");
  }
  if (secret && (file.st_mode & 077) != 0) {
    return fail(Code::kUnavailable, "others may read the key " + path +
                                        ": make it private (chmod 600), and if somebody may have "
                                        "copied it, delete it so that a new one is made");
  }
  if (secret && file.st_uid != ::geteuid()) {
    return fail(Code::kUnavailable, "the key " + path + " belongs to user " +
                                        std::to_string(file.st_uid) + ", not to this one (" +
                                        std::to_string(::geteuid()) + ")");
  }
  std::string text(kMaxFile + 1, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) {
    return fail(errno_error(Code::kUnavailable, "cannot read " + path, errno));
  }
  if (static_cast<std::size_t>(n) > kMaxFile) {
    return fail(Code::kCorrupt, path + " is longer than " + std::to_string(kMaxFile) + " bytes");
  }
  text.resize(static_cast<std::size_t>(n));
  return text;
}

/// Whole or not at all. With `keep`, a file that is there stays.
Result<void> write_file(const std::string& path, const std::string& text, mode_t mode, bool keep) {
  const std::string part = path + "." + std::to_string(::getpid()) + ".part";
  ::unlink(part.c_str());
  const UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  int error = fd ? 0 : errno;
  if (fd && (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
             ::fsync(fd.get()) != 0)) {
    error = errno != 0 ? errno : EIO;
  }
  if (error == 0) {
    // link() never replaces: of two processes that start at once, one key wins for both.
    const bool done = keep ? ::link(part.c_str(), path.c_str()) == 0 || errno == EEXIST
                           : ::rename(part.c_str(), path.c_str()) == 0;
    error = done ? 0 : errno;
  }
  ::unlink(part.c_str());
  if (error != 0) {
    return fail(errno_error(Code::kUnavailable, "cannot write " + path, error));
  }
  return {};
}

BioPtr bio_of(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Result<void> make_directory(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path path(directory);
  if (path.has_parent_path()) {
    std::filesystem::create_directories(path.parent_path(), error);
  }
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(errno_error(Code::kUnavailable, "cannot make the directory " + directory, errno));
  }
  struct stat file {};
  if (::stat(directory.c_str(), &file) != 0 || !S_ISDIR(file.st_mode)) {
    return fail(Code::kUnavailable, directory + " is no directory");
  }
  if ((file.st_mode & 022) != 0) {
    return fail(Code::kUnavailable, "others may write to the directory of the key, " + directory +
                                        ": make it private (chmod 700)");
  }
  return {};
}

Result<KeyPtr> load_or_make_key(const std::string& path) {
  GOBLIN_TRY(auto text, read_file(path, true));
  if (!text) {
    const KeyPtr made(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    const BioPtr out(BIO_new(BIO_s_mem()));
    if (!made || PEM_write_bio_PKCS8PrivateKey(out.get(), made.get(), nullptr, nullptr, 0, nullptr,
                                               nullptr) != 1) {
      return fail(tls_error(Code::kInternal, "cannot make a key"));
    }
    GOBLIN_TRY_VOID(write_file(path, text_of(out.get()), 0600, true));
    GOBLIN_TRY(text, read_file(path, true));
  }
  KeyPtr key(text ? PEM_read_bio_PrivateKey(bio_of(*text).get(), nullptr, nullptr, nullptr)
                  : nullptr);
  if (!key || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    ERR_clear_error();
    return fail(Code::kCorrupt, path +
                                    " is no Ed25519 key in PEM: restore it from a backup, or move "
                                    "it and identity.crt away to get a new identity");
  }
  return key;
}

/// Self-signed; names nothing about this machine and never expires: peers pin the key.
Result<CertificatePtr> make_certificate(EVP_PKEY* key) {
  CertificatePtr made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  ASN1_TIME_set_string(X509_getm_notBefore(made.get()), "20000101000000Z");
  ASN1_TIME_set_string(X509_getm_notAfter(made.get()), "99991231235959Z");
  X509_NAME* name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("goblin"), -1, -1, 0);
  X509_set_issuer_name(made.get(), name);
  X509_set_pubkey(made.get(), key);
  if (X509_sign(made.get(), key, nullptr) == 0) {
    return fail(tls_error(Code::kInternal, "cannot sign the certificate"));
  }
  return made;
}

Result<CertificatePtr> load_or_make_certificate(const std::string& path, EVP_PKEY* key) {
  GOBLIN_TRY(const auto text, read_file(path, false));
  if (!text) {
    GOBLIN_TRY(CertificatePtr made, make_certificate(key));
    const BioPtr out(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(out.get(), made.get());
    GOBLIN_TRY_VOID(write_file(path, text_of(out.get()), 0644, false));
    return made;
  }
  CertificatePtr certificate(PEM_read_bio_X509(bio_of(*text).get(), nullptr, nullptr, nullptr));
  if (!certificate || X509_check_private_key(certificate.get(), key) != 1) {
    ERR_clear_error();
    return fail(Code::kCorrupt, path +
                                    " does not belong to identity.key beside it: restore the one "
                                    "that does, or move it away so that it is made anew");
  }
  return certificate;
}

}  // namespace

Result<std::shared_ptr<const Identity>> Identity::load_or_create(const std::string& directory) {
  GOBLIN_TRY_VOID(make_directory(directory));
  GOBLIN_TRY(const auto certificate_text, read_file(directory + "/identity.crt", false));
  GOBLIN_TRY(const auto key_text, read_file(directory + "/identity.key", true));
  if (certificate_text && !key_text) {
    return fail(Code::kCorrupt, directory +
                                    " has identity.crt but no identity.key: restore the key from "
                                    "a backup, or move identity.crt away to get a new identity");
  }
  GOBLIN_TRY(KeyPtr key, load_or_make_key(directory + "/identity.key"));
  GOBLIN_TRY(CertificatePtr certificate,
             load_or_make_certificate(directory + "/identity.crt", key.get()));
  GOBLIN_TRY(auto identity, TlsIdentity::create(std::move(key), std::move(certificate)));
  return std::shared_ptr<const Identity>(std::move(identity));
}

}  // namespace goblin::net
