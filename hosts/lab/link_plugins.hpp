// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The lab node's plugins: what the signed catalogue names, downloaded when first needed.
#pragma once

#include "hosts/lab/engine.hpp"
#include "hosts/link/coordinator_link.hpp"

namespace goblin::lab {

class LinkPlugins final : public PluginSource {
 public:
  explicit LinkPlugins(link::CoordinatorLink& link) : link_(link) {}
  net::Task<Result<PluginFile>> find(KindName kind) override;
  net::Task<Result<PluginFile>> find(wire::Digest plugin, std::uint32_t kind_index) override;
  [[nodiscard]] bool revoked(const wire::Digest& plugin) const override;
  net::Task<Result<std::vector<PluginFile>>> all() override;

 private:
  net::Task<Result<void>> need_catalogue();
  link::CoordinatorLink& link_;
};

}  // namespace goblin::lab
