// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a kind's specification may contain, written as a chain of calls:
//   Description("C = A·B")
//       .input("a", "left operand", dtypes({GOBLIN_F32}), 1, 16)
//       .param("seed", "of the random numbers", 0, 0, INT64_MAX)
//       .output("c", "the product")
//       .policy(GOBLIN_POLICY_ALGEBRAIC);
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "goblin/abi/plugin.h"
#include "goblin/tensor.hpp"

namespace goblin {

/// Owns its texts; table() points into it.
class Description {
 public:
  explicit Description(std::string_view doc) : doc_(keep(doc)) {}
  Description(Description&&) = default;
  Description& operator=(Description&&) = default;
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  /// A tensor with one of these dtypes and a rank in [min_rank, max_rank].
  Description&& input(std::string_view name, std::string_view doc, std::uint64_t dtypes,
                      std::uint32_t min_rank, std::uint32_t max_rank) && {
    inputs_.push_back({keep(name), keep(doc), dtypes, min_rank, max_rank, 0, 0});
    return std::move(*this);
  }
  Description&& optional_input(std::string_view name, std::string_view doc, std::uint64_t dtypes,
                               std::uint32_t min_rank, std::uint32_t max_rank) && {
    inputs_.push_back({keep(name), keep(doc), dtypes, min_rank, max_rank, 1, 0});
    return std::move(*this);
  }
  /// A number with a default; its type is the default's, min and max are inclusive.
  Description&& param(std::string_view name, std::string_view doc, Value default_value, Value min,
                      Value max) && {
    add_param(name, doc, default_value, min, max, 0);
    return std::move(*this);
  }
  Description&& required_param(std::string_view name, std::string_view doc, Value min,
                               Value max) && {
    add_param(name, doc, min, min, max, 1);
    return std::move(*this);
  }
  Description&& output(std::string_view name, std::string_view doc) && {
    outputs_.push_back({keep(name), keep(doc)});
    return std::move(*this);
  }
  /// GOBLIN_POLICY_*: how results are checked unless the job says otherwise.
  Description&& policy(std::uint32_t policy, std::uint32_t replicas = 2) && {
    policy_ = policy;
    replicas_ = replicas;
    return std::move(*this);
  }

  /// Valid while this object lives and does not move.
  [[nodiscard]] goblin_description_v1 table() const {
    goblin_description_v1 table{};
    table.struct_size = sizeof table;
    table.doc = doc_;
    table.inputs = inputs_.data();
    table.input_count = inputs_.size();
    table.params = params_.data();
    table.param_count = params_.size();
    table.outputs = outputs_.data();
    table.output_count = outputs_.size();
    table.default_policy = policy_;
    table.default_replicas = replicas_;
    return table;
  }

 private:
  const char* keep(std::string_view text) {
    texts_.emplace_back(text.begin(), text.end());
    texts_.back().push_back('\0');
    return texts_.back().data();
  }
  void add_param(std::string_view name, std::string_view doc, const Value& default_value,
                 const Value& min, const Value& max, std::uint32_t required) {
    if (min.is_i64() != default_value.is_i64() || max.is_i64() != default_value.is_i64()) {
      throw Failure({Code::kInternal, "parameter '" + std::string(name) +
                                          "': default, minimum and maximum differ in type"});
    }
    params_.push_back(
        {keep(name), keep(doc), default_value.raw(), min.raw(), max.raw(), required, 0});
  }

  // Vectors of chars, so that a move leaves every pointer valid (a short std::string would not).
  std::deque<std::vector<char>> texts_;
  const char* doc_;
  std::vector<goblin_input_desc_v1> inputs_;
  std::vector<goblin_param_desc_v1> params_;
  std::vector<goblin_output_desc_v1> outputs_;
  std::uint32_t policy_ = GOBLIN_POLICY_REPLICATE;
  std::uint32_t replicas_ = 2;
};

}  // namespace goblin
