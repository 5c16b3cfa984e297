// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// `goblin plugin info`: what plugins' files claim to be; they are read as bytes.
#pragma once

#include "hosts/cli/plugin_catalogue.hpp"

namespace goblin::cli {

/// 1 when one of them is no plugin that this release can use.
int plugin_info(const CatalogueOptions& options);

}  // namespace goblin::cli
