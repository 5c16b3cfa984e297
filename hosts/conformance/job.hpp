// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Small jobs to try a kind with: written as one line, or guessed from the kind's description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire/runner.hpp"
#include "goblin/error.hpp"

namespace goblin::conformance {

using Random = std::mt19937_64;

/// What a job asks for; the inputs' elements are made up. In the description's order.
struct JobSpec {
  std::vector<wire::TensorSpec> inputs;  ///< dtype 0: left out
  std::vector<wire::Value> params;
};

/// "matmul/1" of "matmul/1 a=f32[30,20] b=f32[20,10] out_dtype=0".
std::string_view kind_of_line(std::string_view line);

/// Reads such a line: numbers for parameters, dtype and shape for inputs; what is left out takes
/// its default. kInvalidArgument names the word.
Result<JobSpec> parse_job(std::string_view line, const wire::KindDescription& kind);
/// The reverse.
std::string job_line(const JobSpec& job, const wire::KindDescription& kind);

/// Jobs that the kind might accept, as its description reads: every input with one of its dtypes
/// and small equal extents, parameters at their defaults or least values.
std::vector<JobSpec> guess_jobs(const wire::KindDescription& kind);

/// Bytes of elements that any kind can work with: small numbers, no NaN.
std::vector<std::byte> make_elements(const wire::TensorSpec& spec, Random& random);

}  // namespace goblin::conformance
