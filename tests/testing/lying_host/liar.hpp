// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How the lying host of the tests changes its results.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "hosts/volunteer/config.hpp"

namespace goblin::testing {

struct LiarOptions {
  /// One of tests/testing/lies (of tasks of other kinds: one bit is wrong), or
  ///   tile       every element replaced by noise of the same size
  ///   stale      the bytes of the result before, as far as they go
  ///   replay     the bytes of the last result of another job, as far as they go
  ///   collude    noise that follows from `seed` and the task's inputs alone
  ///   shape, dtype   says another shape, another dtype than the task's
  ///   swap       other bytes than it committed to
  ///   new, seen  one bit is wrong of a task whose inputs it has (never) seen before
  ///   slow       right, but `delay` late
  ///   refuse     says that it cannot compute it
  ///   boast      right, and took no time and no memory
  std::string mode = "tile";
  double rate = 1.0;        ///< part of the results that it lies about
  std::uint64_t after = 0;  ///< so many results are honest first
  net::Milliseconds delay{2'000};
  std::string gate;   ///< slow: late until this file is gone, too; the host does nothing meanwhile
  std::string until;  ///< it lies only while this file exists
  std::uint64_t seed = 1;
};

/// kInvalidArgument lists the modes.
Result<std::shared_ptr<volunteer::ResultFilter>> make_liar(const LiarOptions& options);

}  // namespace goblin::testing
