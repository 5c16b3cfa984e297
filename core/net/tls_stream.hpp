// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// TLS over a TCP socket. For this folder's .cpp files only.
#pragma once

#include "core/net/reactor.hpp"
#include "core/net/stream.hpp"
#include "core/net/tls_context.hpp"

namespace goblin::net {

class TlsStream final : public ByteStream {
 public:
  /// `socket`: connected and non-blocking. `expected`: the only key to talk to; clients have one.
  static Result<std::unique_ptr<TlsStream>> create(UniqueFd socket,
                                                   std::shared_ptr<const Identity> self,
                                                   bool server,
                                                   std::optional<wire::Digest> expected);
  /// Completes when this side's handshake is done. A client learns only from its first read whether
  /// the server has accepted its key. kCorrupt: the peer's key or protocol is not what it must be.
  Task<Result<void>> handshake(Reactor& loop, TimePoint deadline);
  [[nodiscard]] const wire::Digest& peer_pin() const { return key_.seen; }

  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] bool carries_fds() const override { return false; }
  Result<std::size_t> read(std::span<std::byte> out, std::vector<UniqueFd>& fds) override;
  Result<std::size_t> write(std::span<const iovec> parts, std::span<const UniqueFd> fds) override;
  Result<bool> flush() override;
  void say_goodbye() override;

 private:
  TlsStream(UniqueFd socket, std::shared_ptr<const Identity> self, bool server,
            std::optional<wire::Digest> expected);
  static const BIO_METHOD* bio_method();
  static int bio_read(BIO* bio, char* out, int length);
  static int bio_write(BIO* bio, const char* in, int length);
  static long bio_control(BIO* bio, int command, long number, void* pointer);
  [[nodiscard]] std::size_t pending() const { return out_end_ - out_begin_; }
  /// flush() without releasing the buffer.
  Result<bool> drain();
  Error broken(int result);

  UniqueFd socket_;
  std::shared_ptr<const Identity> self_;
  PeerKey key_;
  SslPtr ssl_;
  /// The socket said that it has no more bytes for now.
  bool drained_ = false;
  int socket_error_ = 0;
  /// Ciphertext on its way to the socket; released while there is none.
  std::unique_ptr<std::byte[]> out_;
  std::size_t out_begin_ = 0, out_end_ = 0;
};

}  // namespace goblin::net
