// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/ready_line.hpp"

#include <unistd.h>

namespace goblin::link {

void say_ready(int fd, const std::string& line) {
  if (fd < 0) {
    return;
  }
  const std::string whole = line + "\n";
  (void)!::write(fd, whole.data(), whole.size());
  ::close(fd);
}

}  // namespace goblin::link
