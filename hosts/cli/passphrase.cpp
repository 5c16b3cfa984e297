// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/passphrase.hpp"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/net/unique_fd.hpp"
#include "core/trust/key_files.hpp"

namespace goblin::cli {
namespace {

constexpr std::size_t kLongest = 1024;

/// Up to the end of the line, not a byte further: the next passphrase stands there.
Result<std::string> read_line(int fd) {
  std::string line;
  while (true) {
    char c = 0;
    const ssize_t n = ::read(fd, &c, 1);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail(Code::kUnavailable,
                  "the passphrase cannot be read: " + std::string(std::strerror(errno)));
    }
    if (n == 0 || c == '\n') {
      return line;
    }
    if (line.size() == kLongest) {
      return fail(Code::kInvalidArgument,
                  "a passphrase has at most " + std::to_string(kLongest) + " bytes");
    }
    line += c;
  }
}

void write_text(int fd, const std::string& text) {
  [[maybe_unused]] const auto n = ::write(fd, text.data(), text.size());
}

}  // namespace

Result<std::string> Passphrases::ask(const std::string& prompt) {
  if (fd_ >= 0) {
    return read_line(fd_);
  }
  const net::UniqueFd terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  termios before{};
  if (!terminal || ::tcgetattr(terminal.get(), &before) != 0) {
    return fail(Code::kUnavailable,
                "there is no terminal to ask for a passphrase: give it as a line of a descriptor, "
                "--passphrase-fd N");
  }
  termios silent = before;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  write_text(terminal.get(), prompt);
  ::tcsetattr(terminal.get(), TCSAFLUSH, &silent);
  auto line = read_line(terminal.get());
  ::tcsetattr(terminal.get(), TCSAFLUSH, &before);
  write_text(terminal.get(), "\n");
  return line;
}

Result<std::string> Passphrases::make(const std::string& file) {
  GOBLIN_TRY(std::string first, ask("passphrase for the new key '" + file + "': "));
  if (first.empty()) {
    return fail(Code::kInvalidArgument, "the passphrase of '" + file +
                                            "' is empty: a key without one is made with "
                                            "--no-passphrase");
  }
  if (fd_ < 0) {
    GOBLIN_TRY(const std::string second, ask("the same passphrase again: "));
    if (first != second) {
      return fail(Code::kInvalidArgument, "the two passphrases differ: no key was made");
    }
  }
  return first;
}

Result<trust::SecretKey> Passphrases::open(const std::string& file) {
  GOBLIN_TRY(const bool encrypted, trust::secret_key_is_encrypted(file));
  std::string passphrase;
  if (encrypted) {
    GOBLIN_TRY(passphrase, ask("passphrase of '" + file + "': "));
  }
  return trust::read_secret_key(file, passphrase);
}

}  // namespace goblin::cli
