// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-bench-gemm: canonical sgemm and dgemm beside OpenBLAS, BLIS and oneDNN.
//
// All take turns within one run, so that whatever else the machine does meets them alike; medians
// are reported. Records go to a file or to standard output, a table to standard error.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "gemm_accuracy.hpp"
#include "gemm_contenders.hpp"
#include "gemm_peak.hpp"

namespace goblin::bench {
namespace {

struct Options {
  std::vector<std::int64_t> sizes{256, 512, 768, 1024, 2048, 4096};
  std::vector<int> threads{1, 2};
  std::vector<Real> reals{Real::kF32, Real::kF64};
  std::string json;  // a file; "-": standard output; empty: none
  std::string device;
  std::string library;
  std::string commit;
  int repetitions = 7;
  bool accuracy = true;
  bool cpu_clock = false;
};

constexpr const char* kHelp =
    "goblin-bench-gemm [options]\n"
    "  --sizes N,…        square sizes (256,512,768,1024,2048,4096)\n"
    "  --threads N,…      numbers of threads (1,2)\n"
    "  --dtype f32,f64    element types\n"
    "  --repetitions N    turns of each contender (7)\n"
    "  --device NAME      our instruction level: avx512, avx2, baseline (the best)\n"
    "  --library FILE     our CPU backend (beside this program, in ../lib)\n"
    "  --commit ID        goes into the records\n"
    "  --clock wall|cpu   cpu: processor time per thread, for a machine that does other work too\n"
    "  --no-accuracy      leave out the rounding errors\n"
    "  --quick            two sizes, three repetitions\n"
    "  --json [FILE]      records as JSON; to standard output without FILE\n";

struct Record {
  std::string name;
  double value = 0;
  std::string unit;
  bool higher_is_better = true;
  std::map<std::string, double> peers;
  double limit = 0;  // 0: none
  std::string limit_name;
  int threads = 1;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::stringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

std::int64_t number(const std::string& word) {
  std::size_t end = 0;
  const long long value = std::stoll(word, &end);
  if (end != word.size() || value < 1 || value > 100'000) {
    throw std::invalid_argument(word + " is no number from 1 to 100000");
  }
  return value;
}

Options parse(int count, char** words) {
  Options options;
  options.library = std::string(words[0]).substr(0, std::string(words[0]).find_last_of('/') + 1) +
                    "../lib/" + GOBLIN_CPU_BACKEND_FILE;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= count) throw std::invalid_argument(word + " needs a value");
      return words[++i];
    };
    if (word == "--sizes") {
      options.sizes.clear();
      for (const auto& size : split(value())) options.sizes.push_back(number(size));
    } else if (word == "--threads") {
      options.threads.clear();
      for (const auto& n : split(value())) options.threads.push_back(static_cast<int>(number(n)));
    } else if (word == "--dtype") {
      options.reals.clear();
      for (const auto& name : split(value())) {
        if (name != "f32" && name != "f64") throw std::invalid_argument(name + ": f32 or f64");
        options.reals.push_back(name == "f32" ? Real::kF32 : Real::kF64);
      }
    } else if (word == "--repetitions") {
      options.repetitions = static_cast<int>(number(value()));
    } else if (word == "--device") {
      options.device = value();
    } else if (word == "--library") {
      options.library = value();
    } else if (word == "--commit") {
      options.commit = value();
    } else if (word == "--clock") {
      const std::string clock = value();
      if (clock != "wall" && clock != "cpu") throw std::invalid_argument(clock + ": wall or cpu");
      options.cpu_clock = clock == "cpu";
    } else if (word == "--no-accuracy") {
      options.accuracy = false;
    } else if (word == "--quick") {
      options.sizes = {512, 1024};
      options.repetitions = 3;
    } else if (word == "--json") {
      options.json = i + 1 < count && words[i + 1][0] != '-' ? value() : "-";
    } else if (word == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    } else {
      throw std::invalid_argument("unknown option " + word + "; see --help");
    }
  }
  return options;
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

Buffer random_matrix(Real real, std::int64_t n, std::uint64_t seed) {
  const std::size_t count = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  const std::size_t bytes = count * (real == Real::kF32 ? 4 : 8);
  Buffer buffer(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (!buffer) throw std::bad_alloc();
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
    if (real == Real::kF32) {
      static_cast<float*>(buffer.get())[i] = static_cast<float>(value);
    } else {
      static_cast<double*>(buffer.get())[i] = value;
    }
  }
  return buffer;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Threads of the last contender spin for a while after their work: they must not meet the next.
void settle(int threads) {
  if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
}

class Bench final {
 public:
  explicit Bench(const Options& options) : options_(options) {
    contenders_.push_back(make_goblin(options.library, options.device));
    for (auto& peer : make_peers()) contenders_.push_back(std::move(peer));
    for (const auto& contender : contenders_) {
      std::fprintf(stderr, "%-9s %s\n", contender->name().c_str(), contender->details().c_str());
    }
  }

  std::vector<Record> run() {
    for (const Real real : options_.reals) {
      for (const int threads : options_.threads) {
        const double peak = fma_peak(real, threads);
        std::fprintf(stderr, "\n%s, %d thread%s; fma peak %.1f GFLOP/s\n%6s", name_of(real),
                     threads, threads == 1 ? "" : "s", peak, "n");
        for (const auto& contender : contenders_) {
          if (contender->offers(real)) std::fprintf(stderr, " %10s", contender->name().c_str());
        }
        std::fprintf(stderr, " %9s %8s\n", "to best", "of peak");
        for (const std::int64_t n : options_.sizes) speed(real, n, threads, peak);
      }
      if (options_.accuracy) accuracy(real);
    }
    return records_;
  }

 private:
  static const char* name_of(Real real) { return real == Real::kF32 ? "sgemm" : "dgemm"; }

  void speed(Real real, std::int64_t n, int threads, double peak) {
    const Buffer a = random_matrix(real, n, 1);
    const Buffer b = random_matrix(real, n, 2);
    const Buffer c = random_matrix(real, n, 3);
    const double work =
        2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    // Enough products per turn for about 30 ms.
    const int calls = std::max(1, static_cast<int>(0.03 / (work / (peak > 0 ? peak * 1e9 : 1e9))));
    std::map<std::string, std::vector<double>> rates;
    std::map<std::string, double> busy;
    for (int turn = 0; turn <= options_.repetitions; ++turn) {
      for (std::size_t k = 0; k < contenders_.size(); ++k) {
        Contender& x = *contenders_[(k + static_cast<std::size_t>(turn)) % contenders_.size()];
        if (!x.offers(real)) continue;
        settle(threads);
        x.prepare(real, n, threads);
        x.multiply(real, n, a.get(), b.get(), c.get());  // wakes threads, warms caches
        const double cpu = cpu_seconds();
        const double begin = wall_seconds();
        for (int call = 0; call < calls; ++call) x.multiply(real, n, a.get(), b.get(), c.get());
        const double seconds = wall_seconds() - begin;
        if (turn == 0) continue;
        const double processor = cpu_seconds() - cpu;
        const double counted = options_.cpu_clock ? processor / threads : seconds;
        rates[x.name()].push_back(work * calls / counted * 1e-9);
        busy[x.name()] = std::max(busy[x.name()], processor / seconds);
      }
    }
    Record record{.name = std::string(name_of(real)) + " n=" + std::to_string(n) + ", " +
                          std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
                  .unit = "GFLOP/s",
                  .limit = peak,
                  .limit_name = "fma peak, registers only",
                  .threads = threads};
    double best = 0;
    std::fprintf(stderr, "%6lld", static_cast<long long>(n));
    for (const auto& contender : contenders_) {
      if (!contender->offers(real)) continue;
      const double rate = median(rates[contender->name()]);
      std::fprintf(stderr, " %10.1f", rate);
      if (contender == contenders_.front()) {
        record.value = rate;
      } else {
        record.peers[contender->name()] = rate;
        best = std::max(best, rate);
      }
    }
    std::fprintf(stderr, " %9.3f %7.1f%%\n", best > 0 ? record.value / best : 0,
                 peak > 0 ? 100 * record.value / peak : 0);
    for (const auto& [name, cores] : busy) {
      // A peer that does not use what it was given would flatter us.
      if (options_.cpu_clock) break;
      if (cores > threads + 0.3 || (n >= 1024 && cores < threads - 0.3)) {
        std::fprintf(stderr, "       note: %s kept %.1f cores busy, not %d\n", name.c_str(), cores,
                     threads);
      }
    }
    records_.push_back(record);
  }

  void accuracy(Real real) {
    for (const std::int64_t n : options_.sizes) {
      const Buffer a = random_matrix(real, n, 1);
      const Buffer b = random_matrix(real, n, 2);
      const Buffer c = random_matrix(real, n, 3);
      Record record{
          .name = std::string(name_of(real)) + " n=" + std::to_string(n) + ", rounding error",
          .unit = "u, rms",
          .higher_is_better = false};
      std::fprintf(stderr, "%s n=%lld rms rounding error / (u·Σ|a||b|):", name_of(real),
                   static_cast<long long>(n));
      for (const auto& contender : contenders_) {
        if (!contender->offers(real)) continue;
        contender->prepare(real, n, 1);
        contender->multiply(real, n, a.get(), b.get(), c.get());
        const double error = rounding_error(real, n, a.get(), b.get(), c.get());
        std::fprintf(stderr, " %s %.4f", contender->name().c_str(), error);
        if (contender == contenders_.front()) {
          record.value = error;
        } else {
          record.peers[contender->name()] = error;
        }
      }
      std::fprintf(stderr, "\n");
      records_.push_back(record);
    }
  }

  const Options& options_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  std::vector<Record> records_;
};

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') out += '\\';
    if (static_cast<unsigned char>(ch) >= 0x20) out += ch;
  }
  return out + '"';
}

