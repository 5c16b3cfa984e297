// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/layers.hpp"

#include <algorithm>

namespace goblin::jail {
namespace {

struct LayerText {
  std::string_view name;
  std::string_view remedy;
};

constexpr std::string_view kNamespaces =
    "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container allow unshare), or start the "
    "daemon as root";

constexpr std::array<LayerText, kLayers> kTexts{{
    {"user-namespace", kNamespaces},
    {"pid-namespace", kNamespaces},
    {"net-namespace", kNamespaces},
    {"ipc-namespace", kNamespaces},
    {"uts-namespace", kNamespaces},
    {"mount-namespace", kNamespaces},
    {"own-uid",
     "start the daemon as root, with CAP_SETUID and CAP_SETGID: it then gives each "
     "runner a user id of its own"},
    {"landlock",
     "use Linux 5.13 or newer with 'landlock' in the kernel's list of security modules "
     "(boot parameter lsm=landlock,...), and a container that allows its calls"},
    {"seccomp", "use a kernel with CONFIG_SECCOMP_FILTER, and a container that allows seccomp"},
    {"rlimits", "do not lower the daemon's hard limits below what a runner needs"},
    {"process-limit", "allow user namespaces, or start the daemon as root"},
    {"cgroup",
     "run the daemon as a systemd service with Delegate=yes, or as root with a writable "
     "/sys/fs/cgroup"},
    {"descriptors", "use Linux 5.9 or newer"},
    {"no-new-privs", "use Linux 3.5 or newer"},
    {"not-dumpable", "see the error"},
    {"watchdog", "mount /proc"},
}};

constexpr std::array<std::string_view, kProtections> kProtectionNames{
    "files", "writing", "network",     "processes",  "signals", "memory",
    "time",  "system",  "persistence", "other-labs", "kernel"};

std::string join(const std::vector<Layer>& layers, const char* between) {
  std::string text;
  for (const Layer layer : layers) {
    text += (text.empty() ? "" : between) + std::string(name(layer));
  }
  return text;
}

/// "landlock (the kernel has none; use …)".
std::string describe_missing(const Report& report, Layer layer) {
  const std::string& why = report.of(layer).detail;
  return std::string(name(layer)) + " (" + (why.empty() ? "missing" : why) + "; to have it, " +
         std::string(remedy(layer)) + ")";
}

}  // namespace

std::string_view name(Layer layer) { return kTexts[static_cast<std::size_t>(layer)].name; }
std::string_view remedy(Layer layer) { return kTexts[static_cast<std::size_t>(layer)].remedy; }
std::string_view name(Protection protection) {
  return kProtectionNames[static_cast<std::size_t>(protection)];
}

Result<Layer> parse_layer(std::string_view text) {
  std::string known;
  for (std::size_t i = 0; i < kLayers; ++i) {
    if (kTexts[i].name == text) {
      return static_cast<Layer>(i);
    }
    known += (i == 0 ? "" : ", ") + std::string(kTexts[i].name);
  }
  return fail(Code::kInvalidArgument,
              "'" + std::string(text) + "' is no layer of the jail; there are " + known);
}

void Report::there(Layer layer, std::string detail) {
  layers[static_cast<std::size_t>(layer)] = {true, std::move(detail)};
}
void Report::missing(Layer layer, std::string why) {
  layers[static_cast<std::size_t>(layer)] = {false, std::move(why)};
}

std::string Report::text() const {
  std::string out = left_out.empty() ? "" : "left-out\t" + left_out + "\n";
  for (std::size_t i = 0; i < kLayers; ++i) {
    out += std::string(kTexts[i].name) + "\t" + (layers[i].there ? "there" : "missing") + "\t" +
           layers[i].detail + "\n";
  }
  return out;
}

Result<Report> Report::parse(std::string_view text) {
  const auto bad = [] {
    return fail(Code::kCorrupt,
                "goblin-runner answers what is no report of its jail: install it and this program "
                "from one version");
  };
  Report report;
  std::array<bool, kLayers> seen{};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      return bad();
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::size_t first = line.find('\t');
    if (first == std::string_view::npos) {
      return bad();
    }
    const std::string_view key = line.substr(0, first);
    std::string_view rest = line.substr(first + 1);
    if (key == "left-out") {
      report.left_out = rest;
      continue;
    }
    const std::size_t second = rest.find('\t');
    const auto layer = parse_layer(key);
    const std::string_view state = rest.substr(0, second);
    if (!layer || second == std::string_view::npos || (state != "there" && state != "missing")) {
      return bad();
    }
    seen[static_cast<std::size_t>(*layer)] = true;
    report.layers[static_cast<std::size_t>(*layer)] = {state == "there",
                                                       std::string(rest.substr(second + 1))};
  }
  if (std::find(seen.begin(), seen.end(), false) != seen.end()) {
    return bad();
  }
  return report;
}

