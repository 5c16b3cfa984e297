// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Visits of what a kind says about itself: runners report it, lab nodes list it for clients.
#pragma once

#include "core/wire/codec_task.hpp"
#include "core/wire/runner.hpp"
#include "goblin/abi/plugin.h"
#include "runner.capnp.h"

namespace goblin::wire::codec {

/// In Get: refuses byte strides that are neither absent nor as many as the extents.
#define GOBLIN_STRIDES(member, Name, may_be_absent)                                     \
  do {                                                                                  \
    GOBLIN_NUMBERS(member, Name, GOBLIN_MAX_RANK);                                      \
    if constexpr (Pass::kGet) {                                                         \
      GOBLIN_AT(member);                                                                \
      if (!((may_be_absent) && m.member.empty()) && m.member.size() != m.shape.size())  \
        pass.refuse(std::to_string(m.member.size()) + " strides of a tensor of rank " + \
                    std::to_string(m.shape.size()));                                    \
    }                                                                                   \
  } while (false)

GOBLIN_WIRE_STRUCT(InputDescription) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_TEXT(doc, Doc, kMaxTextBytes);
  GOBLIN_NUMBER(dtypes, Dtypes);
  GOBLIN_ENUM(min_rank, MinRank, 0, GOBLIN_MAX_RANK);
  GOBLIN_ENUM(max_rank, MaxRank, 0, GOBLIN_MAX_RANK);
  GOBLIN_NUMBER(optional, Optional);
}
GOBLIN_WIRE_STRUCT(ParamDescription) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_TEXT(doc, Doc, kMaxTextBytes);
  GOBLIN_STRUCT(default_value, DefaultValue);
  GOBLIN_STRUCT(min_value, MinValue);
  GOBLIN_STRUCT(max_value, MaxValue);
  GOBLIN_NUMBER(required, Required);
}
GOBLIN_WIRE_STRUCT(OutputDescription) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_TEXT(doc, Doc, kMaxTextBytes);
}
GOBLIN_WIRE_STRUCT(KindDescription) {
  GOBLIN_TEXT(name, Name, kMaxNameBytes);
  GOBLIN_TEXT(doc, Doc, kMaxTextBytes);
  GOBLIN_NUMBER(version, Version);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(params, Params, kMaxParams);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_ENUM(default_policy, DefaultPolicy, 0, GOBLIN_POLICY_REPLICATE);
  GOBLIN_NUMBER(default_replicas, DefaultReplicas);
}

}  // namespace goblin::wire::codec
