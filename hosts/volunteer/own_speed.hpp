// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How fast this computer's processors multiply and add, so that a lab node can say how long a job
// would take before any was computed here.
#pragma once

namespace goblin::volunteer {

/// Multiply-adds a second, each counted as two operations, of all threads together.
struct OwnSpeed {
  double f32 = 0;
  double f64 = 0;
};

/// Lets `threads` threads compute in registers for some 10 ms. What memory does to a real task is
/// not in it.
OwnSpeed measure_own_speed(unsigned threads);

}  // namespace goblin::volunteer
