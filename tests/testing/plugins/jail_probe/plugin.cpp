// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Kind jail-probe/1: each task is a probe, tried on a host, and once more on the lab node's side
// when its result is merged.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "goblin/map_kind.hpp"
#include "tests/testing/plugins/jail_probe/modes.hpp"
#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace {

using namespace goblin;
using namespace goblin::testing;

/// Runs before any of the host's code can ask for it.
int at_load() {
  const int fd = ::open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  return failed(fd);
}
const int kAtLoad = at_load();

class JailProbe final : public MapKind {
 public:
  static constexpr const char* kName = "jail-probe";
  static constexpr std::uint32_t kVersion = 1;

  Description describe() const override {
    return Description("tries to get out of its runner's jail")
        .param("pid", "of the daemon", 0, 0, INT64_MAX)
        .param("port", "of a listener on loopback", 0, 0, 65535)
        .param("name", "hash of the computer's name", 0, 0, INT64_MAX)
        .param("mode", "one of ProbeMode", 0, 0, INT64_MAX)
        .output("host", "errno of each probe on the host, 0 where it succeeded, f64[probes]")
        .output("lab", "the same on the lab node's side")
        .policy(GOBLIN_POLICY_VALIDATOR);
  }

  Result<MapPlan> plan(const Job& /*job*/) const override {
    MapPlan plan;
    plan.items = all_probes().size();
    plan.chunk = 1;
    plan.partial = {{GOBLIN_F64, {}}};
    const TensorSpec each{GOBLIN_F64, {static_cast<std::int64_t>(plan.items)}};
    plan.outputs = {each, each};
    plan.flops_per_item = 1;
    return plan;
  }

  Result<void> compute(const Chunk& chunk, const Device& device) const override {
    double& out = chunk.partial[0].at<double>();
    switch (chunk.job.i64(3)) {
      case kLoadTime:
        out = kAtLoad;
        return {};
      case kSpinDeafly: {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
        out = 1;
        for (volatile bool forever = true; forever;) {
        }
        return {};
      }
      case kStopItself:
        out = 1;
        ::raise(SIGSTOP);
        for (volatile bool forever = true; forever;) {
        }
        return {};
      default:
        break;
    }
    static_cast<void>(device);
    out = attempt(chunk.job, chunk.begin, chunk.job.i64(3) == kHarmless);
    return {};
  }

  Result<void> fold(const Job& job, std::uint64_t index,
                    std::span<const Tensor> partial) const override {
    const auto at = static_cast<std::int64_t>(index);
    job.output(0).at<double>(at) = partial[0].at<double>();
    job.output(1).at<double>(at) = attempt(job, index, true);
    return {};
  }

 private:
  static double attempt(const Job& job, std::uint64_t index, bool harmless) {
    const Probe probe = all_probes().at(index);
    const Target target{job.i64(0), job.i64(1), job.i64(2)};
    return harmless && probe.fatal ? kLeftOut : probe.attempt(target);
  }
};

}  // namespace

GOBLIN_PLUGIN(JailProbe);
