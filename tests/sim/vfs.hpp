// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// SQLite's files on simulated disks. The first mount makes this process' SQLite use them and
// nothing else.
#pragma once

#include <string>

#include "tests/sim/disk.hpp"

namespace goblin::sim {

/// While it lives, data bases in `folder` are files of `disk`. One thread.
class Mount {
 public:
  /// `folder`: absolute. core/store looks for the file's name there in the real file system and
  /// makes an empty one, so the folder must exist.
  Mount(std::string folder, Disk& disk);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

 private:
  std::string folder_;
};

/// SQLite draws its random numbers anew from this seed on.
void seed_sqlite(std::uint64_t seed);

}  // namespace goblin::sim
