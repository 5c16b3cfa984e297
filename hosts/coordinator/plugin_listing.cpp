// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/plugin_listing.hpp"

#include <algorithm>
#include <filesystem>

#include "core/wire/bounds.hpp"

namespace goblin::coordinator {
namespace {

// The names of the report's lines.
constexpr const char* kAdded = "added plugins";
constexpr const char* kPlugin = "plugin";
constexpr const char* kKinds = "kinds";
constexpr const char* kPath = "path";
constexpr const char* kLeftOut = "left out";
constexpr const char* kWhy = "why";

Result<std::vector<plugin::KindId>> parse_kinds(std::string_view text) {
  std::vector<plugin::KindId> kinds;
  while (!text.empty()) {
    const auto end = text.find(", ");
    GOBLIN_TRY(plugin::KindId kind, plugin::KindId::parse(text.substr(0, end)));
    kinds.push_back(std::move(kind));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return kinds;
}

}  // namespace

bool PluginListing::is_added(std::string_view path) const {
  namespace fs = std::filesystem;
  return !added.empty() && fs::path(path).parent_path().lexically_normal() ==
                               (fs::path(added) / "").lexically_normal().parent_path();
}

const PluginListing::Offered* PluginListing::holder(const plugin::KindId& kind) const {
  for (const auto& one : offered) {
    if (std::find(one.kinds.begin(), one.kinds.end(), kind) != one.kinds.end()) {
      return &one;
    }
  }
  return nullptr;
}

const PluginListing::Offered* PluginListing::find(const wire::Digest& plugin) const {
  const auto it = std::find_if(offered.begin(), offered.end(),
                               [&](const Offered& one) { return one.plugin == plugin; });
  return it == offered.end() ? nullptr : &*it;
}

std::string kinds_text(const std::vector<plugin::KindId>& kinds) {
  std::string text;
  for (const auto& kind : kinds) {
    text += (text.empty() ? "" : ", ") + kind.text();
  }
  return text;
}

wire::StatusReport to_report(const PluginListing& listing) {
  wire::StatusReport report;
  auto& fields = report.fields;
  fields.emplace_back(kAdded, listing.added);
  for (const auto& one : listing.offered) {
    if (fields.size() + 3 > wire::kMaxReportLines) {
      return report;
    }
    fields.emplace_back(kPlugin, one.plugin.hex());
    fields.emplace_back(kKinds, kinds_text(one.kinds));
    fields.emplace_back(kPath, one.path);
  }
  for (const auto& one : listing.left_out) {
    if (fields.size() + 2 > wire::kMaxReportLines) {
      return report;
    }
    fields.emplace_back(kLeftOut, one.path);
    fields.emplace_back(kWhy, one.why);
  }
  return report;
}

Result<PluginListing> listing_from(const wire::StatusReport& report) {
  const auto broken = [] {
    return fail(Code::kCorrupt,
                "the coordinator's list of plugins cannot be read: it is of another release; use "
                "the `goblin` of that release");
  };
  PluginListing listing;
  const auto& fields = report.fields;
  std::size_t at = 0;
  // The value of the next line, if it has that name.
  const auto next = [&](std::string_view name) -> const std::string* {
    return at < fields.size() && fields[at].first == name ? &fields[at++].second : nullptr;
  };
  const std::string* added = next(kAdded);
  if (added == nullptr) {
    return broken();
  }
  listing.added = *added;
  while (at < fields.size()) {
    if (const std::string* path = next(kLeftOut)) {
      const std::string* why = next(kWhy);
      if (why == nullptr) {
        return broken();
      }
      listing.left_out.push_back({*path, *why});
      continue;
    }
    const std::string* hex = next(kPlugin);
    const std::string* kinds = next(kKinds);
    const std::string* path = next(kPath);
    if (hex == nullptr || kinds == nullptr || path == nullptr) {
      return broken();
    }
    const auto digest = wire::Digest::from_hex(*hex);
    auto parsed = parse_kinds(*kinds);
    if (!digest || !parsed) {
      return broken();
    }
    listing.offered.push_back({*digest, *std::move(parsed), *path});
  }
  return listing;
}

}  // namespace goblin::coordinator
