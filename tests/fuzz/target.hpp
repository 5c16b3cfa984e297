// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What is fuzzed: one reader of foreign bytes, or a few that belong together. libFuzzer calls a
// target (fuzz_main.cpp), and so does a test of every build (replay_test.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/wire/values.hpp"

namespace goblin::fuzz {

using wire::Bytes;
using wire::ByteView;

struct Target {
  const char* name;
  /// Any bytes. Ends the process (expect(), a sanitizer) when the reader broke a promise.
  void (*run)(ByteView input);
  /// Inputs that lead past the first checks, from real encodings. The same each time.
  std::vector<Bytes> (*seeds)();
  /// Null: libFuzzer's own. Changes `data`, at most `capacity` bytes, and answers the new size.
  std::size_t (*mutate)(std::uint8_t* data, std::size_t size, std::size_t capacity,
                        std::uint64_t random);
};

Target blobs_target();
Target catalogue_target();
Target config_target();
Target frames_target();
Target job_spec_target();
Target journal_target();
Target messages_target();
Target plugin_note_target();
Target records_target();
Target trust_files_target();

/// All of them, by name.
std::vector<Target> all_targets();

/// A promise of the reader: when it does not hold, says which and aborts.
void expect(bool held, const char* promise);

/// Typed values out of an input; zeros when it has ended.
class Draw {
 public:
  explicit Draw(ByteView input) : rest_(input) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] ByteView rest() const { return rest_; }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  /// 0 for an end of 0.
  std::uint64_t below(std::uint64_t end) { return end == 0 ? 0 : u32() % end; }
  bool yes() { return (u8() & 1) != 0; }
  /// Often one where arithmetic breaks.
  std::int64_t integer();
  ByteView bytes(std::size_t count);
  std::string text(std::size_t count);

 private:
  std::uint64_t number(std::size_t count);
  ByteView rest_;
};

/// Writes what Draw reads, for seeds.
class Script {
 public:
  Script& u8(std::uint64_t value) { return number(value, 1); }
  Script& u16(std::uint64_t value) { return number(value, 2); }
  Script& u32(std::uint64_t value) { return number(value, 4); }
  Script& u64(std::uint64_t value) { return number(value, 8); }
  /// As Draw::integer reads it.
  Script& integer(std::int64_t value);
  Script& bytes(ByteView bytes);
  Script& text(std::string_view text) { return bytes(std::as_bytes(std::span(text))); }
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  Script& number(std::uint64_t value, std::size_t count);
  Bytes bytes_;
};

/// A directory of this process in memory, where the machine has /dev/shm. Emptied by the next call.
const std::string& scratch_directory();

}  // namespace goblin::fuzz
