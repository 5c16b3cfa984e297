// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Backends that are opened and closed, and products at the same time on one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "backend_library.hpp"
#include "matrices.hpp"

namespace goblin::test {
namespace {

/// A product with the bits that it must have. Large enough for seven threads.
class Product final {
 public:
  explicit Product(std::uint64_t seed) {
    Random random(seed);
    fill(a_, random, Values::kPlain);
    fill(b_, random, Values::kPlain);
    expected_ = run(devices_of(reference_backend()).front(), make_exec(0, 1)).second;
  }

  std::pair<Outcome, std::vector<unsigned char>> run(const Device& device, goblin_exec_v1 exec) {
    Matrix a = a_;
    Matrix b = b_;
    Matrix c(GOBLIN_F32, kM, kN, Layout::kRows);
    const goblin_tensor_v1 inputs[2] = {a.tensor(), b.tensor()};
    const goblin_tensor_v1 output = c.tensor();
    Outcome outcome = run_matmul(device, make_operands(inputs, output), exec);
    return {std::move(outcome), c.bytes()};
  }

  void expect_on(const Device& device, std::uint32_t threads) {
    const auto [outcome, bytes] = run(device, make_exec(device.index, threads));
    ASSERT_EQ(outcome.status, GOBLIN_OK) << device.name << ": " << outcome.message;
    ASSERT_EQ(bytes, expected_) << device.name << " threads=" << threads;
  }

 private:
  static constexpr std::int64_t kM = 251, kN = 263, kK = 258;
  Matrix a_{GOBLIN_F32, kM, kK, Layout::kRows};
  Matrix b_{GOBLIN_F32, kK, kN, Layout::kColumns};
  std::vector<unsigned char> expected_;
};

constexpr std::array<std::uint32_t, 3> kThreads{1, 2, 7};

/// The fastest device: the others would only take longer.
Device best(const goblin_backend_v1* backend) { return devices_of(backend).front(); }

class BackendThreads : public testing::TestWithParam<const goblin_backend_v1*> {};

TEST_P(BackendThreads, CallsAtTheSameTimeHaveTheirOwnBits) {
  const Opened backend(GetParam());
  std::vector<std::jthread> callers;
  for (std::uint64_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      Product product(caller);
      for (std::size_t call = 0; call < 24; ++call) {
        product.expect_on(best(backend.get()), kThreads.at((call + caller) % kThreads.size()));
        if (testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

TEST_P(BackendThreads, ACancelledCallLeavesTheOthersAlone) {
  const Opened backend(GetParam());
  const Device device = best(backend.get());
  std::atomic<bool> done{false};
  std::jthread other([&] {
    Product product(1);
    for (int call = 0; call < 30; ++call) product.expect_on(device, 2);
    done = true;
  });
  Product product(2);
  for (int call = 0; call < 30 || !done; ++call) {
    std::atomic<int> asked{0};
    goblin_exec_v1 exec = make_exec(device.index, 7);
    exec.context = &asked;
    exec.cancelled = [](void* context) {
      return static_cast<std::atomic<int>*>(context)->fetch_add(1) >= 3 ? 1 : 0;
    };
    ASSERT_EQ(product.run(device, exec).first.status, GOBLIN_CANCELLED);
  }
  product.expect_on(device, 7);
}

TEST_P(BackendThreads, OpenedAndClosedAgainAndAgain) {
  Product product(3);
  for (int round = 0; round < 20; ++round) {
    const Opened one(GetParam());
    const Opened two(GetParam());
    product.expect_on(best(one.get()), kThreads.at(static_cast<std::size_t>(round) % 3));
    if (round % 2 == 0) product.expect_on(best(two.get()), 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackendThreads, WorksWithoutBeingOpened) {
  Product product(4);
  for (const std::uint32_t threads : kThreads) product.expect_on(best(GetParam()), threads);
}

TEST_P(BackendThreads, SlotsComeTogetherAndOpenWantsAPlace) {
  const goblin_backend_v1* const backend = GetParam();
  ASSERT_GE(backend->struct_size, sizeof(goblin_backend_v1));
  ASSERT_EQ(backend->open == nullptr, backend->close == nullptr);
  if (backend->open == nullptr) return;
  char words[256] = "";
  goblin_text_v1 message{words, sizeof words};
  EXPECT_EQ(backend->open(backend, nullptr, &message), GOBLIN_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(words), testing::HasSubstr("open needs a place"));
  EXPECT_EQ(backend->open(backend, nullptr, nullptr), GOBLIN_INVALID_ARGUMENT);
  // An opened one has its own operators, and opens others.
  const Opened opened(backend);
  EXPECT_NE(opened.get(), backend);
  EXPECT_STREQ(opened.get()->name, backend->name);
  EXPECT_NE(opened.get()->find_operator(opened.get(), "matmul", 1),
            backend->find_operator(backend, "matmul", 1));
  EXPECT_EQ(opened.get()->operator_at(opened.get(), 0),
            opened.get()->find_operator(opened.get(), "matmul", 1));
  const Opened again(opened.get());
  EXPECT_NE(again.get(), opened.get());
}

INSTANTIATE_TEST_SUITE_P(All, BackendThreads, testing::ValuesIn(tables_under_test()),
                         [](const auto& param) { return std::string(param.param->name); });

}  // namespace
}  // namespace goblin::test
