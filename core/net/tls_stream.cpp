// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/tls_stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace goblin::net {
namespace {

/// Plaintext of one TLS record at most, and how much its header, type and tag add.
constexpr std::size_t kRecord = 16384;
constexpr std::size_t kRecordExtra = 64;
/// Ciphertext that goes to the socket in one call. More loses more in the cache than it saves.
constexpr std::size_t kOut = 256u << 10;
/// Room that OpenSSL may fill beside it: a handshake's messages, an alert.
constexpr std::size_t kOutSlack = 32u << 10;

}  // namespace

// OpenSSL reads straight from the socket, in large pieces, and writes into `out_`, so that many
// records leave with one system call.
int TlsStream::bio_read(BIO* bio, char* out, int length) {
  auto* self = static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self->drained_) {
    BIO_set_retry_read(bio);
    return -1;
  }
  ssize_t n = 0;
  do {
    n = ::recv(self->socket_.get(), out, static_cast<std::size_t>(length), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      self->drained_ = true;
      BIO_set_retry_read(bio);
    } else {
      self->socket_error_ = errno;
    }
    return -1;
  }
  // A short read has emptied the socket; asking again would only cost a system call.
  self->drained_ = n > 0 && n < length;
  return static_cast<int>(n);
}

int TlsStream::bio_write(BIO* bio, const char* in, int length) {
  auto* self = static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const auto size = static_cast<std::size_t>(length);
  if (!self->out_) {
    self->out_ = std::make_unique_for_overwrite<std::byte[]>(kOut + kOutSlack);
  }
  if (self->out_end_ + size > kOut + kOutSlack) {
    if (self->pending() + size > kOut + kOutSlack) {
      BIO_set_retry_write(bio);
      return -1;
    }
    std::memmove(self->out_.get(), self->out_.get() + self->out_begin_, self->pending());
    self->out_end_ = self->pending();
    self->out_begin_ = 0;
  }
  std::memcpy(self->out_.get() + self->out_end_, in, size);
  self->out_end_ += size;
  return length;
}

long TlsStream::bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* TlsStream::bio_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "goblin");
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

TlsStream::TlsStream(UniqueFd socket, std::shared_ptr<const Identity> self, bool server,
                     std::optional<wire::Digest> expected)
    : socket_(std::move(socket)), self_(std::move(self)) {
  key_.expected = expected;
  ssl_ = tls_identity(*self_).connection(server, key_);
}

Result<std::unique_ptr<TlsStream>> TlsStream::create(UniqueFd socket,
                                                     std::shared_ptr<const Identity> self,
                                                     bool server,
                                                     std::optional<wire::Digest> expected) {
  std::unique_ptr<TlsStream> made(
      new TlsStream(std::move(socket), std::move(self), server, expected));
  BIO* bio = BIO_new(bio_method());
  if (!made->ssl_ || bio == nullptr) {
    BIO_free(bio);
    return fail(tls_error(Code::kExhausted, "cannot set up TLS"));
  }
  BIO_set_data(bio, made.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(made->ssl_.get(), bio, bio);
  return made;
}

Error TlsStream::broken(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind == SSL_ERROR_ZERO_RETURN) {
    return {Code::kUnavailable, "the peer closed the connection"};
  }
  if (socket_error_ != 0) {
    ERR_clear_error();
    return errno_error(Code::kUnavailable, "the connection was lost", socket_error_);
  }
  const unsigned long number = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(number);
  if (kind == SSL_ERROR_SYSCALL || number == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return {Code::kUnavailable, "the connection was lost"};
  }
  if (!key_.refused.empty()) {
    ERR_clear_error();
    return {Code::kCorrupt, key_.refused};
  }
  // Alerts that the peer sent have these numbers.
  if (reason >= SSL_AD_REASON_OFFSET) {
    return tls_error(Code::kUnavailable, "the peer ended the connection");
  }
  return tls_error(Code::kCorrupt, "the peer does not speak TLS 1.3 as it must");
}