std::vector<std::vector<Layer>> ways(Protection protection) {
  using enum Layer;
  switch (protection) {
    case Protection::kFiles:
      return {{kMountNamespace}, {kLandlock}};
    case Protection::kWriting:
      return {{kSeccomp}, {kLandlock, kRlimits}, {kMountNamespace, kRlimits}};
    case Protection::kNetwork:
      // A network namespace knows nothing of sockets that have a path.
      return {{kSeccomp}, {kNetNamespace, kMountNamespace}};
    case Protection::kProcesses:
      return {{kSeccomp, kProcessLimit},
              {kSeccomp, kCgroup},
              {kSeccomp, kWatchdog},
              {kPidNamespace, kProcessLimit, kMountNamespace}};
    case Protection::kSignals:
      return {{kPidNamespace}, {kSeccomp}, {kOwnUid}};
    case Protection::kMemory:
      // RLIMIT_DATA counts neither shared memory nor mappings that grow downwards; seccomp denies
      // those.
      return {{kRlimits, kSeccomp}, {kCgroup}};
    case Protection::kTime:
      return {{kWatchdog}};
    case Protection::kSystem:
      return {{kMountNamespace, kUtsNamespace}, {kLandlock}};
    case Protection::kPersistence:
      return {{kSeccomp}, {kPidNamespace, kMountNamespace}, {kPidNamespace, kLandlock}};
    case Protection::kOtherLabs:
      return {{kDescriptors, kSeccomp}, {kDescriptors, kPidNamespace, kIpcNamespace}};
    case Protection::kKernel:
      return {{kSeccomp, kNoNewPrivileges}};
  }
  return {};
}

std::optional<std::vector<Layer>> enforced_by(const Report& report, Protection protection) {
  for (auto& way : ways(protection)) {
    if (std::all_of(way.begin(), way.end(), [&](Layer layer) { return report.has(layer); })) {
      return std::move(way);
    }
  }
  return std::nullopt;
}

Result<void> judge(const Report& report, const std::vector<Layer>& require) {
  std::string problems;
  const auto add = [&problems](const std::string& text) {
    problems += (problems.empty() ? "" : "; ") + text;
  };
  for (const Layer layer : require) {
    if (!report.has(layer)) {
      add("the setting jail.require wants " + describe_missing(report, layer));
    }
  }
  for (std::size_t i = 0; i < kProtections && report.left_out.empty(); ++i) {
    const auto protection = static_cast<Protection>(i);
    if (enforced_by(report, protection)) {
      continue;
    }
    const auto possible = ways(protection);
    std::string choices;
    for (const auto& way : possible) {
      choices += (choices.empty() ? "" : ", or ") + join(way, " with ");
    }
    std::string lacking;
    for (const Layer layer : possible.front()) {
      if (!report.has(layer)) {
        lacking += (lacking.empty() ? "" : ", ") + describe_missing(report, layer);
      }
    }
    add("nothing enforces the protection '" + std::string(name(protection)) + "', which takes " +
        choices + ": there is no " + lacking);
  }
  if (!problems.empty()) {
    return fail(Code::kUnavailable, "the jail is not complete, so no plugin is loaded: " +
                                        problems + ". `goblin doctor` shows every layer");
  }
  return {};
}

}  // namespace goblin::jail
