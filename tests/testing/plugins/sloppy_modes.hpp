// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the plugin sloppy.so gets wrong, though its honest jobs end well: parameter "mode" of a job
// of kind sloppy/1. tests/contract makes sure that the conformance kit finds each.
#pragma once

#include <cstdint>

namespace goblin::testing {

enum SloppyMode : std::int64_t {
  kFlawless,
  // validate
  kValidateThrows,        ///< a standard exception, for odd lengths over 1000
  kValidateNamesNothing,  ///< refuses without naming the argument
  kValidateLowEstimate,   ///< of flops
  kValidateLowMemory,     ///< min_task_bytes of which no task can live
  // planner
  kStateIsBelieved,   ///< a length of the state is read past its end
  kStateCrashes,      ///< an index of the state is used as it is
  kStateHangs,        ///< a step of 0 in the state loops for ever
  kStateIsForgotten,  ///< other tasks under the same numbers after a restart
  kNextIgnoresMemory,
  kNextCrashesWithoutHosts,  ///< divides by the number of hosts
  kNextSaysNoBytes,          ///< EXHAUSTED without saying how much is needed
  kNextUnderstatesMemory,
  kNextWaitsForEver,      ///< after the first task
  kNextLosesRefusedTask,  ///< what a host could not hold is not planned again
  kAcceptByNumber,        ///< writes where an unknown task's number points
  kAcceptAppends,         ///< a second result of a task is added to the first
  kRecallRounds,          ///< gives back other bits
  kRecallByNumber,        ///< reads where an unknown task's number points
  kFinishTwice,           ///< a second finish changes the result
  kBitsOfCapacity,        ///< the result depends on the hosts' memory
  kBitsOfThreads,         ///< and on their threads
  kBitsOfLayout,          ///< reads strided inputs as if they were row-major
  // execute
  kExecuteTrustsShape,  ///< writes as many elements as x has into y
  kExecuteLeavesHoles,  ///< does not write every element
  kExecuteIgnoresCancel,
  kExecuteNeedsMemory,  ///< 96 MiB that no task declares
  // check, compare
  kCheckTrustsShape,  ///< crashes on short outputs
  kCheckAcceptsNan,
  kCheckRejectsOnSeed,  ///< an honest result, when the seed is all ones
  kCheckAcceptsAll,
  kCheckAbstains,    ///< always
  kCompareByLength,  ///< of the shorter result
  kCompareIsEmpty,   ///< crashes when an output is missing
};

inline constexpr std::int64_t kSloppyModes = kCompareIsEmpty + 1;

}  // namespace goblin::testing
