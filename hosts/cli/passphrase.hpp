// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Passphrases of key files: from the terminal, without echo, or from a descriptor; never from the
// command line, which others see.
#pragma once

#include <string>

#include "core/trust/keys.hpp"

namespace goblin::cli {

class Passphrases {
 public:
  /// `fd`: one line of it for each passphrase, in the order of keys; -1: the terminal is asked.
  explicit Passphrases(int fd) : fd_(fd) {}

  /// For a key that is about to be made; asked twice at a terminal. kInvalidArgument: empty, or two
  /// different ones; kUnavailable: there is no terminal.
  Result<std::string> make(const std::string& file);
  /// Reads a key, asking for its passphrase when the file is encrypted.
  Result<trust::SecretKey> open(const std::string& file);

 private:
  Result<std::string> ask(const std::string& prompt);
  int fd_;
};

}  // namespace goblin::cli
