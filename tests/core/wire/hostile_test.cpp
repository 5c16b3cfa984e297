// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Bytes that a hostile peer could send as a message: decode answers, within bounds, and never dies.
// Run under AddressSanitizer too.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/core/wire/generate.hpp"

namespace goblin::wire {
namespace {

/// One message of each type, as bytes, and how it is decoded: true when accepted.
struct Sample {
  const char* name;
  Bytes bytes;
  bool (*decode)(ByteView);
};

std::vector<Sample> samples(std::uint64_t seed) {
  testing::Generator generate(seed);
  std::vector<Sample> all;
#define GOBLIN_SAMPLE(Type, name)                                           \
  all.push_back({#Type, encode(generate.make<Type>()), [](ByteView bytes) { \
                   const auto result = decode_##name(bytes);                \
                   if (!result) {                                           \
                     EXPECT_EQ(result.error().code, Code::kCorrupt);        \
                   }                                                        \
                   return result.has_value();                               \
                 }});
  GOBLIN_WIRE_PEER_MESSAGES(GOBLIN_SAMPLE)
  GOBLIN_WIRE_RUNNER_MESSAGES(GOBLIN_SAMPLE)
  GOBLIN_WIRE_CLIENT_MESSAGES(GOBLIN_SAMPLE)
  GOBLIN_WIRE_TRUST_MESSAGES(GOBLIN_SAMPLE)
#undef GOBLIN_SAMPLE
  return all;
}

/// Words of a segment, for messages built by hand.
class Segment {
 public:
  explicit Segment(std::vector<std::uint64_t> words) : words_(std::move(words)) {}
  [[nodiscard]] ByteView view() const { return std::as_bytes(std::span(words_)); }

 private:
  std::vector<std::uint64_t> words_;
};
/// Pointers as Cap'n Proto's encoding states them; `offset` counts words from the pointer's end.
std::uint64_t struct_pointer(std::int32_t offset, std::uint64_t data, std::uint64_t pointers) {
  return (static_cast<std::uint32_t>(offset) << 2 & 0xffffffffu) | data << 32 | pointers << 48;
}
enum ElementSize : std::uint64_t {
  kVoid = 0,
  kBit = 1,
  kByte = 2,
  kEight = 5,
  kPointer = 6,
  kInline = 7
};
std::uint64_t list_pointer(std::int32_t offset, ElementSize size, std::uint64_t count) {
  return (static_cast<std::uint32_t>(offset) << 2 & 0xffffffffu) | 1u |
         static_cast<std::uint64_t>(size) << 32 | count << 35;
}
/// The tag before a list of structs.
std::uint64_t tag(std::uint64_t count, std::uint64_t data, std::uint64_t pointers) {
  return count << 2 | data << 32 | pointers << 48;
}

TEST(Hostile, LengthsThatNoMessageHas) {
  const Bytes good = encode(Leases{});
  ASSERT_TRUE(decode_leases(good));
  for (const Sample& sample : samples(testing::test_seed())) {
    EXPECT_FALSE(sample.decode({})) << sample.name;
    for (std::size_t size = 1; size < 8; ++size)
      EXPECT_FALSE(sample.decode(ByteView(sample.bytes).first(size))) << sample.name;
    Bytes longer = sample.bytes;
    longer.resize(longer.size() + 4);
    EXPECT_FALSE(sample.decode(longer)) << sample.name;
  }
  const Bytes huge(kMaxMessageBytes + 8);
  const auto refused = decode_leases(huge);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("16777224 bytes"), std::string::npos);
}

TEST(Hostile, UnalignedInputIsReadAllTheSame) {
  for (const Sample& sample : samples(testing::test_seed())) {
    for (std::size_t shift = 0; shift < 8; ++shift) {
      Bytes buffer(sample.bytes.size() + shift);
      std::copy(sample.bytes.begin(), sample.bytes.end(),
                buffer.begin() + static_cast<std::ptrdiff_t>(shift));
      EXPECT_TRUE(sample.decode(ByteView(buffer).subspan(shift))) << sample.name << " " << shift;
    }
  }
}

