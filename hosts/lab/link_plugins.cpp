// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/link_plugins.hpp"

#include "core/registry/kind_registry.hpp"

namespace goblin::lab {
namespace {

constexpr net::Milliseconds kCatalogWait{10'000};

std::vector<plugin::KindId> kinds_of(const wire::CatalogEntry& entry) {
  std::vector<plugin::KindId> kinds;
  for (const auto& kind : entry.kinds) {
    kinds.push_back({kind.name, kind.version});
  }
  return kinds;
}

}  // namespace

net::Task<Result<void>> LinkPlugins::need_catalog() {
  if (const auto done = co_await link_.wait_catalog(kCatalogWait); !done) {
    co_return fail(Code::kUnavailable,
                   "the catalogue of kinds is not here yet: " + link_.trouble());
  }
  co_return Result<void>{};
}

net::Task<Result<PluginFile>> LinkPlugins::find(KindName kind) {
  GOBLIN_CO_TRY_VOID(co_await need_catalog());
  KindRegistry registry;
  for (const auto& entry : link_.catalog().entries) {
    GOBLIN_CO_TRY_VOID(registry.add(entry.plugin, kinds_of(entry), "catalogue"));
  }
  const std::string text =
      kind.version ? kind.name + "/" + std::to_string(*kind.version) : kind.name;
  GOBLIN_CO_TRY(const KindEntry* const found, registry.find(text));
  PluginFile file;
  file.digest = found->plugin;
  file.kind_index = found->index;
  file.kind = found->id.text();
  GOBLIN_CO_TRY(file.memfd, co_await link_.plugin(file.digest, true));
  co_return file;
}

net::Task<Result<PluginFile>> LinkPlugins::find(wire::Digest plugin, std::uint32_t kind_index) {
  PluginFile file;
  file.digest = plugin;
  file.kind_index = kind_index;
  GOBLIN_CO_TRY(file.memfd, co_await link_.plugin(plugin, false));
  co_return file;
}

net::Task<Result<std::vector<PluginFile>>> LinkPlugins::all() {
  GOBLIN_CO_TRY_VOID(co_await need_catalog());
  const wire::Catalog catalog = link_.catalog();
  std::vector<PluginFile> files;
  for (const auto& entry : catalog.entries) {
    PluginFile file;
    file.digest = entry.plugin;
    GOBLIN_CO_TRY(file.memfd, co_await link_.plugin(entry.plugin, true));
    files.push_back(std::move(file));
  }
  co_return files;
}

}  // namespace goblin::lab
