// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-lying-host: a host for tests and the demonstration that lies about its results. It takes
// the settings of `goblin host run` as --set KEY=VALUE, and liar.mode, liar.rate, liar.after,
// liar.delay, liar.gate, liar.until, liar.seed, liar.threads, liar.memory beside them;
// liar.clock-behind sets its clock back.
#include <csignal>
#include <iostream>
#include <map>
#include <string>

#include "hosts/link/clock.hpp"
#include "hosts/volunteer/host.hpp"
#include "tests/testing/lying_host/liar.hpp"

namespace {

int fail_with(const std::string& message) {
  std::cerr << "goblin-lying-host: " << message << "\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::map<std::string, std::string> flags;
  int ready_fd = -1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "host" || word == "run") {
      continue;  // so that it can stand in for `goblin`
    }
    if (i + 1 >= argc) {
      return fail_with("a value is missing after " + word);
    }
    const std::string value = argv[++i];
    if (word == "--set") {
      const auto equals = value.find('=');
      if (equals == std::string::npos) {
        return fail_with("--set " + value + ": write it as KEY=VALUE");
      }
      flags[value.substr(0, equals)] = value.substr(equals + 1);
    } else if (word == "--state-dir") {
      flags["state-dir"] = value;
    } else if (word == "--ready-fd") {
      ready_fd = std::stoi(value);
    } else {
      return fail_with("unknown option " + word);
    }
  }
  auto reader = goblin::hosts::ConfigReader::open("", flags);
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
  config->ready_fd = ready_fd;
  const auto done = goblin::volunteer::run_host(*config);
  return done ? 0 : fail_with(done.error().message);
}
