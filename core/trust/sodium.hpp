// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// libsodium, started. For the .cpp files of this folder only.
#pragma once

#include <sodium.h>

namespace goblin::trust {

/// Says why and ends the process: the system has no memory or no random numbers.
[[noreturn]] void sodium_failed(const char* why);

/// Before any other call of libsodium; cheap after the first. Any thread.
void start_sodium();

}  // namespace goblin::trust
