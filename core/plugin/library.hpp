// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Loads plugins and backends into this process. Only a runner does that: loading runs their code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/plugin/note.hpp"
#include "core/wire/runner.hpp"
#include "goblin/abi/plugin.h"
#include "goblin/error.hpp"

namespace goblin::plugin {

/// A loaded plugin whose tables have been looked over. Never unloaded: its threads may still run.
class PluginLibrary {
 public:
  /// From a sealed memfd, which may be closed afterwards. The ABI and the note are judged before
  /// any of its code runs. kUnsupported, kCorrupt, kInvalidArgument say what is wrong with it.
  static Result<PluginLibrary> load(int sealed_fd);

  [[nodiscard]] std::size_t size() const { return kinds_.size(); }
  /// The table of a kind; slots that an older plugin lacks are NULL.
  [[nodiscard]] const goblin_kind_v1& kind(std::size_t i) const { return kinds_[i]; }
  [[nodiscard]] const std::vector<wire::KindDescription>& descriptions() const {
    return descriptions_;
  }

 private:
  std::vector<goblin_kind_v1> kinds_;
  std::vector<wire::KindDescription> descriptions_;
};

/// A loaded backend, opened if it keeps anything between calls, and one of its devices. The library
/// is never unloaded; what was opened is closed with this object, after the last call through it.
class BackendLibrary {
 public:
  /// `device`: a name; empty: the best. kNotFound lists the devices that there are.
  static Result<BackendLibrary> load(const std::string& path, const std::string& device);
  [[nodiscard]] const goblin_backend_v1& table() const { return *table_; }
  [[nodiscard]] std::uint32_t device_index() const { return device_index_; }
  [[nodiscard]] const std::string& device_name() const { return device_name_; }

 private:
  struct Close {
    void (*close)(const goblin_backend_v1*);  ///< of the table that opened this one; may be null
    void operator()(const goblin_backend_v1* table) const;
  };
  std::unique_ptr<const goblin_backend_v1, Close> table_{nullptr, Close{nullptr}};
  std::uint32_t device_index_ = 0;
  std::string device_name_;
};

/// Judges the table that an entry function gave, against the note if there is one; copies each kind
/// into a table of this program's size.
Result<std::vector<goblin_kind_v1>> check_plugin_table(const goblin_plugin_v1* table,
                                                       const PluginNote& note);

}  // namespace goblin::plugin
