// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-sim: histories by hand, and the replay of one.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/sim/histories.hpp"

namespace {

using goblin::sim::Summary;

constexpr const char* kHelp =
    "goblin-sim [--first N] [--histories N] [--minutes M] [--jobs J] [--tally] [--json]\n"
    "goblin-sim --seed N [--trace]\n"
    "\n"
    "Runs histories from seed --first (drawn when left out) until one fails, --histories have run\n"
    "(1000; without an end when only --minutes is given) or --minutes are over. --jobs: so many\n"
    "processes. --tally: what happened in them. --seed runs one history, --trace says its events.\n"
    "Exits 1 when a history failed, and says how to replay it.\n";

struct Arguments {
  std::uint64_t first = std::random_device{}(), histories = 0, seed = 0, jobs = 1;
  double minutes = 0;
  bool one = false, trace = false, tally = false, json = false;
};

bool parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--trace") {
      a.trace = true;
    } else if (name == "--tally") {
      a.tally = true;
    } else if (name == "--json") {
      a.json = true;
    } else {
      char* end = nullptr;
      const char* text = i + 1 < argc ? argv[++i] : "";
      const double real = std::strtod(text, &end);
      if (*text == 0 || *end != 0 || real < 0) return false;
      const std::uint64_t number = std::strtoull(text, nullptr, 10);
      if (name == "--seed") {
        a.seed = number;
        a.one = true;
      } else if (name == "--first") {
        a.first = number;
      } else if (name == "--histories") {
        a.histories = number;
      } else if (name == "--jobs" && number > 0 && number <= 256) {
        a.jobs = number;
      } else if (name == "--minutes") {
        a.minutes = real;
      } else {
        return false;
      }
    }
  }
  if (a.histories == 0)
    a.histories = a.minutes > 0 ? std::numeric_limits<std::uint64_t>::max() / 512 : 1000;
  return true;
}

void put(FILE* out, const Summary& s) {
  std::fprintf(out, "%llu %llu %.17g %llu\n%s\n", (unsigned long long)s.histories,
               (unsigned long long)s.steps, s.virtual_seconds, (unsigned long long)s.failed_seed,
               s.violation.c_str());
  for (const auto& [what, count] : s.tally)
    std::fprintf(out, "%llu %s\n", (unsigned long long)count, what.c_str());
}

void add(FILE* in, Summary& all) {
  unsigned long long histories = 0;
  unsigned long long steps = 0;
  unsigned long long failed = 0;
  double seconds = 0;
  std::vector<char> line(65536);
  if (std::fscanf(in, "%llu %llu %lf %llu ", &histories, &steps, &seconds, &failed) != 4) {
    all.violation = "a process of the simulation ended without an answer";
    return;
  }
  all.histories += histories;
  all.steps += steps;
  all.virtual_seconds += seconds;
  if (failed != 0 && all.violation.empty()) {
    all.failed_seed = failed;
    if (std::fgets(line.data(), int(line.size()), in) != nullptr)
      all.violation = std::string(line.data(), std::strcspn(line.data(), "\n"));
  }
  unsigned long long count = 0;
  while (std::fscanf(in, "%llu %65535[^\n]", &count, line.data()) == 2)
    all.tally[line.data()] += count;
}

Summary run_all(const Arguments& a) {
  const double seconds = a.minutes * 60;
  if (a.jobs == 1) return goblin::sim::run_histories(a.first, a.histories, seconds);
  std::vector<FILE*> answers;
  std::vector<pid_t> children;
  for (std::uint64_t job = 0; job < a.jobs; ++job) {
    FILE* answer = std::tmpfile();
    if (answer == nullptr) std::abort();
    const pid_t child = ::fork();
    if (child == 0) {
      const std::uint64_t share = (a.histories + a.jobs - 1 - job) / a.jobs;
      put(answer, goblin::sim::run_histories(a.first + job, share, seconds, a.jobs));
      std::fflush(answer);
      std::exit(0);  // its scratch folder goes, too
    }
    if (child < 0) std::abort();
    answers.push_back(answer);
    children.push_back(child);
  }
  Summary all;
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    ::waitpid(children[i], &status, 0);
    std::rewind(answers[i]);
    add(answers[i], all);
    std::fclose(answers[i]);
    if (status != 0 && all.violation.empty()) all.violation = "a process of the simulation crashed";
  }
  return all;
}

int run_one(const Arguments& a) {
  const auto history = goblin::sim::run_history(a.seed, a.trace);
  std::printf("seed %llu: %llu steps, %.1f virtual seconds, hash %016llx\n",
              (unsigned long long)a.seed, (unsigned long long)history.steps,
              history.virtual_seconds, (unsigned long long)history.hash);
  if (a.tally)
    for (const auto& [what, count] : history.tally)
      std::printf("  %s: %llu\n", what.c_str(), (unsigned long long)count);
  if (history.violation.empty()) return 0;
  std::printf("FAILED %s\n", history.violation.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::fputs(kHelp, argc > 1 && std::strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    return 2;
  }
  if (a.one) return run_one(a);
  const auto began = std::chrono::steady_clock::now();
  const Summary all = run_all(a);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (a.json) {
    std::printf("{\"histories\": %llu, \"seconds\": %.3f, \"steps\": %llu, \"failed\": %s}\n",
                (unsigned long long)all.histories, seconds, (unsigned long long)all.steps,
                all.violation.empty() ? "false" : "true");
  } else {
    std::printf(
        "%llu histories from seed %llu in %.1f s: %.0f a minute, %.0f steps and %.0f "
        "virtual seconds each\n",
        (unsigned long long)all.histories, (unsigned long long)a.first, seconds,
        double(all.histories) / seconds * 60, double(all.steps) / double(all.histories),
        all.virtual_seconds / double(all.histories));
  }
  if (a.tally)
    for (const auto& [what, count] : all.tally)
      std::printf("  %s: %llu\n", what.c_str(), (unsigned long long)count);
  if (all.violation.empty()) return 0;
  std::printf("FAILED seed %llu: %s\nreplay: %s\n", (unsigned long long)all.failed_seed,
              all.violation.c_str(), goblin::sim::replay_line(all.failed_seed).c_str());
  return 1;
}
