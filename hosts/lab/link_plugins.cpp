// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/link_plugins.hpp"

#include <algorithm>

#include "core/registry/kind_registry.hpp"

namespace goblin::lab {
namespace {

constexpr net::Milliseconds kCatalogueWait{10'000};

std::vector<plugin::KindId> kinds_of(const wire::TrustPlugin& plugin) {
  std::vector<plugin::KindId> kinds;
  for (const auto& kind : plugin.kinds) {
    kinds.push_back({kind.name, kind.version});
  }
  return kinds;
}

}  // namespace

net::Task<Result<void>> LinkPlugins::need_catalogue() {
  if (const auto done = co_await link_.wait_catalogue(kCatalogueWait); !done) {
    const std::string& why = link_.connected() ? link_.catalogue().trouble() : link_.trouble();
    co_return fail(Code::kUnavailable, "the catalogue of kinds is not here yet: " + why);
  }
  co_return link_.catalogue().may_start();
}

net::Task<Result<PluginFile>> LinkPlugins::find(KindName kind) {
  GOBLIN_CO_TRY_VOID(co_await need_catalogue());
  KindRegistry registry;
  std::optional<Error> refusal;
  // Of two builds that stand beside each other the newer one, which comes later, is for new jobs.
  const auto& plugins = link_.catalogue().plugins();
  for (auto it = plugins.rbegin(); it != plugins.rend(); ++it) {
    const wire::TrustPlugin& plugin = *it;
    if (const auto allowed = link_.catalogue().allow(plugin.plugin); !allowed) {
      const bool meant =
          std::any_of(plugin.kinds.begin(), plugin.kinds.end(), [&](const auto& one) {
            return one.name == kind.name && (!kind.version || *kind.version == one.version);
          });
      refusal = meant ? std::optional(allowed.error()) : std::move(refusal);
      continue;
    }
    (void)registry.add(plugin.plugin, kinds_of(plugin), "catalogue");
  }
  const std::string text =
      kind.version ? kind.name + "/" + std::to_string(*kind.version) : kind.name;
  const auto found = registry.find(text);
  if (!found) {
    co_return fail(refusal ? *refusal : found.error());
  }
  PluginFile file;
  file.digest = (*found)->plugin;
  file.kind_index = (*found)->index;
  file.kind = (*found)->id.text();
  GOBLIN_CO_TRY(file.memfd, co_await link_.plugin(file.digest));
  co_return file;
}

net::Task<Result<PluginFile>> LinkPlugins::find(wire::Digest plugin, std::uint32_t kind_index) {
  PluginFile file;
  file.digest = plugin;
  file.kind_index = kind_index;
  GOBLIN_CO_TRY(file.memfd, co_await link_.plugin(plugin));
  co_return file;
}

bool LinkPlugins::revoked(const wire::Digest& plugin) const {
  return link_.catalogue().known() && !link_.catalogue().lists(plugin);
}

net::Task<Result<std::vector<PluginFile>>> LinkPlugins::all() {
  GOBLIN_CO_TRY_VOID(co_await need_catalogue());
  KindRegistry registry;
  std::vector<wire::Digest> plugins;  // those that find() takes, in the catalogue's order
  const auto& listed = link_.catalogue().plugins();
  for (auto it = listed.rbegin(); it != listed.rend(); ++it) {
    if (link_.catalogue().allow(it->plugin) &&
        registry.add(it->plugin, kinds_of(*it), "catalogue")) {
      plugins.insert(plugins.begin(), it->plugin);
    }
  }
  std::vector<PluginFile> files;
  for (const auto& plugin : plugins) {
    PluginFile file;
    file.digest = plugin;
    GOBLIN_CO_TRY(file.memfd, co_await link_.plugin(plugin));
    files.push_back(std::move(file));
  }
  co_return files;
}

}  // namespace goblin::lab
