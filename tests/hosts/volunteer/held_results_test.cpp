// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/held_results.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "hosts/volunteer/lease_math.hpp"

namespace goblin::volunteer {
namespace {

TEST(SharedBuffer, NobodyWithItsDescriptorChangesItsLength) {
  const auto buffer = SharedBuffer::create(8192);
  ASSERT_TRUE(buffer) << buffer.error().message;
  // A plugin has such a copy of the descriptor.
  const net::UniqueFd copy(::dup((*buffer)->fd()));
  EXPECT_EQ(::ftruncate(copy.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(copy.get(), 1 << 20), -1);
  EXPECT_EQ(errno, EPERM);
  const std::byte one{7};
  EXPECT_EQ(::pwrite(copy.get(), &one, 1, 8191), 1);
  EXPECT_EQ((*buffer)->bytes()[8191], one);
}

TEST(LeaseMath, SumsOfOutputsDoNotWrap) {
  wire::Lease lease;
  // The largest tensor that there is, four times: 2^64 bytes.
  lease.outputs.assign(4, wire::TensorSpec{GOBLIN_F64, {std::int64_t{1} << 59}});
  ASSERT_EQ(lease.outputs[0].size_bytes().value_or(0), std::uint64_t{1} << 62);
  EXPECT_EQ(output_bytes(lease), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(memory_of(lease), std::numeric_limits<std::uint64_t>::max());
  lease.outputs.resize(3);
  EXPECT_EQ(output_bytes(lease), 3 * (std::uint64_t{1} << 62));
  EXPECT_EQ(round_up(kTooMany), kTooMany);
  EXPECT_EQ(round_up(1), 64u);
  EXPECT_EQ(round_up(64), 64u);
}

}  // namespace
}  // namespace goblin::volunteer
