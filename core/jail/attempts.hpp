// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A closed jail is tried from inside, by what a plugin would try first. It finds what reports of
// single layers cannot: a kernel, a container or a mistake that says yes and denies nothing.
#pragma once

#include <string>
#include <vector>

namespace goblin::jail {

/// In a closed jail. What was not denied, in words ("it opened /"); empty: everything was. Nothing
/// that is tried does harm where it succeeds.
std::vector<std::string> attempt_escapes();

}  // namespace goblin::jail
