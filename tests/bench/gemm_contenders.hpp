// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Square row-major products by our backend and by the libraries it is measured against.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace goblin::bench {

enum class Real { kF32, kF64 };

/// A product C = A·B of n×n row-major matrices on so many threads.
class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// What it runs on, for the reader of the log.
  [[nodiscard]] virtual std::string details() const = 0;
  [[nodiscard]] virtual bool offers(Real real) const = 0;
  /// Before `multiply`; not timed.
  virtual void prepare(Real real, std::int64_t n, int threads) = 0;
  virtual void multiply(Real real, std::int64_t n, const void* a, const void* b, void* c) = 0;
};

/// Our CPU backend; `device` is one of its levels, empty for the best. Throws when it is missing.
std::unique_ptr<Contender> make_goblin(const std::string& library, const std::string& device);

/// The libraries that are installed, each loaded so that its symbols stay its own. Unsets the
/// variables that would make OpenBLAS choose other code than it does by itself.
std::vector<std::unique_ptr<Contender>> make_peers();

}  // namespace goblin::bench
