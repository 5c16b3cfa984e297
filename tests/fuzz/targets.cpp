// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

constexpr std::array<std::int64_t, 15> kCorners = {0,
                                                   1,
                                                   -1,
                                                   2,
                                                   3,
                                                   4096,
                                                   std::int64_t{1} << 31,
                                                   std::int64_t{1} << 32,
                                                   (std::int64_t{1} << 32) - 1,
                                                   std::int64_t{1} << 58,
                                                   std::int64_t{1} << 61,
                                                   std::int64_t{1} << 62,
                                                   std::numeric_limits<std::int64_t>::max(),
                                                   std::numeric_limits<std::int64_t>::min(),
                                                   std::numeric_limits<std::int64_t>::min() + 1};

/// Gone when the process ends by itself.
struct Scratch {
  Scratch() {
    const bool shm = ::access("/dev/shm", W_OK) == 0;
    std::string pattern =
        (shm ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
        "goblin-fuzz-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      std::perror("goblin-fuzz: cannot make a directory for scratch files");
      std::abort();
    }
    path = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path;
};

}  // namespace

std::vector<Target> all_targets() {
  return {blobs_target(),    catalogue_target(),  config_target(),   frames_target(),
          job_spec_target(), journal_target(),    messages_target(), plugin_note_target(),
          records_target(),  trust_files_target()};
}

void expect(bool held, const char* promise) {
  if (!held) {
    std::fprintf(stderr, "goblin-fuzz: broken promise: %s\n", promise);
    std::abort();
  }
}

std::uint64_t Draw::number(std::size_t count) {
  const ByteView taken = bytes(count);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    value |= std::to_integer<std::uint64_t>(taken[i]) << (8 * i);
  }
  return value;
}

std::int64_t Draw::integer() {
  const std::uint8_t kind = u8();
  if (kind < kCorners.size()) {
    return kCorners[kind];
  }
  if (kind < 128) {
    return static_cast<std::int64_t>(kind) - static_cast<std::int64_t>(kCorners.size());
  }
  return kind < 192 ? static_cast<std::int64_t>(u16()) : static_cast<std::int64_t>(u64());
}

ByteView Draw::bytes(std::size_t count) {
  const ByteView taken = rest_.first(std::min(count, rest_.size()));
  rest_ = rest_.subspan(taken.size());
  return taken;
}

std::string Draw::text(std::size_t count) {
  const ByteView taken = bytes(count);
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

Script& Script::integer(std::int64_t value) {
  return u8(255).u64(static_cast<std::uint64_t>(value));
}

Script& Script::bytes(ByteView bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

Script& Script::number(std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return *this;
}

const std::string& scratch_directory() {
  static const Scratch scratch;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path)) {
    std::filesystem::remove_all(entry.path());
  }
  return scratch.path;
}

}  // namespace goblin::fuzz
