// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Small files that are there whole or not at all, whatever fails.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::trust {

/// kNo: what the system has not written yet may be lost with its power; for what is thrown away.
enum class Durable : std::uint8_t { kYes, kNo };

enum class Existing : std::uint8_t { kReplace, kRefuse };

/// Writes `name` in the directory: first `name`.part, synchronised, then one rename (kReplace) or
/// link (kRefuse, kInvalidArgument when there is one). The directory is not synchronised.
/// Errors name `where`, the directory's path.
Result<void> write_file_at(int directory_fd, const std::string& where, const std::string& name,
                           wire::ByteView bytes, mode_t mode, Existing existing,
                           Durable durable = Durable::kYes);
Result<void> sync_directory(int directory_fd, const std::string& where);

/// The same by path, the directory synchronised at the end.
Result<void> write_file(const std::string& path, wire::ByteView bytes, mode_t mode,
                        Existing existing, Durable durable = Durable::kYes);

enum class Readers : std::uint8_t { kAnybody, kOwnerOnly };

/// The whole file. kNotFound; kCorrupt: over `limit` bytes; kInvalidArgument: no plain file, or a
/// symbolic link; kUnavailable: with kOwnerOnly, others may read it or another user owns it.
Result<wire::Bytes> read_file_at(int directory_fd, const std::string& where,
                                 const std::string& name, std::uint64_t limit, Readers readers);
Result<wire::Bytes> read_file(const std::string& path, std::uint64_t limit, Readers readers);

}  // namespace goblin::trust
