// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/registry/kind_registry.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace goblin {
namespace {

constexpr std::size_t kMostListed = 20;

/// Levenshtein's distance.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

Result<void> KindRegistry::add(const wire::Digest& plugin, std::span<const plugin::KindId> kinds,
                               std::string_view origin) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (std::find(kinds.begin(), kinds.begin() + i, kinds[i]) != kinds.begin() + i) {
      return fail(Code::kInvalidArgument, "kind " + kinds[i].text() + " is twice in the plugin " +
                                              std::string(origin) + " (" + plugin.hex() + ")");
    }
    const KindEntry* other = find(kinds[i]);
    if (other != nullptr && other->plugin != plugin) {
      return fail(Code::kInvalidArgument,
                  "kind " + kinds[i].text() + " is in two plugins: " + other->origin + " (" +
                      other->plugin.hex() + ") and " + std::string(origin) + " (" + plugin.hex() +
                      "); remove one of them, or give its kind another name or version");
    }
  }
  for (std::uint32_t i = 0; i < kinds.size(); ++i) {
    kinds_.try_emplace(kinds[i], KindEntry{kinds[i], plugin, i, std::string(origin)});
  }
  return {};
}

void KindRegistry::remove(const wire::Digest& plugin) {
  std::erase_if(kinds_, [&](const auto& item) { return item.second.plugin == plugin; });
}

const KindEntry* KindRegistry::find(const plugin::KindId& id) const {
  const auto found = kinds_.find(id);
  return found == kinds_.end() ? nullptr : &found->second;
}

Result<const KindEntry*> KindRegistry::find(std::string_view text) const {
  const std::string_view name = text.substr(0, text.find('/'));
  if (plugin::is_kind_name(text)) {
    // The last one before the next name is the newest version.
    const auto end = kinds_.upper_bound(plugin::KindId{std::string(name), UINT32_MAX});
    if (end != kinds_.begin() && std::prev(end)->first.name == name) {
      return &std::prev(end)->second;
    }
  } else {
    GOBLIN_TRY(const plugin::KindId id, plugin::KindId::parse(text));
    if (const KindEntry* entry = find(id); entry != nullptr) {
      return entry;
    }
  }
  std::string message = "no kind '" + std::string(text) + "' is known here";
  std::string near;
  std::string known;
  std::size_t listed = 0;
  for (const auto& [id, entry] : kinds_) {
    if (id.name == name || edits(id.name, name) <= std::max<std::size_t>(2, name.size() / 4)) {
      near += (near.empty() ? "" : ", ") + id.text();
    }
    if (listed++ < kMostListed) {
      known += (known.empty() ? "" : ", ") + id.text();
    }
  }
  if (!near.empty()) {
    message += "; did you mean " + near + "?";
  }
  if (known.empty()) {
    message += "; no plugin is installed: add one to the lab node's plugins";
  } else {
    message += (near.empty() ? "; known: " : " Known: ") + known;
    if (listed > kMostListed) {
      message += " and " + std::to_string(listed - kMostListed) + " more";
    }
  }
  return fail(Code::kNotFound, std::move(message));
}

std::vector<const KindEntry*> KindRegistry::list() const {
  std::vector<const KindEntry*> all;
  for (const auto& [id, entry] : kinds_) {
    all.push_back(&entry);
  }
  return all;
}

}  // namespace goblin
