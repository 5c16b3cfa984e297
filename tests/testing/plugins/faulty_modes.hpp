// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the plugin faulty.so does wrong: parameter "mode" of a job of kind faulty/1.
#pragma once

#include <cstdint>

namespace goblin::testing {

enum FaultyMode : std::int64_t {
  kHonest,
  // execute
  kExecuteCrash,
  kExecuteAbort,
  kExecuteOverflowStack,
  kExecuteHang,           ///< y[0] = 1 first, so that a test sees that it runs
  kExecuteWaitForCancel,  ///< the same
  kExecuteExit,
  kExecuteTake16GiB,
  kExecuteMallocUnchecked,
  kExecuteThrow,
  kExecuteThrowInt,
  kExecuteCloseSocket,        ///< so that everybody sees it at once
  kExecuteReplaceSocket,      ///< by another file, unseen until the answer
  kExecuteCloseSocketUnseen,  ///< unseen until a frame comes
  kExecuteForgeAnswer,
  kExecuteFlushSubnormals,
  kExecuteExit3,
  kExecutePrint,    ///< on standard output and error
  kExecuteProbe,    ///< y[0]: are subnormals kept? y[1]: descriptors, y[2]: environment variables
  kExecuteWriteOn,  ///< a thread goes on writing to y[0] for ever
  kExecuteUnlock,   ///< y[0] = errno of making the memory of x writable, 0 where it became so
  kExecuteCount,    ///< y[0] = how many such tasks this process has had
  // validate
  kValidateThrow,
  kValidateOneOutputTooFew,
  kValidateBadDtype,
  kValidateHugeOutput,
  kValidateCrash,
  // make_planner
  kPlannerThrow,
  kPlannerNull,
  kPlannerHugeState,
  // next
  kNextThrow,
  kNextHang,
  kNextPastEnd,
  kNextBeforeStart,
  kNextOverflowingStride,
  kNextOverflowingOffset,
  kNextNegativeLength,
  kNextWrongDtype,
  kNextNoSuchInput,
  kNextNoSuchResult,
  kNextHugeOutput,
  kNextNoOutputs,
  kNextTooManyDimensions,
  kNextTooManyTasks,
  kNextMoreButNothing,
  kNextBadProgress,
  kNextNanFlops,
  // accept, recall, finish
  kAcceptThrow,
  kAcceptBadDisposition,
  kRecallThrow,
  kFinishThrow,
  kFinishReadUnknown,
  // check, compare
  kCheckThrow,
  kCheckBadVerdict,
  kCompareThrow,
  kCompareAbstain,
};

}  // namespace goblin::testing
