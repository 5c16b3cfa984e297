// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a jail is made of and what it is for. A protection is what a plugin must not get at; a layer
// is something of the kernel that denies it. Which layers a machine offers is found out by trying.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "goblin/error.hpp"

namespace goblin::jail {

enum class Layer : std::uint8_t {
  kUserNamespace,   ///< capabilities, if any, count for nothing outside
  kPidNamespace,    ///< sees no other process; dies with its spawner
  kNetNamespace,    ///< no interface, no abstract socket of others
  kIpcNamespace,    ///< no System V object or message queue of others
  kUtsNamespace,    ///< does not learn the computer's name
  kMountNamespace,  ///< an empty root directory
  kOwnUid,          ///< a user id of this runner's alone
  kLandlock,        ///< no file can be opened
  kSeccomp,         ///< a list of the system calls that are left
  kRlimits,         ///< memory, size of files, descriptors
  kProcessLimit,    ///< number of threads
  kCgroup,          ///< memory and number of threads, counted by the kernel for the runner alone
  kDescriptors,     ///< nothing is open but the socket and what the daemon lends
  kNoNewPrivileges,
  kNotDumpable,  ///< no core file, no reading by others
  kWatchdog,     ///< the daemon ends a runner that is late, too large or has too many threads
};
inline constexpr std::size_t kLayers = 16;

enum class Protection : std::uint8_t {
  kFiles,        ///< reads no file of the computer
  kWriting,      ///< writes nothing to any disk or memory file system
  kNetwork,      ///< opens no connection, to nobody
  kProcesses,    ///< starts no program or process, and threads up to a number
  kSignals,      ///< signals and traces nobody
  kMemory,       ///< takes memory up to the cap
  kTime,         ///< computes until its deadline, and no longer
  kSystem,       ///< learns nothing of processes, mounts, users, names (/proc)
  kPersistence,  ///< leaves nothing behind
  kOtherLabs,    ///< gets at nothing of another runner
  kKernel,       ///< reaches only a small part of the kernel
};
inline constexpr std::size_t kProtections = 11;

std::string_view name(Layer layer);
std::string_view name(Protection protection);
/// What to do where a machine lacks it.
std::string_view remedy(Layer layer);
/// kInvalidArgument lists the names that there are.
Result<Layer> parse_layer(std::string_view name);

/// What was found out about one layer.
struct LayerState {
  bool there = false;
  std::string detail;  ///< what it is here ("ABI 4"), or why it is missing
};

struct Report {
  std::array<LayerState, kLayers> layers;
  std::string left_out;  ///< not empty: this build leaves the jail out, and why

  [[nodiscard]] const LayerState& of(Layer layer) const {
    return layers[static_cast<std::size_t>(layer)];
  }
  void there(Layer layer, std::string detail = {});
  void missing(Layer layer, std::string why);
  [[nodiscard]] bool has(Layer layer) const { return of(layer).there; }

  /// One line for each layer; parse() reads what text() wrote and refuses everything else.
  [[nodiscard]] std::string text() const;
  static Result<Report> parse(std::string_view text);
};

/// The sets of layers each of which is enough for a protection.
std::vector<std::vector<Layer>> ways(Protection protection);
/// The first of them that is there.
std::optional<std::vector<Layer>> enforced_by(const Report& report, Protection protection);

/// Is every protection enforced, and is every layer of `require` there? kUnavailable names each
/// that is not, why, and what to do. A build that leaves the jail out passes unless a layer is
/// required.
Result<void> judge(const Report& report, const std::vector<Layer>& require);

}  // namespace goblin::jail
