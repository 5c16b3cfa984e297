// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-lying-host: a host for tests and the demonstration that lies about its results. It takes
// the settings of `goblin host run` as --set KEY=VALUE, and liar.mode, liar.rate, liar.after,
// liar.delay, liar.gate, liar.until, liar.seed, liar.threads, liar.memory beside them;
// liar.clock-behind sets its clock back.
#include <csignal>
#include <iostream>
#include <string>

#include "hosts/link/clock.hpp"
#include "hosts/volunteer/host.hpp"
#include "tests/testing/host_flags.hpp"
#include "tests/testing/lying_host/liar.hpp"

namespace {

int fail_with(const std::string& message) {
  std::cerr << "goblin-lying-host: " << message << "\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto flags = goblin::testing::read_host_flags(argc, argv);
  if (!flags) {
    return fail_with(flags.error().message);
  }
  auto reader = goblin::hosts::ConfigReader::open("", flags->settings);
  if (!reader) {
    return fail_with(reader.error().message);
  }
  goblin::testing::LiarOptions options;
  options.mode = reader->string("liar.mode", options.mode);
  options.rate = reader->real("liar.rate", options.rate, {0, 1});
  options.after = reader->u64("liar.after", options.after);
  options.delay = reader->duration("liar.delay", options.delay);
  options.gate = reader->string("liar.gate", options.gate);
  options.until = reader->string("liar.until", options.until);
  options.seed = reader->u64("liar.seed", options.seed);
  // What it says that it has, whatever it has.
  const std::uint64_t threads = reader->u64("liar.threads", 0);
  const std::uint64_t memory = reader->bytes("liar.memory", 0);
  const std::uint64_t behind = reader->u64("liar.clock-behind", 0);  // seconds
  auto config = goblin::volunteer::read_config(*reader);
  if (!config) {
    return fail_with(config.error().message);
  }
  if (threads != 0) config->threads = static_cast<std::uint32_t>(threads);
  if (memory != 0) config->memory_bytes = memory;
  auto liar = goblin::testing::make_liar(options);
  if (!liar) {
    return fail_with(liar.error().message);
  }
  config->filter = *liar;
  if (behind > 0) {
    config->catalogue.now_s = [behind] {
      return static_cast<std::uint64_t>(goblin::link::unix_ms()) / 1000 - behind;
    };
  }
  config->ready_fd = flags->ready_fd;
  const auto done = goblin::volunteer::run_host(*config);
  return done ? 0 : fail_with(done.error().message);
}
