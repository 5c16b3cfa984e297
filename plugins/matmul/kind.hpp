// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The kind "matmul/1". Its parts: problem.hpp (semantics), tiling.hpp and planner.hpp (how it is
// cut), task.hpp (what travels), check.hpp (how results are tested).
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "goblin/kind.hpp"

namespace goblin::matmul {

class MatmulKind final : public Kind {
 public:
  static constexpr const char* kName = "matmul";
  static constexpr std::uint32_t kVersion = 1;

  [[nodiscard]] Description describe() const override;
  Result<Validated> validate(const Job& job) override;
  Result<std::unique_ptr<Planner>> make_planner(
      const Job& job, const Capacity& capacity, const Services& services,
      std::optional<std::span<const std::byte>> state) override;
  Result<void> execute(const Task& task, const Device& device) override;
  Result<Verdict> check(const Task& task, const Device& device, Seed seed) override;
};

}  // namespace goblin::matmul