void write(std::ostream& out, const std::vector<Record>& records, const Options& options) {
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  const std::string cpu = cpu_name();
  out.precision(6);
  out << "[";
  const char* comma = "\n";
  for (const Record& x : records) {
    double best = 0;
    out << comma << "{\"name\": \"gemm\", \"case\": " << quoted(x.name)
        << ", \"value\": " << x.value << ", \"unit\": " << quoted(x.unit)
        << ", \"higher_is_better\": " << (x.higher_is_better ? "true" : "false")
        << ", \"peers\": {";
    const char* inner = "";
    for (const auto& [peer, value] : x.peers) {
      out << inner << quoted(peer) << ": " << value;
      inner = ", ";
      if (best == 0 || (x.higher_is_better ? value > best : value < best)) best = value;
    }
    out << "}, \"ratio_to_best_peer\": ";
    if (best > 0) {
      out << (x.higher_is_better ? x.value / best : best / x.value);
    } else {
      out << "null";
    }
    if (x.limit > 0) {
      out << ", \"limit\": " << x.limit << ", \"limit_name\": " << quoted(x.limit_name);
    } else {
      out << ", \"limit\": null, \"limit_name\": null";
    }
    out << ", \"cpu\": " << quoted(cpu) << ", \"threads\": " << x.threads
        << ", \"date\": " << quoted(date) << ", \"commit\": " << quoted(options.commit) << "}";
    comma = ",\n";
  }
  out << "\n]\n";
}

int run(int count, char** words) {
  const Options options = parse(count, words);
  const std::vector<Record> records = Bench(options).run();
  if (options.json.empty()) return 0;
  std::ostringstream text;
  write(text, records, options);
  if (options.json == "-") {
    std::fputs(text.str().c_str(), stdout);
    return 0;
  }
  std::ofstream file(options.json);
  file << text.str();
  file.close();
  if (!file) throw std::runtime_error("cannot write " + options.json);
  return 0;
}

}  // namespace
}  // namespace goblin::bench

int main(int count, char** words) {
  try {
    return goblin::bench::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "goblin-bench-gemm: %s\n", error.what());
    return 1;
  }
}
