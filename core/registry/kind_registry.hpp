// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which plugin holds which kind. Built in main from plugins' notes and handed on; a value.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/note.hpp"
#include "core/wire/values.hpp"
#include "goblin/error.hpp"

namespace goblin {

/// Where a kind is found.
struct KindEntry {
  plugin::KindId id;
  wire::Digest plugin;      ///< SHA-256 of the plugin's file
  std::uint32_t index = 0;  ///< of the kind inside the plugin
  std::string origin;       ///< where the plugin came from, for messages: a path, "catalogue"
};

/// One thread at a time.
class KindRegistry {
 public:
  /// Adds every kind of a plugin, or none. The same file twice is no error. kInvalidArgument names
  /// the kind and both plugins when another one holds it already.
  Result<void> add(const wire::Digest& plugin, std::span<const plugin::KindId> kinds,
                   std::string_view origin);
  /// Forgets every kind of a plugin.
  void remove(const wire::Digest& plugin);

  /// "matmul/1", or "matmul" for its newest version. kNotFound says what there is and what may
  /// have been meant. The pointer is valid until the next add or remove.
  [[nodiscard]] Result<const KindEntry*> find(std::string_view text) const;
  [[nodiscard]] const KindEntry* find(const plugin::KindId& id) const;
  /// Every kind, by name and version.
  [[nodiscard]] std::vector<const KindEntry*> list() const;

 private:
  std::map<plugin::KindId, KindEntry> kinds_;
};

}  // namespace goblin
