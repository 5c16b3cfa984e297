// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What Staging and BlobCache share: a directory that one process owns, blocks that are really
// allocated, and errors of the disk. Internal to core/store. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::store {

/// "what: No space left on device". ENOSPC, EDQUOT and EFBIG are kExhausted, ENOENT kNotFound,
/// everything else kUnavailable; the message says what to do where there is something to do.
Error disk_error(std::string_view what, int error_number);

/// "1610612736 bytes (1.5 GiB)"
std::string bytes_text(std::uint64_t bytes);

/// Bytes that this user may still write to the file system of `fd`; 0 when it does not say.
std::uint64_t free_bytes(int fd);

/// Opens `path`, made with its parents when missing (0700), and locks it for this process until
/// the descriptor closes. `purpose` names it in errors ("staging directory").
/// kUnavailable: another process (or another object here) has it. kInvalidArgument: anybody may
/// write into it, or it is no directory.
Result<net::UniqueFd> open_owned_directory(const std::string& path, std::string_view purpose);

/// Calls `visit` for every name in the directory that is a regular file.
Result<void> visit_files(int directory_fd, const std::function<void(const std::string&)>& visit);

/// Allocates the blocks of [0, size) so that no later write meets a full disk; `keep_size` leaves
/// the file's length as it is. False: this file system cannot (nothing has changed then).
Result<bool> allocate_blocks(int fd, std::uint64_t size, bool keep_size);

/// Writes zeros over [0, size): what is left where allocate_blocks cannot. One pass over the disk
/// at its writing speed. On file systems that compress or copy on write it reserves nothing for
/// later overwrites; nothing can there.
Result<void> write_zeros(int fd, std::uint64_t size);

Result<void> write_all(int fd, wire::ByteView bytes, std::uint64_t offset);
/// Reads exactly out.size() bytes; kCorrupt when the file ends before.
Result<void> read_all(int fd, std::span<std::byte> out, std::uint64_t offset);

}  // namespace goblin::store
