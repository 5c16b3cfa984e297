// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-crowd: many hosts in one process, without runners. See crowd.hpp for what it is told.
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "hosts/link/listener_limits.hpp"
#include "hosts/link/read_config.hpp"
#include "hosts/link/ready_line.hpp"
#include "hosts/volunteer/host.hpp"
#include "tests/testing/crowd/member.hpp"
#include "tests/testing/host_flags.hpp"

namespace goblin::testing {
namespace {

Result<void> run_crowd(const volunteer::HostConfig& config, const CrowdOptions& options,
                       int ready_fd) {
  GOBLIN_TRY(const net::UniqueFd hold, link::hold_state_dir(config.state_dir, "host"));
  GOBLIN_TRY(log::Logger logger, log::Logger::create("host", config.log));
  link::raise_descriptor_limit();
  GOBLIN_TRY(const std::unique_ptr<net::Loop> loop, net::Loop::create(1));
  Stage stage(*loop, config, options, logger);
  std::vector<std::unique_ptr<Member>> members;
  std::string first;
  for (std::size_t i = 0; i < options.hosts.size(); ++i) {
    GOBLIN_TRY(std::shared_ptr<const net::Identity> identity,
               net::Identity::load_or_create(config.state_dir + "/identity-" + std::to_string(i)));
    if (i == 0) {
      first = identity->pin().hex();
    }
    members.push_back(std::make_unique<Member>(stage, i, std::move(identity)));
    loop->spawn(members.back()->run());
  }
  link::say_ready(ready_fd, first);
  loop->run();
  return {};
}

int fail_with(const std::string& message) {
  std::cerr << "goblin-crowd: " << message << "\n";
  return 2;
}

}  // namespace
}  // namespace goblin::testing

int main(int argc, char** argv) {
  using namespace goblin;
  std::signal(SIGPIPE, SIG_IGN);
  const auto flags = testing::read_host_flags(argc, argv);
  if (!flags) return testing::fail_with(flags.error().message);
  auto reader = hosts::ConfigReader::open("", flags->settings);
  if (!reader) return testing::fail_with(reader.error().message);
  const testing::CrowdOptions options = testing::read_crowd(*reader);
  const auto config = volunteer::read_config(*reader);
  if (!config) return testing::fail_with(config.error().message);
  const auto done = testing::run_crowd(*config, options, flags->ready_fd);
  return done ? 0 : testing::fail_with(done.error().message);
}
