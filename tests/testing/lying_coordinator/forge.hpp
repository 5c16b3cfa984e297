// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#pragma once

#include <map>
#include <string>

#include "goblin/error.hpp"

namespace goblin::testing {

/// Signs what no honest command would. Options by name:
///   targets:   out, root, key, version, name, library, kind, abi ("99.0"), backend, release
///   timestamp: out, root, key, version, targets (a file), issued, expires (seconds since 1970)
Result<void> forge(const std::string& what, const std::map<std::string, std::string>& options);

}  // namespace goblin::testing
