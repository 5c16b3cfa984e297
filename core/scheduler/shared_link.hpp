// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How several peers share one link: each has a rate of its own that it cannot pass, the rest is
// divided equally (max-min fairness, Bertsekas and Gallager, Data Networks, 6.5.2). A value.
#pragma once

#include <cstddef>
#include <vector>

namespace goblin::scheduler {

/// Rates of what flows now. `caps`: of each peer, 0 for one that nothing flows to. `shared`: of the
/// link that they share. Any unit; infinite ones are fine.
std::vector<double> fair_rates(const std::vector<double>& caps, double shared);

}  // namespace goblin::scheduler
