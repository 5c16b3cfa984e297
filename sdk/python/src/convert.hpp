// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages of core/wire as Python's dictionaries, lists and numbers; the GIL is held.
#pragma once

#include <pybind11/pybind11.h>

#include "core/wire/client.hpp"

namespace goblin::client {

/// Raises what gpugoblin._errors makes of it.
[[noreturn]] void raise(const Error& error, bool lost = false);

pybind11::dict to_python(const wire::JobStatus& status);
/// None for Ok; else what the reply holds.
pybind11::object to_python(const wire::ReplyBody& body);

/// A submission from the arguments of Client.submit: see _core.pyi.
wire::Submit submit_from(const pybind11::dict& request);

/// What a submission may hold (core/wire/bounds.hpp), by name: the package refuses more with a
/// message of its own.
pybind11::dict bounds();

/// kInvalidArgument for a submission that the lab node would end the connection for: the last line
/// of defence behind the package's own checks.
Result<void> check_sendable(const wire::Submit& submit, std::size_t fds);

}  // namespace goblin::client
