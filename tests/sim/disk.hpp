// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A disk in memory that does what real ones do at the worst time: a loss of power forgets or tears
// what was not synced, a kill stops between any two operations, and writes and syncs fail. SQLite
// uses it through vfs.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/random.hpp"

namespace goblin::sim {

/// Probability of each operation to fail.
struct DiskFaults {
  double read = 0;
  double write = 0;
  double sync = 0;
  double full = 0;  ///< of a write that makes a file longer: no space
  /// A failed sync forgets what it should have written, as Linux does: later syncs succeed and do
  /// not bring it to the disk. Else it stays to be written.
  bool sync_forgets = false;
};

class Disk {
 public:
  explicit Disk(std::uint64_t seed) : random_(seed) {}

  enum class Status : std::uint8_t { kOk, kFailed, kFull };

  // What programs do. After freeze() everything fails and nothing changes.
  [[nodiscard]] bool exists(const std::string& name) const;
  void create(const std::string& name);
  /// `at_once`: the directory was synced; else a loss of power may bring the file back.
  Status remove(const std::string& name, bool at_once);
  /// Reads what is there; `got` says how much.
  Status read(const std::string& name, std::uint64_t offset, char* out, std::size_t size,
              std::size_t& got);
  Status write(const std::string& name, std::uint64_t offset, std::string_view bytes);
  Status truncate(const std::string& name, std::uint64_t size);
  /// `folder_too`: also which files there are.
  Status sync(const std::string& name, bool folder_too = false);
  [[nodiscard]] std::uint64_t size(const std::string& name) const;

  // What happens to it.
  void set_faults(const DiskFaults& faults) { faults_ = faults; }
  /// The machine stops at the operation so many from now; a write that it stops in may be torn.
  void stop_after(std::uint64_t operations) { stop_in_ = operations + 1; }
  void stop_now() { frozen_ = true; }
  /// It does not stop after all.
  void carry_on() { stop_in_ = 0; }
  [[nodiscard]] bool frozen() const { return frozen_; }
  /// Begins anew after a stop: all that programs wrote is there (a kill), or what was synced and a
  /// drawn part of the rest (a loss of power).
  void restart(bool power_lost);
  /// Injected since the last restart.
  [[nodiscard]] std::uint64_t injected() const { return injected_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  struct Write {
    std::uint64_t offset = 0;
    std::string bytes;
    bool truncate = false;  ///< to `offset`
  };
  struct File {
    std::string now;   ///< what programs read
    std::string kept;  ///< what a loss of power keeps
    std::vector<Write> pending;
    bool kept_exists = false, removed = false;
  };
  static void apply(std::string& bytes, const Write& write);
  void sync_folder();
  bool fails(double p);
  bool stops();  ///< counts an operation; true when the machine stops in it

  Random random_;
  DiskFaults faults_;
  std::map<std::string, File> files_;
  bool frozen_ = false;
  std::uint64_t stop_in_ = 0, injected_ = 0, operations_ = 0;
};

}  // namespace goblin::sim
