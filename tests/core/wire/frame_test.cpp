// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/frame.hpp"

#include <gtest/gtest.h>

#include <random>

namespace goblin::wire {
namespace {

using Header = std::array<std::byte, kHeaderBytes>;

Header header_of(FrameType type, std::uint32_t message, std::uint32_t payload) {
  Header bytes{};
  write_header({static_cast<std::uint16_t>(type), message, payload}, bytes);
  return bytes;
}
bool accepts(FrameType type, std::uint32_t message, std::uint32_t payload,
             PeerState state = PeerState::kOpen) {
  const auto header = read_header(header_of(type, message, payload), state);
  if (!header) {
    EXPECT_EQ(header.error().code, Code::kCorrupt);
  }
  return header.has_value();
}

TEST(FrameHeader, LayoutIsAsStated) {
  const Header bytes = header_of(FrameType::kLeases, 0x00012348, 0x000a0b0c);
  const unsigned expected[] = {'G',  'B',  'L', 'N', 1,    0,    49,   0,
                               0x48, 0x23, 1,   0,   0x0c, 0x0b, 0x0a, 0};
  for (std::size_t i = 0; i < kHeaderBytes; ++i)
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected[i]) << "byte " << i;
  const auto header = read_header(bytes, PeerState::kOpen);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->type, 49);
  EXPECT_EQ(header->message_bytes, 0x00012348u);
  EXPECT_EQ(header->payload_bytes, 0x000a0b0cu);
}

TEST(FrameHeader, EveryWrongByteOfThePrefixIsRefused) {
  const Header good = header_of(FrameType::kHeartbeat, 64, 0);
  ASSERT_TRUE(read_header(good, PeerState::kOpen));
  for (std::size_t at = 0; at < 6; ++at) {  // magic, version, flags
    for (unsigned value = 0; value < 256; ++value) {
      Header bad = good;
      bad[at] = static_cast<std::byte>(value);
      EXPECT_EQ(read_header(bad, PeerState::kOpen).has_value(), bad == good)
          << "byte " << at << " = " << value;
    }
  }
  Header version = good;
  version[4] = std::byte{2};
  EXPECT_NE(read_header(version, PeerState::kOpen).error().message.find("version 2"),
            std::string::npos);
}

TEST(FrameHeader, GreetingLetsOnlyTheGreetingPass) {
  for (unsigned type = 0; type < 65536; ++type) {
    const FrameCaps caps = frame_caps(static_cast<std::uint16_t>(type), PeerState::kGreeting);
    const bool greeting = type == 1 || type == 2;
    ASSERT_EQ(caps.accepted, greeting) << type;
    ASSERT_EQ(caps.message_bytes, greeting ? 4096u : 0u) << type;
    ASSERT_EQ(caps.payload_bytes, 0u) << type;
  }
  EXPECT_TRUE(accepts(FrameType::kHello, 4096, 0, PeerState::kGreeting));
  EXPECT_FALSE(accepts(FrameType::kHello, 4104, 0, PeerState::kGreeting));
  EXPECT_FALSE(accepts(FrameType::kHello, 8, 1, PeerState::kGreeting));
  EXPECT_FALSE(accepts(FrameType::kHello, 8, 0, PeerState::kOpen));
  EXPECT_FALSE(accepts(FrameType::kWelcome, 8, 0, PeerState::kOpen));
}

TEST(FrameHeader, UnknownTypesAreRefused) {
  const std::vector<std::pair<int, int>> known = {{3, 5},   {16, 20}, {32, 33}, {40, 43},
                                                  {46, 46}, {48, 57}, {64, 66}, {96, 117}};
  for (int type = 0; type < 65536; ++type) {
    bool expected = false;
    for (const auto& [first, last] : known) expected = expected || (type >= first && type <= last);
    ASSERT_EQ(frame_caps(static_cast<std::uint16_t>(type), PeerState::kOpen).accepted, expected)
        << type;
    const auto header =
        read_header(header_of(static_cast<FrameType>(type), 0, 0), PeerState::kOpen);
    ASSERT_EQ(header.has_value(), expected) << type;
  }
}

TEST(FrameHeader, LengthsUpToTheCapAndNoFurther) {
  constexpr std::uint32_t kKiB = 1024, kMiB = 1024 * kKiB;
  struct Row {
    FrameType type;
    std::uint32_t message, payload;
  };
  const Row rows[] = {
      {FrameType::kPing, 0, 0},
      {FrameType::kPong, 0, 0},
      {FrameType::kGoodbye, 256, 0},
      {FrameType::kBlobGet, 256, 0},
      {FrameType::kBlobData, 256, kBlobChunkBytes},
      {FrameType::kBlobCancel, 256, 0},
      {FrameType::kHostStatus, 64 * kKiB, 0},
      {FrameType::kLabStatus, 64 * kKiB, 0},
      {FrameType::kHostOffer, 64 * kKiB, 0},
      {FrameType::kLabAssignments, 4 * kMiB, 0},
      {FrameType::kMetadataGet, 256, 0},
      {FrameType::kMetadata, 256, 64 * kKiB},
      {FrameType::kCatalogueNews, 256, 0},
      {FrameType::kLeases, kMiB, kMiB},
      {FrameType::kResults, kMiB, kMiB},
      {FrameType::kCancelLeases, kMiB, 0},
      {FrameType::kRequest, 4 * kMiB, kMiB},
      {FrameType::kReply, 4 * kMiB, kMiB},
      {FrameType::kEvent, 4 * kMiB, 0},
      {FrameType::kExecute, 16 * kMiB, kMiB},
      {FrameType::kCancelWork, 16 * kMiB, kMiB},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.type));
    EXPECT_TRUE(accepts(row.type, 0, 0));
    EXPECT_TRUE(accepts(row.type, row.message, row.payload));
    EXPECT_FALSE(accepts(row.type, row.message + 8, 0));
    EXPECT_FALSE(accepts(row.type, 0, row.payload + 1));
    EXPECT_FALSE(accepts(row.type, 0xffffffff, 0));
    EXPECT_FALSE(accepts(row.type, 0xfffffff8, 0));
    EXPECT_FALSE(accepts(row.type, 0, 0xffffffff));
    for (std::uint32_t odd = 1; odd < 8; ++odd) EXPECT_FALSE(accepts(row.type, odd, 0));
  }
}

TEST(FrameHeader, RandomBytesNeverPassUnbounded) {
  const std::uint64_t seed = 4711;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    Header bytes = header_of(static_cast<FrameType>(random() % 128),
                             static_cast<std::uint32_t>(random() >> (32 + random() % 32)),
                             static_cast<std::uint32_t>(random() >> (32 + random() % 32)));
    if (random() % 2 == 0) bytes[random() % 16] ^= static_cast<std::byte>(1u << random() % 8);
    const auto state = random() % 2 == 0 ? PeerState::kOpen : PeerState::kGreeting;
    const auto header = read_header(bytes, state);
    if (!header) continue;
    ++accepted;
    const FrameCaps caps = frame_caps(header->type, state);
    ASSERT_LE(header->message_bytes, caps.message_bytes);
    ASSERT_LE(header->payload_bytes, caps.payload_bytes);
    ASSERT_EQ(header->message_bytes % 8, 0u);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace goblin::wire
