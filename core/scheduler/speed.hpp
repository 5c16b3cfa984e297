// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How long work takes: duration = overhead + size / rate, learnt from what was observed.
#pragma once

#include <optional>

namespace goblin::scheduler {

/// Least squares over (size, seconds) with exponential forgetting. Both parts stay ≥ 0. A value.
class SpeedModel {
 public:
  /// Each new observation leaves 7/8 of the weight of those before it.
  void add(double size, double seconds);
  /// Seconds for that much work; empty before the first observation.
  [[nodiscard]] std::optional<double> predict(double size) const;
  /// Size per second over all that is remembered, overhead included; 0 while unknown.
  [[nodiscard]] double rate() const;
  [[nodiscard]] bool known() const { return weight_ > 0; }

 private:
  double weight_ = 0, size_ = 0, seconds_ = 0, size_size_ = 0, size_seconds_ = 0;
};

}  // namespace goblin::scheduler
