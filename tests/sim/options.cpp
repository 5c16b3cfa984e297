// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/options.hpp"

namespace goblin::sim {

Options Options::calm() {
  Options o;
  o.liars = o.stall = o.status = o.hand_back = o.lost_fetch = o.abstain = 0;
  o.duplicate = o.crash_per_minute = o.change_per_minute = o.cancel = 0;
  o.lab_stops = o.coordinator_stops = 0;
  o.late_hosts = 0;
  return o;
}

Options Options::fair_shares(std::uint64_t seed, bool faults) {
  Options o = calm();
  o.fair = true;
  o.jobs = 3;
  if (!faults) return o;
  o.crash_per_minute = 0.5;
  o.change_per_minute = 2;
  o.duplicate = 0.02;
  o.slow = 0.1;
  o.loose = seed % 2 == 0;
  o.coordinator_stops = 1;
  return o;
}

Options Options::draw(std::uint64_t seed) {
  Random r(seed ^ 0x6f7074696f6e73);
  if (r.chance(0.02)) return fair_shares(seed, r.chance(0.5));
  Options o;
  o.labs = r.chance(0.6) ? 1 : 2 + std::uint32_t(r.below(2));
  o.hosts = 1 + std::uint32_t(r.below(8));
  o.trusted = std::uint32_t(r.below(3));
  o.groups = 1 + std::uint32_t(r.below(o.hosts));
  o.jobs = 1 + std::uint32_t(r.below(3));
  o.tasks = 10 + std::uint32_t(r.below(r.chance(0.05) ? 400 : 70));
  if (o.labs > 1) o.tasks = 10 + std::uint32_t(r.below(30));
  o.labs_per_host = 1 + std::uint32_t(r.below(3));
  o.wanted = r.chance(0.5) ? 64 : 1 + std::uint32_t(r.below(6));
  if (r.chance(0.5)) o.most_kept = 1 + r.below(3);

  const double trouble = r.uniform(0, 3);
  for (double* p : {&o.stall, &o.status, &o.hand_back, &o.duplicate, &o.lost_fetch,
                    &o.crash_per_minute, &o.change_per_minute})
    *p *= r.chance(0.3) ? 0 : trouble;
  o.liars = r.chance(0.3) ? 0 : r.uniform(0, 0.7);
  o.lie = r.uniform(0.02, 1);
  o.lies = 1 + std::uint32_t(r.below(511));

  o.loose = r.chance(0.5);
  o.drop = r.chance(0.6) ? 0 : r.uniform(0, 0.01);
  o.slow = r.uniform(0, 0.2);
  o.cuts_per_minute = r.chance(0.6) ? 0 : r.uniform(0, 2);

  o.abstain = r.chance(0.6) ? 0 : r.uniform(0, 1);
  o.miss = r.chance(0.5) ? 0 : r.uniform(0, 0.6);
  // What no check sees, a validator that lies can have accepted where nobody else is left to ask.
  if (o.abstain == 0 && o.miss == 0 && r.chance(0.8)) o.lying_validators = r.uniform(0.3, 1);
  o.term = r.chance(0.5) ? 5'000'000 + r.below(60'000'000) : o.term;
  o.slow_checks = r.chance(0.7) ? 0 : r.uniform(0, 1);
  o.lab_stops = r.uniform(0, 0.6);
  o.large = r.chance(0.1) ? r.below(1'500'000) : r.below(2'000);
  o.power_safe = r.chance(0.7);
  o.power_losses = r.chance(0.5) ? r.uniform(0, 1) : 0;
  // Without power-safe SQLite promises nothing where a sync fails and power is lost later.
  if (r.chance(0.3) && (o.power_safe || o.power_losses == 0)) {
    o.troubles_per_minute = r.uniform(0, 3);
    o.disk.write = r.chance(0.5) ? r.uniform(0, 0.2) : 0;
    o.disk.sync = r.chance(0.5) ? r.uniform(0, 0.3) : 0;
    o.disk.full = r.chance(0.5) ? r.uniform(0, 0.5) : 0;
    o.disk.read = r.chance(0.2) ? r.uniform(0, 0.1) : 0;
    // See docs/open-points.md for why not with losses of power.
    o.disk.sync_forgets = o.power_losses == 0 && r.chance(0.5);
  }

  o.config.max_ready = 8 + std::uint32_t(r.below(64));
  o.config.ready_per_host = 1 + std::uint32_t(r.below(6));
  o.config.placement_window = 1 + std::uint32_t(r.below(64));
  o.config.first_deadline = 60'000'000;
  o.config.max_unjudged_bytes = 1 + r.below(4u << 20);
  if (r.chance(0.3)) o.config.max_unjudged = 1 + std::uint32_t(r.below(20));
  return o;
}

}  // namespace goblin::sim
