// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Descriptors that came with a message over a Unix socket. POSIX only; any thread.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "core/net/unique_fd.hpp"

namespace goblin::net {

/// Appends the descriptors of `message`, which recvmsg() has just filled: each is owned from here
/// on, so that none leaks whatever is wrong with the message. MSG_CTRUNC is the caller's to check.
inline void take_descriptors(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
}

}  // namespace goblin::net
