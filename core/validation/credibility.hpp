// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How far a host is believed, from what it has computed rightly before. Pure functions; any thread.
// After L. F. G. Sarmenta, "Sabotage-tolerance mechanisms for volunteer computing systems", Future
// Generation Computer Systems 18 (2002): spot-checking with blacklisting, credibility of groups.
#pragma once

#include <cstdint>
#include <span>

namespace goblin::validation {

/// What a lab node takes for granted of hosts.
struct Trust {
  double faulty = 0.1;         ///< share of hosts that may return wrong results; below 1/2
  double target_error = 1e-3;  ///< chance that an accepted result is wrong, under `adaptive`
  double floor = 0.02;         ///< least share of results that a trusted host recomputes
};

/// Bound on the chance that a host's result is wrong when `passed` of its results, drawn in secret,
/// were recomputed and none was wrong: f for none, then f / ((1 - f) k e), never above f. Whoever
/// lies about a constant share s of the results passes k checks with (1 - s)^k, and s (1 - s)^k
/// is at most 1 / (k e).
double doubt(std::uint64_t passed, const Trust& trust);

/// Chance that a result is wrong which several independent hosts returned alike: the product of
/// their doubts against the product of their credibilities, the worst case being that all who lie
/// tell the same lie. 1 for none.
double doubt_of_equal(std::span<const double> doubts);

/// Whether two hosts that are believed no more than this one would not suffice together: then one
/// trusted recomputation decides sooner than further replicas.
bool too_new(double doubt, const Trust& trust);

/// So many results of a host wait for one that is recomputed, drawn from among them after all were
/// committed to: 1 for a new host, up to 1 / floor. At least 1.
std::uint32_t batch_size(std::uint64_t passed, const Trust& trust);

}  // namespace goblin::validation
