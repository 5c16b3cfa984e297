// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a coordinator offers, from where, and what it leaves out and why: the reply to the commands
// "plugins" and "reload", as lines of a status report. Values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/note.hpp"
#include "core/wire/client.hpp"
#include "core/wire/values.hpp"

namespace goblin::coordinator {

struct PluginListing {
  struct Offered {
    wire::Digest plugin;
    std::vector<plugin::KindId> kinds;
    std::string path;
  };
  struct LeftOut {
    std::string path;
    std::string why;
  };
  std::string added;  ///< the directory of what `goblin plugin add` added
  std::vector<Offered> offered;
  std::vector<LeftOut> left_out;

  /// Does a file lie in the directory of added ones?
  [[nodiscard]] bool is_added(std::string_view path) const;
  /// The offered plugin that holds a kind; null if none does.
  [[nodiscard]] const Offered* holder(const plugin::KindId& kind) const;
  [[nodiscard]] const Offered* find(const wire::Digest& plugin) const;
};

/// "matmul/1, pi-estimate/1".
std::string kinds_text(const std::vector<plugin::KindId>& kinds);

/// Reports hold kMaxReportLines: what is over that is not told.
wire::StatusReport to_report(const PluginListing& listing);
/// kCorrupt unless to_report() made it.
Result<PluginListing> listing_from(const wire::StatusReport& report);

}  // namespace goblin::coordinator
