// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/jail_probe.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>

#include "core/plugin/child_output.hpp"
#include "core/plugin/child_process.hpp"

namespace goblin::plugin {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr std::size_t kMostOutput = 1U << 16;
constexpr std::uint64_t kProbeMemory = 1ULL << 30;
constexpr std::uint32_t kProbeThreads = 16;

/// All that the child prints, until it ends.
Result<std::string> read_all(const net::UniqueFd& fd) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wait{fd.get(), POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready == 0 || text.size() > kMostOutput) {
      return fail(Code::kUnavailable, "goblin-runner does not say what its jail is within 10 s");
    }
    const ssize_t n = ready < 0 ? -1 : ::read(fd.get(), buffer.data(), buffer.size());
    if (n == 0) {
      return text;
    }
    if (n > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    } else if (errno != EINTR && errno != EAGAIN) {
      return fail(Code::kUnavailable, "cannot read what goblin-runner says of its jail");
    }
  }
}

/// Lines that begin with "refused", "escaped" or "device"; the rest is the report.
Result<JailProbe> parse(std::string_view text) {
  constexpr std::string_view kRefused = "refused\t";
  constexpr std::string_view kEscaped = "escaped\t";
  constexpr std::string_view kDevice = "device\t";
  JailProbe probe;
  std::string report;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(kRefused)) {
      probe.refused = line.substr(kRefused.size());
    } else if (line.starts_with(kDevice)) {
      probe.device = line.substr(kDevice.size());
    } else if (line.starts_with(kEscaped)) {
      probe.escapes.emplace_back(line.substr(kEscaped.size()));
    } else {
      report += std::string(line) + "\n";
    }
  }
  if (report.empty() && !probe.refused.empty()) {
    return fail(Code::kUnavailable, probe.refused);
  }
  GOBLIN_TRY(probe.report, jail::Report::parse(report));
  return probe;
}

}  // namespace

Result<JailProbe> probe_jail(const RunnerOptions& options) {
  GOBLIN_TRY(auto ends, make_pipe());
  ChildProcess::Options how;
  how.program = options.runner;
  how.arguments = {"--probe"};
  if (!options.backend.empty()) {
    how.arguments.insert(how.arguments.end(), {"--backend", options.backend});
  }
  if (!options.device.empty()) {
    how.arguments.insert(how.arguments.end(), {"--device", options.device});
  }
  for (const jail::Layer layer : options.require) {
    how.arguments.insert(how.arguments.end(), {"--require", std::string(jail::name(layer))});
  }
  std::optional<RunnerGroup> group;
  if (options.groups) {
    GOBLIN_TRY(RunnerGroup made, options.groups->make(kProbeMemory, kProbeThreads));
    group.emplace(std::move(made));
    for (const std::string& directory : group->directories()) {
      how.arguments.insert(how.arguments.end(), {"--cgroup", directory});
    }
  }
  how.output = std::move(ends.second);
  GOBLIN_TRY(const ChildProcess child, ChildProcess::start(how));
  how.output.reset();
  GOBLIN_TRY(const std::string text, read_all(ends.first));
  return parse(text);
}

Result<std::string> expect_jail(RunnerOptions& options) {
  auto groups = ControlGroups::open();
  if (groups) {
    options.groups = *groups;
  }
  GOBLIN_TRY(JailProbe probe, probe_jail(options));
  if (!groups) {
    probe.report.missing(jail::Layer::kCgroup, groups.error().message);
  }
  if (!probe.refused.empty()) {
    return fail(Code::kUnavailable, probe.refused);
  }
  if (!probe.escapes.empty()) {
    std::string what;
    for (const std::string& one : probe.escapes) {
      what += (what.empty() ? "" : ", ") + one;
    }
    return fail(Code::kUnavailable,
                "the jail of runners does not hold on this machine: a test inside found that " +
                    what +
                    "; no plugin is loaded. Please report it, with what `goblin doctor` "
                    "prints");
  }
  std::string missing;
  for (std::size_t i = 0; i < jail::kLayers; ++i) {
    const auto layer = static_cast<jail::Layer>(i);
    if (!probe.report.has(layer)) {
      missing += (missing.empty() ? "" : "; ") + std::string(jail::name(layer)) + " (" +
                 probe.report.of(layer).detail + ")";
    }
  }
  if (!probe.report.left_out.empty()) {
    return "runners have no jail: " + probe.report.left_out;
  }
  return "runners have a jail" + (missing.empty() ? "" : "; of its layers are missing: " + missing);
}

}  // namespace goblin::plugin