Task<Result<void>> TlsStream::handshake(Reactor& loop, TimePoint deadline) {
  GOBLIN_CO_TRY(const std::unique_ptr<FdWatch> watch, loop.watch(socket_.get()));
  while (true) {
    drained_ = false;
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    std::optional<Error> error;
    if (result != 1 && SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ) {
      error = broken(result);
    }
    // Also a refusal's alert, so that the peer can say why.
    auto flushed = flush();
    if (error) {
      co_return fail(*error);
    }
    if (!flushed) {
      co_return fail(flushed.error());
    }
    if (result == 1) {
      break;
    }
    const Readiness what = *flushed ? Readiness::kRead : Readiness::kWrite;
    const bool ready = co_await wait_ready(loop, *watch, what, deadline);
    if (!ready) {
      co_return fail(Code::kUnavailable, "the TLS handshake took too long");
    }
  }
  if (!speaks_goblin(ssl_.get())) {
    co_return fail(Code::kCorrupt, "the peer does not speak goblin/1 (ALPN)");
  }
  co_return {};
}

Result<std::size_t> TlsStream::read(std::span<std::byte> out, std::vector<UniqueFd>&) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    std::size_t n = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), out.data() + filled, out.size() - filled, &n);
    if (result == 1) {
      filled += n;
      continue;
    }
    if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) {
      drained_ = false;
      break;
    }
    if (filled != 0) {
      break;  // the error comes again
    }
    return fail(broken(result));
  }
  if (pending() != 0) {
    // An answer to a key update; write errors show at the next write.
    static_cast<void>(flush());
  }
  return filled;
}

Result<std::size_t> TlsStream::write(std::span<const iovec> parts, std::span<const UniqueFd>) {
  std::size_t taken = 0;
  std::size_t part = 0;
  std::size_t offset = 0;
  std::array<std::byte, kRecord> record;
  while (part < parts.size()) {
    if (pending() + kRecord + kRecordExtra > kOut) {
      GOBLIN_TRY(const bool empty, drain());
      if (!empty && pending() + kRecord + kRecordExtra > kOut) {
        break;
      }
    }
    // Small parts share a record.
    const std::byte* from = static_cast<const std::byte*>(parts[part].iov_base) + offset;
    std::size_t size = parts[part].iov_len - offset;
    if (size >= kRecord || part + 1 == parts.size()) {
      size = std::min(size, kRecord);
      offset += size;
    } else {
      size = 0;
      while (part < parts.size() && size < kRecord) {
        const std::size_t n = std::min(kRecord - size, parts[part].iov_len - offset);
        std::memcpy(record.data() + size,
                    static_cast<const std::byte*>(parts[part].iov_base) + offset, n);
        size += n;
        offset += n;
        if (offset == parts[part].iov_len) {
          ++part;
          offset = 0;
        }
      }
      from = record.data();
    }
    if (part < parts.size() && offset == parts[part].iov_len) {
      ++part;
      offset = 0;
    }
    std::size_t n = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_.get(), from, size, &n);
    if (result != 1 || n != size) {
      return fail(broken(result));
    }
    taken += size;
  }
  return taken;
}

Result<bool> TlsStream::flush() {
  auto empty = drain();
  if (empty && *empty) {
    out_.reset();  // a connection that waits holds no buffer
  }
  return empty;
}

Result<bool> TlsStream::drain() {
  while (pending() != 0) {
    const ssize_t n =
        ::send(socket_.get(), out_.get() + out_begin_, pending(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      out_begin_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return fail(errno_error(Code::kUnavailable, "the connection was lost", errno));
    }
  }
  out_begin_ = out_end_ = 0;
  return true;
}

void TlsStream::say_goodbye() {
  if (SSL_is_init_finished(ssl_.get()) != 0) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  static_cast<void>(flush());
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace goblin::net
