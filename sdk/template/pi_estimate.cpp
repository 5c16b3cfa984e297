// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A kind to copy: estimates π by throwing random points at a square. Each host throws some of them;
// the lab adds up how many fell into the circle. Point i depends on the seed and on i alone, so two
// honest hosts agree to the bit, and two of them are asked (policy "replicate").
#include "goblin/map_kind.hpp"
#include "goblin/random.hpp"

namespace {

using namespace goblin;

class PiEstimate final : public MapKind {
 public:
  static constexpr const char* kName = "pi-estimate";
  static constexpr std::uint32_t kVersion = 1;

  Description describe() const override {
    return Description("estimates pi by Monte Carlo")
        .param("samples", "how many points to throw", 100'000'000, 1, std::int64_t{1} << 53)
        .param("seed", "of the random numbers", 0, 0, INT64_MAX)
        .output("pi", "the estimate, f64[]")
        .output("inside", "points inside the circle, i64[]")
        .policy(GOBLIN_POLICY_REPLICATE, 2);
  }

  Result<MapPlan> plan(const Job& job) const override {
    if (job.i64(0) < 1) return fail(Code::kInvalidArgument, "samples must be at least 1");
    MapPlan plan;
    plan.items = static_cast<std::uint64_t>(job.i64(0));
    plan.chunk = std::max<std::uint64_t>(1 << 22, plan.items / 4096);
    plan.partial = {{GOBLIN_I64, {}}};
    plan.outputs = {{GOBLIN_F64, {}}, {GOBLIN_I64, {}}};
    plan.flops_per_item = 40;
    return plan;
  }

  Result<void> compute(const Chunk& chunk, const Device& device) const override {
    const auto seed = static_cast<std::uint64_t>(chunk.job.i64(1));
    std::mutex mutex;
    std::int64_t total = 0;  // integers: the order in which threads add does not matter
    device.parallel_for(chunk.end - chunk.begin, 1 << 16, [&](std::uint64_t b, std::uint64_t e) {
      if (device.cancelled()) throw Failure({Code::kCancelled, "cancelled"});
      std::int64_t inside = 0;
      for (std::uint64_t i = chunk.begin + b; i < chunk.begin + e; ++i) {
        const auto bits = philox(seed, i);
        const std::uint64_t x = bits[0] >> 1, y = bits[1] >> 1;  // 31 bits: no overflow below
        inside += x * x + y * y < std::uint64_t{1} << 62;
      }
      const std::lock_guard lock(mutex);
      total += inside;
    });
    chunk.partial[0].at<std::int64_t>() = total;
    return {};
  }

  Result<void> fold(const Job& job, std::uint64_t, std::span<const Tensor> partial) const override {
    job.output(1).at<std::int64_t>() += partial[0].at<std::int64_t>();
    return {};
  }

  Result<void> complete(const Job& job) const override {
    const auto inside = static_cast<double>(job.output(1).at<std::int64_t>());
    job.output(0).at<double>() = 4.0 * inside / static_cast<double>(job.i64(0));
    return {};
  }
};

}  // namespace

GOBLIN_PLUGIN(PiEstimate);