TEST(Hostile, TruncationAtEveryWord) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    const std::uint64_t seed = testing::test_seed() + round;
    SCOPED_TRACE(seed);
    for (const Sample& sample : samples(seed)) {
      for (std::size_t size = 8; size < sample.bytes.size(); size += 8) {
        // A fresh copy of that length: a read past its end is AddressSanitizer's.
        const Bytes cut(sample.bytes.begin(),
                        sample.bytes.begin() + static_cast<std::ptrdiff_t>(size));
        sample.decode(cut);
      }
    }
  }
  // Every pointer of a Leases is followed, so no proper prefix of it is a message.
  Leases leases;
  leases.leases.resize(2);
  for (auto& lease : leases.leases) {
    lease.plugin.bytes.fill(1);
    lease.params = {Value::of(1.0)};
    lease.outputs = {TensorSpec{GOBLIN_F32, {4}}};
  }
  const Bytes whole = encode(leases);
  for (std::size_t size = 8; size < whole.size(); size += 8)
    EXPECT_FALSE(decode_leases(ByteView(whole).first(size))) << size;
}

TEST(Hostile, FlippedBits) {
  constexpr int kFlips = 100'000;
  const std::uint64_t seed = testing::test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int accepted = 0;
  int done = 0;
  for (std::uint64_t round = 0; done < kFlips; ++round) {
    for (const Sample& sample : samples(seed + round)) {
      for (int i = 0; i < 50; ++i, ++done) {
        Bytes bytes = sample.bytes;
        for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips)
          bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
        accepted += sample.decode(bytes) ? 1 : 0;
      }
    }
  }
  // Flips in plain numbers pass, flips in pointers and closed numbers do not.
  EXPECT_GT(accepted, kFlips / 100);
  EXPECT_LT(accepted, kFlips * 99 / 100);
}

TEST(Hostile, RandomWords) {
  const std::uint64_t seed = testing::test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<Sample> all = samples(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint64_t> words(1 + random() % 24);
    for (auto& word : words) {
      // Mostly plausible pointers, so that reading goes deep.
      const auto offset = static_cast<std::int32_t>(random() % 8) - 2;
      switch (random() % 4) {
        case 0:
          word = struct_pointer(offset, random() % 12, random() % 8);
          break;
        case 1:
          word = list_pointer(offset, static_cast<ElementSize>(random() % 8), random() % 64);
          break;
        case 2:
          word = tag(random() % 64, random() % 12, random() % 8);
          break;
        default:
          word = random();
      }
    }
    all[random() % all.size()].decode(std::as_bytes(std::span(words)));
  }
}

TEST(Hostile, ListOfAsManyAsCanBeWritten) {
  // Heartbeat{running: 2^29 − 1 numbers}, in 24 bytes.
  for (const ElementSize size : {kVoid, kBit, kByte, kEight, kPointer, kInline}) {
    const Segment segment({struct_pointer(0, 0, 1), list_pointer(0, size, (1u << 29) - 1), 0});
    EXPECT_FALSE(decode_heartbeat(segment.view())) << size;
    EXPECT_FALSE(decode_leases(segment.view())) << size;
  }
  // All ones: count FFFFFFFF in every place where a count can stand.
  EXPECT_FALSE(decode_leases(Segment({~0ull}).view()));
  EXPECT_FALSE(decode_leases(Segment({~0ull, ~0ull, ~0ull}).view()));
  EXPECT_FALSE(decode_leases(Segment({struct_pointer(0, 0, 1), ~0ull}).view()));
  EXPECT_FALSE(decode_leases(
      Segment({struct_pointer(0, 0, 1), list_pointer(0, kInline, 0), 0xffffffff}).view()));
  EXPECT_FALSE(decode_leases(
      Segment({struct_pointer(0, 0, 1), list_pointer(0, kInline, 0), tag(0x3fffffff, 0, 0)})
          .view()));
}

TEST(Hostile, StructsOfNoSizeDoNotMultiply) {
  // 4096 leases of no words each: within the list's bound, not within what the message can hold.
  const Segment segment({struct_pointer(0, 0, 1), list_pointer(0, kInline, 0), tag(4096, 0, 0)});
  const auto refused = decode_leases(segment.view());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  // A void list read as leases.
  EXPECT_FALSE(
      decode_leases(Segment({struct_pointer(0, 0, 1), list_pointer(0, kVoid, 4096)}).view()));
}

