// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Does the daemon answer; and if it does not run, is its port free?
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "core/net/unique_fd.hpp"
#include "hosts/cli/ask.hpp"
#include "hosts/cli/doctor/check.hpp"

namespace goblin::cli::doctor {
namespace {

/// errno of a socket that would listen there, else 0.
int try_to_listen(const std::string& address, std::uint16_t port) {
  sockaddr_in6 six{};
  sockaddr_in four{};
  const bool is_six = ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1;
  if (!is_six && ::inet_pton(AF_INET, address.c_str(), &four.sin_addr) != 1) {
    return EADDRNOTAVAIL;
  }
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const net::UniqueFd fd(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* to =
      is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  const socklen_t size = is_six ? sizeof six : sizeof four;
  return ::bind(fd.get(), to, size) == 0 && ::listen(fd.get(), 1) == 0 ? 0 : errno;
}

}  // namespace

void check_daemon(const Subject& subject, Findings& findings) {
  if (subject.socket.empty()) {
    return;
  }
  const auto answer = ask(subject.socket, role_of(subject.role), wire::GetStatus{});
  if (answer) {
    findings.good("daemon", "it answers at " + subject.socket);
    return;
  }
  if (answer.error().code == Code::kInvalidArgument) {
    findings.bad("daemon", answer.error().message, "name this role's own --socket");
    return;
  }
  findings.note("daemon", "it does not run", "start it with `goblin " + subject.role + " run`");
  if (subject.listen_address.empty() || subject.listen_port == 0) {
    return;
  }
  const std::string where = subject.listen_address + ":" + std::to_string(subject.listen_port);
  const int error = try_to_listen(subject.listen_address, subject.listen_port);
  if (error == 0) {
    findings.good("port", where + " is free");
  } else {
    findings.bad("port", where + ": " + std::strerror(error),
                 error == EADDRINUSE
                     ? "end the program that uses it (`ss -ltnp` shows which), or set listen.port"
                     : "set listen.address and listen.port to what this computer has and may use");
  }
}

}  // namespace goblin::cli::doctor
