// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#pragma once

#include <string>

#include "hosts/coordinator/catalogue_source.hpp"

namespace goblin::testing {

/// Serves the files of a directory as they are, read anew each time.
class RawCatalogue final : public coordinator::CatalogueSource {
 public:
  explicit RawCatalogue(std::string directory) : directory_(std::move(directory)) {}
  Result<wire::Bytes> metadata(wire::ServedFile file, std::uint64_t version) override;
  Result<std::shared_ptr<net::BlobSource>> blob(const wire::Digest& digest) override;
  /// Everybody is told of news, each time.
  Result<bool> refresh(std::uint64_t) override { return true; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> report() const override {
    return {};
  }

 private:
  std::string directory_;
};

}  // namespace goblin::testing
