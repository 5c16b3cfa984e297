// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A plugin's bytes in a memfd that nobody can change any more: what was hashed is what is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"
#include "goblin/error.hpp"

namespace goblin::plugin {

/// Longest plugin file.
inline constexpr std::uint64_t kMaxPluginBytes = std::uint64_t{1} << 30;

/// Copies bytes into a memfd and seals it against writing, growing, shrinking and unsealing.
Result<net::UniqueFd> make_sealed_memfd(wire::ByteView bytes);
/// The same for a file; kNotFound, kInvalidArgument (no regular file), kExhausted (over
/// kMaxPluginBytes) name the path.
Result<net::UniqueFd> make_sealed_memfd_from(const std::string& path);
/// kCorrupt unless `fd` is a memfd with all four seals.
Result<void> check_sealed(int fd);

/// The bytes of a file, mapped read only. Only for files that cannot shrink (sealed ones).
class FileMap {
 public:
  static Result<FileMap> open(int fd);
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&&) = delete;
  ~FileMap();
  [[nodiscard]] wire::ByteView bytes() const { return {data_, size_}; }

 private:
  FileMap(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace goblin::plugin
