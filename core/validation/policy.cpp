// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <string>

#include "core/validation/validation.hpp"
#include "goblin/abi/plugin.h"

namespace goblin::validation {
namespace {

constexpr std::string_view kAllowed = "algebraic, validator, replicate or adaptive";

Result<wire::Policy> known_policy(std::uint32_t value, std::string_view whose) {
  switch (value) {
    case GOBLIN_POLICY_ALGEBRAIC:
      return wire::Policy::kAlgebraic;
    case GOBLIN_POLICY_VALIDATOR:
      return wire::Policy::kValidator;
    case GOBLIN_POLICY_REPLICATE:
      return wire::Policy::kReplicate;
    case static_cast<std::uint32_t>(wire::Policy::kAdaptive):
      return wire::Policy::kAdaptive;
    default:
      return fail(Code::kInvalidArgument, "policy: " + std::string(whose) + " is " +
                                              std::to_string(value) + ", which is none of " +
                                              std::string(kAllowed));
  }
}

}  // namespace

Result<PolicySpec> make_policy(wire::Policy asked, std::uint32_t asked_replicas,
                               std::uint32_t kind_default_policy,
                               std::uint32_t kind_default_replicas) {
  PolicySpec spec;
  const bool defaulted = asked == wire::Policy::kDefault;
  if (!defaulted) {
    GOBLIN_TRY(spec.policy, known_policy(static_cast<std::uint32_t>(asked), "the job's"));
  } else if (kind_default_policy != 0) {
    GOBLIN_TRY(spec.policy, known_policy(kind_default_policy, "the kind's default"));
  }
  if (spec.policy != wire::Policy::kReplicate) {
    if (asked_replicas != 0)
      return fail(Code::kInvalidArgument,
                  "replicas: " + std::to_string(asked_replicas) +
                      " was given, but only policy replicate takes a number of replicas; leave "
                      "it out or choose replicate");
    return spec;
  }
  std::uint32_t replicas = asked_replicas;
  if (replicas == 0 && kind_default_policy == GOBLIN_POLICY_REPLICATE)
    replicas = kind_default_replicas;
  if (replicas == 0) replicas = kMinReplicas;
  if (replicas < kMinReplicas || replicas > kMaxReplicas)
    return fail(Code::kInvalidArgument, "replicas: " + std::to_string(replicas) + " is not from " +
                                            std::to_string(kMinReplicas) + " to " +
                                            std::to_string(kMaxReplicas));
  spec.replicas = replicas;
  return spec;
}

}  // namespace goblin::validation
