// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// With what the kinds of tests/contract are tried. GOBLIN_TEST_SEED=N repeats a run.
#pragma once

#include <iostream>
#include <string>

#include "hosts/conformance/suite.hpp"
#include "tests/testing/seed.hpp"

namespace goblin::test {

inline std::uint64_t contract_seed() {
  static const std::uint64_t value = [] {
    const std::uint64_t made = goblin::test::drawn_seed();
    std::cout << "GOBLIN_TEST_SEED=" << made << "\n";
    return made;
  }();
  return value;
}

inline conformance::Setup setup_of(const std::string& plugin) {
  conformance::Setup setup;
  setup.runner = GOBLIN_TEST_RUNNER;
  setup.backend = GOBLIN_TEST_CPU_BACKEND;
  setup.other_backend = GOBLIN_TEST_REFERENCE_BACKEND;
  setup.plugin = plugin;
  setup.seed = contract_seed();
  return setup;
}

}  // namespace goblin::test
