// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Parameter "mode" of a job of kind jail-probe/1.
#pragma once

#include <cstdint>

namespace goblin::testing {

enum ProbeMode : std::int64_t {
  kHarmless,    ///< each probe that does not end its runner
  kAll,         ///< those, too
  kLoadTime,    ///< what a constructor tried while the plugin was loaded
  kSpinDeafly,  ///< an endless loop with every signal blocked, deaf to cancellation
  kStopItself,  ///< SIGSTOP
};

inline constexpr double kLeftOut = -1;  ///< a probe that was not tried

}  // namespace goblin::testing
