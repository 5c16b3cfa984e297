// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How the lying host of the tests changes its results.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "hosts/volunteer/config.hpp"

namespace goblin::testing {

struct LiarOptions {
  /// ulp       one element off by one in its last place
  /// tile      every element replaced by noise of the same size
  /// stale     the bytes of the result before, as far as they go
  /// nan       one element is NaN (for floats)
  /// shape     says another shape than the task's
  /// zeros     all zeros
  /// slow      right, but `delay` late
  /// swap      other bytes than it committed to
  /// bias      every element a little too large (1 + 1e-5)
  std::string mode = "tile";
  double rate = 1.0;        ///< part of the results that it lies about
  std::uint64_t after = 0;  ///< so many results are honest first
  net::Milliseconds delay{2'000};
  std::string gate;  ///< slow: late until this file is gone, too; the host does nothing meanwhile
  std::uint64_t seed = 1;
};

/// kInvalidArgument lists the modes.
Result<std::shared_ptr<volunteer::ResultFilter>> make_liar(const LiarOptions& options);

}  // namespace goblin::testing
