// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What hosts and lab nodes are answered when they ask for the catalogue. An interface, so that a
// lying coordinator of the tests (tests/testing/lying_coordinator) can serve anything.
#pragma once

#include <memory>

#include "core/net/blobs.hpp"
#include "core/wire/peer.hpp"

namespace goblin::coordinator {

/// Loop's thread only.
class CatalogueSource {
 public:
  virtual ~CatalogueSource() = default;
  /// A signed file; kNotFound when there is none of that version. Version 0: the newest.
  virtual Result<wire::Bytes> metadata(wire::ServedFile file, std::uint64_t version) = 0;
  /// Targets or a plugin, by SHA-256; kNotFound.
  virtual Result<std::shared_ptr<net::BlobSource>> blob(const wire::Digest& digest) = 0;
  /// Reads again what is published, renews what is due. True: something newer is served now.
  virtual Result<bool> refresh(std::uint64_t now_s) = 0;
  /// For `goblin coordinator status`: lines of name and value.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> report() const = 0;
};

}  // namespace goblin::coordinator
