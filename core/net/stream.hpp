// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The non-blocking bytes under a channel: a plain Unix socket or TLS over TCP. For this folder's
// .cpp files only.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::net {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual bool carries_fds() const = 0;
  /// Reads up to out.size() (> 0) bytes; 0: none now, wait for readability. Descriptors that came
  /// with them are appended to `fds`; they belong to the frame of the last byte read. kUnavailable
  /// at the end.
  virtual Result<std::size_t> read(std::span<std::byte> out, std::vector<UniqueFd>& fds) = 0;
  /// Takes bytes of `parts`, in order, and says how many; 0: none now, wait for writability. `fds`
  /// travel with the first byte.
  virtual Result<std::size_t> write(std::span<const iovec> parts,
                                    std::span<const UniqueFd> fds) = 0;
  /// Hands to the kernel what write() has taken and kept. True when nothing is left.
  virtual Result<bool> flush() = 0;
  /// Tells the peer that this is the end, as far as that goes without waiting.
  virtual void say_goodbye() = 0;
};

/// `socket`: connected and non-blocking.
std::unique_ptr<ByteStream> unix_stream(UniqueFd socket);

/// "what: message of errno".
Error errno_error(Code code, const std::string& what, int number);

}  // namespace goblin::net
