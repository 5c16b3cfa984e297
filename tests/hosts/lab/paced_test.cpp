// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/paced.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace goblin::lab {
namespace {

TEST(Paced, ManyValuesCostFewAndTheLastCounts) {
  auto made = net::Loop::create(1);
  ASSERT_TRUE(made);
  net::Loop& loop = **made;
  std::vector<int> taken;
  net::Event changed(loop);
  Paced<int> paced(loop, net::Milliseconds(50), [&](const int& value) {
    taken.push_back(value);
    changed.set();
  });
  auto test = [&]() -> net::Task<void> {
    for (int i = 1; i <= 10'000; ++i) {
      paced.set(i);
    }
    EXPECT_EQ(taken, std::vector<int>({1})) << "the first at once";
    while (taken.back() != 10'000) {
      changed.reset();
      co_await changed.wait();
    }
    EXPECT_EQ(taken, std::vector<int>({1, 10'000}));
    paced.set(10'000);  // as it was: nothing new
    co_await loop.sleep(net::Milliseconds(120));
    paced.set(10'000);
    EXPECT_EQ(taken, std::vector<int>({1, 10'000}));
    loop.stop();
  };
  loop.spawn(test());
  loop.run();
}

TEST(Paced, WhatWaitsGoesWithIt) {
  auto made = net::Loop::create(1);
  ASSERT_TRUE(made);
  net::Loop& loop = **made;
  int taken = 0;
  auto test = [&]() -> net::Task<void> {
    {
      Paced<int> paced(loop, net::Milliseconds(1), [&](const int&) { ++taken; });
      paced.set(1);
      paced.set(2);
    }
    co_await loop.sleep(net::Milliseconds(30));
    EXPECT_EQ(taken, 1);
    loop.stop();
  };
  loop.spawn(test());
  loop.run();
}

}  // namespace
}  // namespace goblin::lab
