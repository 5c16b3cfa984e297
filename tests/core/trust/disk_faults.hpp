// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A disk that fails, dies, or loses what was not synchronised. The calls of the system that change
// a disk come here by the linker's --wrap (CMakeLists.txt). One thread.
#pragma once

#include <cstdint>

namespace goblin::trust::test {

/// Only counts from here on; forgets what came before.
void faults_off();
/// Calls that would have changed the disk since then.
std::uint64_t calls_made();
/// The call of that number (from 0) fails with `error_number`, the others work.
void fail_call(std::uint64_t number, int error_number);
/// A write of that number writes half of its bytes and says so; the others work.
void halve_call(std::uint64_t number);
/// From that call on nothing changes the disk any more: the process was killed there.
void die_at_call(std::uint64_t number);

/// Which renames a loss of power undoes, of those whose directory was not synchronised: a file
/// system may write them in any order.
enum class Undo : std::uint8_t { kNone, kAll, kAllButTheLast };
/// What a loss of power does to the files touched since faults_off: contents that were not
/// synchronised are gone, and renames as said.
void lose_power(Undo undo);

}  // namespace goblin::trust::test
