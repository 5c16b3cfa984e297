// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a plugin's file claims to be, read without loading it. The file may be hostile.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire/values.hpp"
#include "goblin/error.hpp"

namespace goblin::plugin {

/// Names a kind: "matmul/1".
struct KindId {
  std::string name;
  std::uint32_t version = 0;

  auto operator<=>(const KindId&) const = default;
  [[nodiscard]] std::string text() const { return name + "/" + std::to_string(version); }
  /// kInvalidArgument unless "name/version": lower case letters, digits and '-', at most 63 bytes,
  /// and a version from 1.
  static Result<KindId> parse(std::string_view text);
};

/// Is it a name as KindId wants it?
bool is_kind_name(std::string_view name);

/// A plugin's note (goblin_plugin_note_v1).
struct PluginNote {
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::vector<KindId> kinds;  ///< in the plugin's order; no kind twice
};

/// Reads the note out of a whole ELF file. kCorrupt when the file is cut short, damaged, or no ELF
/// library; kUnsupported when it is for another processor; kInvalidArgument when it has no note, or
/// one that breaks the rules (a bad name, the same kind twice). The ABI is not judged here.
Result<PluginNote> read_note(wire::ByteView file);

/// Can this program use a `what` ("plugin", "backend") of that ABI? kUnsupported names both
/// versions and the side to upgrade.
Result<void> check_abi(std::string_view what, std::uint32_t major, std::uint32_t minor);

}  // namespace goblin::plugin
