// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The fuzz targets in every build: their seeds, inputs that once failed (regressions/TARGET/), and
// mutations of both, as many as a second or so takes. A broken promise ends the process.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/target.hpp"
#include "tests/testing/seed.hpp"

namespace goblin::fuzz {
namespace {

std::vector<Bytes> regressions(const std::string& target) {
  std::vector<Bytes> all;
  const std::filesystem::path directory = std::filesystem::path(GOBLIN_TEST_REGRESSIONS) / target;
  if (!std::filesystem::exists(directory)) return all;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    all.push_back(Script().text(text).take());
  }
  return all;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  void change(Bytes& bytes) {
    if (bytes.empty()) bytes.push_back({});
    const std::size_t at = next() % bytes.size();
    switch (next() % 5) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1u << next() % 8);
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(next());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + next() % 8,
                     static_cast<std::byte>(next()));
        break;
      default: {
        constexpr std::uint8_t kCorners[] = {0, 1, 0x7f, 0x80, 0xff};
        const auto value = static_cast<std::byte>(kCorners[next() % 5]);
        const std::size_t end = std::min(bytes.size(), at + 1 + next() % 8);
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(end), value);
      }
    }
  }

 private:
  std::uint64_t state_;
};

class FuzzReplay : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzReplay, SeedsAndInputsThatOnceFailed) {
  const Target& target = GetParam();
  const std::vector<Bytes> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  EXPECT_EQ(target.seeds(), seeds) << "seeds are the same each time";
  for (const Bytes& seed : seeds) target.run(seed);
  for (const Bytes& input : regressions(target.name)) target.run(input);
}

TEST_P(FuzzReplay, Mutations) {
  constexpr int kRounds = 1500;
  const Target& target = GetParam();
  const std::uint64_t seed = test::drawn_seed();
  // Before the first one: a failure ends the process.
  std::cout << "GOBLIN_TEST_SEED=" << seed << std::endl;
  Mutator mutator(seed);
  std::vector<Bytes> inputs = target.seeds();
  std::ranges::move(regressions(target.name), std::back_inserter(inputs));
  for (int round = 0; round < kRounds; ++round) {
    Bytes input = inputs[mutator.next() % inputs.size()];
    if (target.mutate != nullptr && mutator.next() % 2 == 0) {
      const std::size_t size = input.size();
      input.resize(size + 64);
      input.resize(target.mutate(reinterpret_cast<std::uint8_t*>(input.data()), size, input.size(),
                                 mutator.next() | 1));
    } else {
      for (std::uint64_t changes = 1 + mutator.next() % 4; changes > 0; --changes) {
        mutator.change(input);
      }
    }
    target.run(input);
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, FuzzReplay, ::testing::ValuesIn(all_targets()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace goblin::fuzz
