// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files of a lab node that hold arrays of jobs, results under judgement and outputs. They are
// shared with clients and runners as descriptors. Numbers are never used twice.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "goblin/error.hpp"

namespace goblin::store {

/// Any thread.
class Staging {
 public:
  /// `directory` is made when missing (0700). `cap_bytes`: sum of all files; 0: no cap but the
  /// disk's. kUnavailable: another process uses the directory. kCorrupt: the note of the next
  /// number is lost.
  static Result<std::unique_ptr<Staging>> open(const std::string& directory,
                                               std::uint64_t cap_bytes);
  virtual ~Staging() = default;

  struct File {
    std::uint64_t number = 0;
    net::UniqueFd fd;  ///< read and write, but for reopen()
    std::uint64_t size = 0;
  };
  /// A new file of `size` bytes, all zero, whose blocks are allocated: kExhausted with the free
  /// space when the disk or the cap does not have them, so that no later write meets SIGBUS. Where
  /// the file system cannot allocate without writing (NFS, ZFS), zeros are written, which takes as
  /// long as writing the file.
  virtual Result<File> create(std::uint64_t size) = 0;
  /// As create(), for a file that will be written through a mapping: zeros are written through the
  /// page cache when it has room for them, because pages that a mapping touches first come one by
  /// one, at several times the price of the copy into them. Takes 0.2 s for a GiB.
  virtual Result<File> create_resident(std::uint64_t size) = 0;
  enum class Access : std::uint8_t { kRead, kReadWrite };
  /// kCorrupt when somebody changed the file's length. Whoever only reads gets a descriptor that
  /// cannot write, which matters where it is handed on.
  virtual Result<File> reopen(std::uint64_t number, Access access) = 0;
  virtual Result<void> remove(std::uint64_t number) = 0;
  /// Numbers of all files; after a restart the lab node removes what no job names.
  [[nodiscard]] virtual Result<std::vector<std::uint64_t>> list() const = 0;
  [[nodiscard]] virtual std::uint64_t used_bytes() const = 0;
};

}  // namespace goblin::store
