// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-bench-jail JAILED BARE BACKEND PLUGIN ROUNDS: starts runners of both kinds in turns, has
// each compute small tasks, and prints milliseconds and microseconds as JSON.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/net/loop.hpp"
#include "core/plugin/control_groups.hpp"
#include "core/plugin/runner_client.hpp"
#include "core/plugin/sealed_file.hpp"

namespace goblin {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 256;
constexpr int kBatches = 40;
constexpr net::Milliseconds kLong{20'000};

struct Figures {
  std::vector<double> start_ms;
  std::vector<double> end_ms;
  std::vector<double> task_us;
};

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

wire::Execute batch(std::uint32_t segment) {
  wire::Execute request;
  for (std::size_t i = 0; i < kBatch; ++i) {
    wire::RunnerTask task;
    task.id = i;
    task.params = {wire::Value::of(static_cast<std::int64_t>(i))};
    wire::TensorAt out;
    out.dtype = GOBLIN_I64;
    out.segment = segment;
    out.offset = i * sizeof(std::int64_t);
    task.outputs = {out};
    request.tasks.push_back(std::move(task));
  }
  return request;
}

net::Task<Result<void>> measure(net::Loop& loop, plugin::RunnerOptions options, int memory,
                                Figures& into) {
  const auto begin = Clock::now();
  GOBLIN_CO_TRY(auto client, co_await plugin::RunnerClient::start(loop, options));
  into.start_ms.push_back(since(begin) / 1000);
  GOBLIN_CO_TRY(const std::uint32_t segment,
                co_await client->map(memory, kBatch * sizeof(std::int64_t), true));
  const wire::Execute request = batch(segment);
  double least = 1e12;
  for (int i = 0; i < kBatches; ++i) {
    const auto start = Clock::now();
    GOBLIN_CO_TRY(const wire::Executed done, co_await client->execute(request, kLong));
    least = std::min(least, since(start) / kBatch);
    for (const auto& task : done.tasks) {
      if (task.status != GOBLIN_OK) {
        co_return fail(Code::kInternal, task.message);
      }
    }
  }
  into.task_us.push_back(least);
  const auto end = Clock::now();
  client->kill();
  co_await client->exited();
  into.end_ms.push_back(since(end) / 1000);
  co_return Result<void>();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

net::Task<void> run(net::Loop& loop, std::array<plugin::RunnerOptions, 3> kinds, int memory,
                    int rounds, std::array<Figures, 3>& figures, Result<void>& out) {
  for (int round = 0; round < rounds && out; ++round) {
    for (std::size_t kind = 0; kind < kinds.size() && out; ++kind) {
      out = co_await measure(loop, kinds[kind], memory, figures[kind]);
    }
  }
  loop.stop();
}

Result<void> measure_all(char** arguments) {
  GOBLIN_TRY(const net::UniqueFd plugin, plugin::make_sealed_memfd_from(arguments[4]));
  const net::UniqueFd memory(::memfd_create("bench", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), kBatch * sizeof(std::int64_t)) != 0) {
    return fail(Code::kExhausted, "no memory");
  }
  plugin::RunnerOptions options;
  options.backend = arguments[3];
  options.plugin_fd = plugin.get();
  options.memory_bytes = 256U << 20;
  std::array<plugin::RunnerOptions, 3> kinds{options, options, options};
  kinds[0].runner = arguments[1];
  kinds[1].runner = arguments[2];
  kinds[2].runner = arguments[1];
  kinds[2].groups = plugin::ControlGroups::open().value_or(nullptr);
  std::array<Figures, 3> figures;
  GOBLIN_TRY(const std::unique_ptr<net::Loop> loop, net::Loop::create(1));
  Result<void> out;
  loop->spawn(run(*loop, kinds, memory.get(), std::atoi(arguments[5]), figures, out));
  loop->run();
  if (out) {
    std::printf("{");
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      const std::array<const char*, 3> names{"jailed", "bare", "grouped"};
      std::printf("%s\"%s\": {\"start_ms\": %.3f, \"end_ms\": %.3f, \"task_us\": %.4f}",
                  kind == 0 ? "" : ", ", names[kind], median(figures[kind].start_ms),
                  median(figures[kind].end_ms), median(figures[kind].task_us));
    }
    std::printf(", \"groups\": %s}\n", kinds[2].groups ? "true" : "false");
  }
  return out;
}

}  // namespace
}  // namespace goblin

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "goblin-bench-jail JAILED BARE BACKEND PLUGIN ROUNDS\n");
    return 2;
  }
  if (auto done = goblin::measure_all(argv); !done) {
    std::fprintf(stderr, "goblin-bench-jail: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
