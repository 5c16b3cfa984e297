// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/crowd/crowd.hpp"

#include <fstream>
#include <functional>

#include "hosts/common/units.hpp"

namespace goblin::testing {
namespace {

/// Calls `take` with the host and the number of each item of a list of HOST:NUMBER.
void each_pair(hosts::ConfigReader& reader, const std::string& key, CrowdOptions& options,
               const std::function<void(Conduct&, std::uint64_t)>& take) {
  for (const std::string& item : reader.list(key, {})) {
    const auto colon = item.find(':');
    const auto host = hosts::parse_u64(item.substr(0, colon));
    const auto number = colon == std::string::npos ? Result<std::uint64_t>(0)
                                                   : hosts::parse_u64(item.substr(colon + 1));
    if (!host || !number || *host >= options.hosts.size()) {
      reader.complain(key, "'" + item + "' names no host from 0 to " +
                               std::to_string(options.hosts.size() - 1) + ", or no number");
      continue;
    }
    take(options.hosts[*host], *number);
  }
}

}  // namespace

CrowdOptions read_crowd(hosts::ConfigReader& reader) {
  CrowdOptions options;
  options.hosts.resize(reader.u64("crowd.hosts", 10, {1, 10'000}));
  using std::chrono::milliseconds;
  const auto ms = [](std::uint64_t number) { return milliseconds(std::int64_t(number)); };
  each_pair(reader, "crowd.slow", options,
            [](Conduct& host, std::uint64_t times) { host.slowness = double(times); });
  each_pair(reader, "crowd.liars", options, [](Conduct& host, std::uint64_t) { host.lies = true; });
  each_pair(reader, "crowd.leave", options,
            [&](Conduct& host, std::uint64_t number) { host.leaves = ms(number); });
  each_pair(reader, "crowd.silent", options,
            [&](Conduct& host, std::uint64_t number) { host.falls_silent = ms(number); });
  if (const std::string path = reader.string("crowd.durations", ""); !path.empty()) {
    std::ifstream file(path);
    for (std::uint64_t number = 0; file >> number;) options.durations.push_back(ms(number));
    if (options.durations.empty()) {
      reader.complain("crowd.durations", "'" + path + "' holds no numbers, or cannot be read");
    }
  }
  return options;
}

}  // namespace goblin::testing
