// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// AddressSanitizer and ThreadSanitizer reserve terabytes, trace their own process, start threads
// and programs and write files: nothing of which a jail allows. Such a build leaves it out and says
// so; nobody installs one.
#pragma once

namespace goblin::jail {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace goblin::jail