TEST(Hostile, AliasedGraphDoesNotMultiply) {
  // 1000 leases, each with its `inputs` pointing at the same list of 1000 tensors.
  constexpr std::uint64_t kCount = 1000;
  std::vector<std::uint64_t> words = {struct_pointer(0, 0, 1), list_pointer(0, kInline, kCount * 4),
                                      tag(kCount, 0, 4)};
  const std::size_t shared = words.size() + kCount * 4;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    words.push_back(0);  // plugin
    words.push_back(0);  // params
    const auto offset = static_cast<std::int32_t>(shared - words.size() - 1);
    words.push_back(list_pointer(offset, kInline, kCount));  // inputs
    words.push_back(0);                                      // outputs
  }
  ASSERT_EQ(words.size(), shared);
  words.push_back(tag(kCount, 1, 0));
  for (std::uint64_t i = 0; i < kCount; ++i) words.push_back(GOBLIN_F32);  // inline at 2^32 − 1 ^ 0
  const auto start = std::chrono::steady_clock::now();
  const auto refused = decode_leases(Segment(words).view());
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(refused);
  EXPECT_LT(took, std::chrono::seconds(1));

  // The same with numbers: a Leases whose tensors all share one shape of 16 extents, 1 word each
  // for the sharers. Reading stops at four times the message.
  std::vector<std::uint64_t> specs = {
      struct_pointer(0, 0, 1), list_pointer(0, kInline, 4), tag(1, 0, 4), 0, 0, 0};
  constexpr std::uint64_t kSpecs = 1000;
  specs.push_back(list_pointer(0, kInline, kSpecs * 2));  // outputs
  specs.push_back(tag(kSpecs, 1, 1));
  const std::size_t shape = specs.size() + kSpecs * 2;
  for (std::uint64_t i = 0; i < kSpecs; ++i) {
    specs.push_back(GOBLIN_F32);
    specs.push_back(list_pointer(static_cast<std::int32_t>(shape - specs.size() - 1), kEight, 16));
  }
  for (int d = 0; d < 16; ++d) specs.push_back(1);
  EXPECT_FALSE(decode_leases(Segment(specs).view()));
}

TEST(Hostile, MoreItemsThanWords) {
  // 20 results of no words each would all be valid ones; only their number betrays them.
  const auto refused = decode_results(
      Segment({struct_pointer(0, 0, 1), list_pointer(0, kInline, 0), tag(20, 0, 0)}).view());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("more than the message has room for"), std::string::npos)
      << refused.error().message;
}

TEST(Hostile, AliasedTextsStopAtFourTimesTheMessage) {
  // Each assignment's address is the same text of 200 bytes: `count` of them read 26 words each.
  const auto labs = [](std::uint64_t count) {
    std::vector<std::uint64_t> words = {struct_pointer(0, 0, 1),
                                        list_pointer(0, kInline, count * 3), tag(count, 1, 2)};
    const std::size_t text = words.size() + count * 3;
    for (std::uint64_t i = 0; i < count; ++i) {
      words.push_back(0);  // port, lease_ms
      words.push_back(0);  // lab
      words.push_back(list_pointer(static_cast<std::int32_t>(text - words.size() - 1), kByte, 201));
    }
    for (int i = 0; i < 25; ++i) words.push_back(0x6161616161616161);
    words.push_back(0);
    return decode_lab_assignments(Segment(words).view());
  };
  EXPECT_TRUE(labs(4));
  const auto refused = labs(1000);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("LabAssignment.address"), std::string::npos)
      << refused.error().message;
}

TEST(Hostile, AliasedPluginsOfACatalogueDoNotMultiply) {
  // 1000 plugins, each with its `kinds` pointing at the same list of 16 kinds.
  constexpr std::uint64_t kCount = 1000;
  constexpr std::uint64_t kData = 3, kPointers = 4;
  std::vector<std::uint64_t> words = {struct_pointer(0, 4, 1),
                                      kTrustFormat,
                                      1,
                                      1,
                                      2,
                                      list_pointer(0, kInline, kCount * (kData + kPointers)),
                                      tag(kCount, kData, kPointers)};
  const std::size_t shared = words.size() + kCount * (kData + kPointers);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    words.insert(words.end(), {100, 1, 0, 0, 0});  // size, ABI, release; name, plugin
    words.push_back(
        list_pointer(static_cast<std::int32_t>(shared - words.size() - 1), kInline, 32));  // kinds
    words.push_back(0);
  }
  ASSERT_EQ(words.size(), shared);
  words.push_back(tag(16, 1, 1));
  for (int i = 0; i < 16; ++i) words.insert(words.end(), {1, 0});
  const auto refused = decode_trust_targets(Segment(words).view());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("TrustPlugin.kinds"), std::string::npos)
      << refused.error().message;
  // 4096 roots in no words.
  EXPECT_FALSE(
      decode_trust_state(Segment({struct_pointer(0, 2, 5), 1, 0, list_pointer(4, kInline, 0), 0, 0,
                                  0, 0, tag(4096, 0, 0)})
                             .view()));
}

