// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/control_groups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "core/net/unique_fd.hpp"

namespace goblin::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "goblin-runner-";
/// Spawner and first process of the namespace.
constexpr std::uint32_t kOtherProcesses = 4;
constexpr std::uint64_t kOwnMemory = 64ULL << 20;

tl::unexpected<Error> failed(const std::string& what) {
  return fail(Code::kUnavailable, what + ": " + std::strerror(errno));
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<void> write_to(const std::string& path, const std::string& text) {
  const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return failed("writing " + path);
  }
  return {};
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    parts.push_back(part);
  }
  return parts;
}

/// Directory of this process' group by controller; "" is version 2.
std::map<std::string, std::string> own_groups() {
  std::map<std::string, std::string> groups;  // controller → group
  std::ifstream mine("/proc/self/cgroup");
  for (std::string line; std::getline(mine, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    for (const std::string& one : split(controllers + ",", ',')) {
      groups[one] = line.substr(second + 1);
    }
  }
  std::map<std::string, std::string> directories;
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) {
      continue;
    }
    const std::string& root = words[3];
    const bool second = dash[1] == "cgroup2";
    if (!second && dash[1] != "cgroup") {
      continue;
    }
    for (const std::string& controller :
         second ? std::vector<std::string>{""} : split(dash[3], ',')) {
      const auto group = groups.find(controller);
      if (group == groups.end()) {
        continue;
      }
      // A container may see its own group as the root of what is mounted.
      std::string below = group->second;
      if (root != "/" && below.starts_with(root)) {
        below.erase(0, root.size());
      }
      directories.emplace(controller, words[4] + (below == "/" ? "" : below));
    }
  }
  return directories;
}

bool has_controllers(const std::string& directory, const char* file) {
  std::ifstream in(directory + "/" + file);
  bool memory = false;
  bool pids = false;
  for (std::string word; in >> word;) {
    memory = memory || word == "memory";
    pids = pids || word == "pids";
  }
  return memory && pids;
}

/// Lets groups below `directory` have limits; this process must then be in one of them.
Result<void> delegate(const std::string& directory) {
  if (has_controllers(directory, "cgroup.subtree_control")) {
    return {};
  }
  if (!has_controllers(directory, "cgroup.controllers")) {
    return fail(Code::kUnavailable, directory + " does not control memory and pids");
  }
  const std::string own = directory + "/daemon";
  if (::mkdir(own.c_str(), 0755) != 0 && errno != EEXIST) {
    return failed("making " + own);
  }
  Result<void> done = write_to(own + "/cgroup.procs", "0");
  if (done) {
    done = write_to(directory + "/cgroup.subtree_control", "+memory +pids");
  }
  if (!done) {
    (void)write_to(directory + "/cgroup.procs", "0");
    ::rmdir(own.c_str());
  }
  return done;
}

/// Groups of daemons that were killed.
void sweep(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) {
      continue;
    }
    int pid = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), pid);
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) {
      ::rmdir(entry.path().c_str());
    }
  }
}

struct Limit {
  const char* file;
  std::uint64_t value;
};

}  // namespace

RunnerGroup::~RunnerGroup() {
  // Where a process has not quite gone, a later daemon removes it.
  for (const std::string& directory : directories_) {
    ::rmdir(directory.c_str());
  }
}

Result<std::shared_ptr<ControlGroups>> ControlGroups::open() {
  const auto groups = own_groups();
  std::string why = "no control groups are mounted";
  if (const auto second = groups.find(""); second != groups.end()) {
    const auto delegated = delegate(second->second);
    if (delegated) {
      if (auto opened = below({second->second})) {
        return opened;
      }
    } else {
      why = delegated.error().message;
    }
  }
  const auto memory = groups.find("memory");
  const auto pids = groups.find("pids");
  if (memory == groups.end() || pids == groups.end()) {
    return fail(Code::kUnavailable, why);
  }
  return below({memory->second, pids->second});
}

Result<std::shared_ptr<ControlGroups>> ControlGroups::below(std::vector<std::string> parents) {
  std::sort(parents.begin(), parents.end());
  parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
  std::shared_ptr<ControlGroups> groups(new ControlGroups(std::move(parents)));
  for (const std::string& parent : groups->parents_) {
    sweep(parent);
  }
  GOBLIN_TRY([[maybe_unused]] const RunnerGroup attempt, groups->make(1ULL << 30, 1));
  return groups;
}

Result<RunnerGroup> ControlGroups::make(std::uint64_t memory_bytes, std::uint32_t threads) {
  const std::string name =
      std::string(kPrefix) + std::to_string(::getpid()) + "-" + std::to_string(++made_);
  const std::uint64_t most = memory_bytes == 0 ? 0 : memory_bytes + memory_bytes / 4 + kOwnMemory;
  std::vector<Limit> limits{{"pids.max", std::uint64_t{threads} + kOtherProcesses}};
  if (most > 0) {
    limits.push_back({"memory.max", most});
    limits.push_back({"memory.limit_in_bytes", most});
  }
  std::vector<std::string> made;
  std::size_t limited = 0;
  for (const std::string& parent : parents_) {
    const std::string directory = parent + "/" + name;
    if (::mkdir(directory.c_str(), 0755) != 0) {
      const auto error = failed("making the control group " + directory);
      const RunnerGroup undo(std::move(made));
      return error;
    }
    made.push_back(directory);
    for (const Limit& limit : limits) {
      if (!exists(directory + "/" + limit.file)) {
        continue;
      }
      if (auto set = write_to(directory + "/" + limit.file, std::to_string(limit.value)); !set) {
        const RunnerGroup undo(std::move(made));
        return fail(set.error());
      }
      ++limited;
    }
  }
  RunnerGroup group(std::move(made));
  if (limited != (most > 0 ? 2U : 1U)) {
    return fail(Code::kUnavailable, "control groups below " + parents_.front() +
                                        " do not limit memory and the number of threads");
  }
  return group;
}

}  // namespace goblin::plugin
