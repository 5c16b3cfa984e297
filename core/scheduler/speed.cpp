// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/speed.hpp"

#include <algorithm>

namespace goblin::scheduler {

namespace {
constexpr double kKeep = 7.0 / 8.0;
}

void SpeedModel::add(double size, double seconds) {
  weight_ = weight_ * kKeep + 1;
  size_ = size_ * kKeep + size;
  seconds_ = seconds_ * kKeep + seconds;
  size_size_ = size_size_ * kKeep + size * size;
  size_seconds_ = size_seconds_ * kKeep + size * seconds;
}

std::optional<double> SpeedModel::predict(double size) const {
  if (weight_ <= 0) return std::nullopt;
  const double mean_size = size_ / weight_;
  const double mean_seconds = seconds_ / weight_;
  const double variance = size_size_ / weight_ - mean_size * mean_size;
  // Sizes within a few per cent of each other say nothing of the slope: noise would.
  if (variance <= 1e-3 * mean_size * mean_size) {
    if (mean_size <= 0 || size <= mean_size) return mean_seconds;
    return mean_seconds * (size / mean_size);
  }
  const double covariance = size_seconds_ / weight_ - mean_size * mean_seconds;
  const double slope = std::clamp(covariance / variance, 0.0, mean_seconds / mean_size);
  const double overhead = mean_seconds - slope * mean_size;
  return overhead + slope * size;
}

double SpeedModel::rate() const { return seconds_ > 0 ? size_ / seconds_ : 0; }

}  // namespace goblin::scheduler