TEST(Hostile, AliasedButSmallIsNoAttack) {
  // Two tensors that share a shape: a reader may not care.
  const Segment segment({struct_pointer(0, 0, 1), list_pointer(0, kInline, 4), tag(1, 0, 4), 0, 0,
                         0, list_pointer(0, kInline, 4), tag(2, 1, 1), GOBLIN_F32,
                         list_pointer(2, kEight, 1), GOBLIN_F32, list_pointer(0, kEight, 1), 7});
  const auto leases = decode_leases(segment.view());
  ASSERT_TRUE(leases) << leases.error().message;
  ASSERT_EQ(leases->leases.at(0).outputs.size(), 2u);
  EXPECT_EQ(leases->leases[0].outputs[0], leases->leases[0].outputs[1]);
  EXPECT_EQ(leases->leases[0].outputs[0], (TensorSpec{GOBLIN_F32, {7}}));
}

TEST(Hostile, PointersThatGoNowhere) {
  for (const std::int32_t offset : {-100, -3, 5, 1 << 28, -(1 << 28)}) {
    EXPECT_FALSE(decode_leases(Segment({struct_pointer(offset, 1, 1), 0, 0}).view())) << offset;
    EXPECT_FALSE(
        decode_leases(Segment({struct_pointer(0, 0, 1), list_pointer(offset, kEight, 1)}).view()))
        << offset;
  }
  // Far pointers (another segment), capabilities, and double far ones.
  EXPECT_FALSE(decode_leases(Segment({2, 0}).view()));
  EXPECT_FALSE(decode_leases(Segment({2 | 1ull << 32, 0}).view()));
  EXPECT_FALSE(decode_leases(Segment({6, 2, 0}).view()));
  EXPECT_FALSE(decode_leases(Segment({3, 0}).view()));
  EXPECT_FALSE(decode_leases(Segment({struct_pointer(0, 0, 1), 3}).view()));
  EXPECT_FALSE(
      decode_leases(Segment({struct_pointer(0, 0, 1), struct_pointer(0, 1, 0), 0}).view()));
  // A text without its closing NUL, and one that is a list of words.
  EXPECT_FALSE(decode_lab_status(
      Segment({struct_pointer(0, 2, 1), 0, 0, list_pointer(0, kByte, 8), ~0ull}).view()));
  EXPECT_FALSE(decode_lab_status(
      Segment({struct_pointer(0, 2, 1), 0, 0, list_pointer(0, kEight, 1), 0}).view()));
}

TEST(Hostile, NestingOfAHundred) {
  // Lists within lists, and structs within structs, each pointing at the next word.
  std::vector<std::uint64_t> structs(101, struct_pointer(0, 0, 1));
  std::vector<std::uint64_t> lists{struct_pointer(0, 0, 1)};
  lists.resize(101, list_pointer(0, kPointer, 1));
  for (const Sample& sample : samples(testing::test_seed())) {
    sample.decode(Segment(structs).view());
    sample.decode(Segment(lists).view());
  }
  EXPECT_FALSE(decode_leases(Segment(structs).view()));
  EXPECT_FALSE(decode_reply(Segment(lists).view()));
  // A struct that contains itself.
  EXPECT_FALSE(decode_leases(Segment({struct_pointer(-1, 0, 1)}).view()));
}

TEST(Hostile, UnionCasesOfALaterRelease) {
  Bytes request = encode(Request{1, GetJobs{}});
  const auto refused_at = [&](std::size_t byte, unsigned value) {
    Bytes bytes = request;
    bytes[byte] = static_cast<std::byte>(value);
    return decode_request(bytes);
  };
  // The union's tag follows the number in the first data word.
  ASSERT_TRUE(refused_at(12, 8));  // getHosts
  const auto refused = refused_at(12, 13);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("Request.body: case 13 is not known"), std::string::npos)
      << refused.error().message;
}

TEST(Hostile, ErrorsNameTheFieldWithinCapnProtoToo) {
  Leases leases;
  leases.leases.resize(1);
  leases.leases[0].plugin.bytes.fill(1);
  leases.leases[0].outputs = {TensorSpec{GOBLIN_F32, {4}}};
  Bytes bytes = encode(leases);
  bytes.resize(bytes.size() - 8);  // the shape's only extent
  const auto refused = decode_leases(bytes);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("TensorSpec.shape"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace goblin::wire
