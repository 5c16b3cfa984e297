// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/envelope.hpp"

#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

constexpr MetadataRole kRoles[] = {MetadataRole::kRoot, MetadataRole::kTargets,
                                   MetadataRole::kTimestamp};

Envelope sample() {
  Envelope envelope{MetadataRole::kTimestamp, {}, bytes_of("16 bytes of text")};
  for (std::uint8_t i = 1; i <= 2; ++i) {
    KeySignature one;
    one.key.bytes.fill(i);
    one.signature.fill(static_cast<std::uint8_t>(0xf0 + i));
    envelope.signatures.push_back(one);
  }
  return envelope;
}

TEST(Envelope, LayoutIsAsStated) {
  const Bytes file = encode_envelope(sample());
  std::string expected = "GBLNSIG1";
  expected += std::string("\3\0\0\0\2\0\0\0\x10\0\0\0\0\0\0\0", 16);
  expected += std::string(32, '\1') + std::string(64, '\xf1');
  expected += std::string(32, '\2') + std::string(64, '\xf2');
  expected += "16 bytes of text";
  EXPECT_EQ(file, bytes_of(expected));
  const auto back = parse_envelope(MetadataRole::kTimestamp, file);
  GOBLIN_ASSERT_OK(back);
  EXPECT_EQ(back->signatures, sample().signatures);
  EXPECT_EQ(back->message, sample().message);
  EXPECT_EQ(role_of(file).value(), MetadataRole::kTimestamp);
}

TEST(Envelope, SignedInputIsAsStated) {
  EXPECT_EQ(signed_input(MetadataRole::kTargets, bytes_of("abc")),
            bytes_of("\x1a"
                     "gpu-goblin/trust/1/targets" +
                     std::string("\3\0\0\0\0\0\0\0", 8) + "abc"));
  // No message under one role is one under another.
  for (const MetadataRole a : kRoles)
    for (const MetadataRole b : kRoles)
      EXPECT_EQ(signed_input(a, bytes_of("m")) == signed_input(b, bytes_of("m")), a == b);
}

TEST(Envelope, OnlyOfItsRole) {
  const Bytes file = encode_envelope(sample());
  for (const MetadataRole role : {MetadataRole::kRoot, MetadataRole::kTargets}) {
    const auto refused = parse_envelope(role, file);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
    EXPECT_NE(refused.error().message.find("of the role timestamp"), std::string::npos)
        << refused.error().message;
  }
}

TEST(Envelope, TruncatedAtEveryByteOrLonger) {
  const Bytes file = encode_envelope(sample());
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    GOBLIN_EXPECT_CODE(Code::kCorrupt, parse_envelope(MetadataRole::kTimestamp, cut));
  }
  Bytes longer = file;
  longer.resize(file.size() + 8);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, parse_envelope(MetadataRole::kTimestamp, longer));
}

TEST(Envelope, CountsAndLengthsThatCannotBe) {
  const Bytes file = encode_envelope(sample());
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    Bytes changed = file;
    std::memcpy(changed.data() + at, &value, bytes);
    return parse_envelope(MetadataRole::kTimestamp, changed);
  };
  ASSERT_TRUE(with(12, 2, 4));
  for (const std::uint64_t count : {0ull, 1ull, 3ull, 65ull, 0xffffffffull, 0x80000002ull})
    GOBLIN_EXPECT_CODE(Code::kCorrupt, with(12, count, 4));
  // 2^64 − 192 + … wraps in a sum that is not careful.
  for (const std::uint64_t length : {0ull, 8ull, 15ull, 24ull, ~0ull, ~0ull - 7, 1ull << 32})
    GOBLIN_EXPECT_CODE(Code::kCorrupt, with(16, length, 8));
  for (const std::uint64_t role : {0ull, 1ull, 4ull, 0xffffffffull})
    GOBLIN_EXPECT_CODE(Code::kCorrupt, with(8, role, 4));
  Bytes huge = file;
  huge.resize(max_file_bytes(MetadataRole::kTimestamp) + 1);
  const auto refused = parse_envelope(MetadataRole::kTimestamp, huge);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("8193 bytes, at most 8192"), std::string::npos);
}

TEST(Envelope, KeysTwiceOrOutOfOrder) {
  Envelope envelope = sample();
  std::swap(envelope.signatures[0], envelope.signatures[1]);
  GOBLIN_EXPECT_CODE(Code::kCorrupt,
                     parse_envelope(MetadataRole::kTimestamp, encode_envelope(envelope)));
  envelope.signatures[0] = envelope.signatures[1];
  const auto refused = parse_envelope(MetadataRole::kTimestamp, encode_envelope(envelope));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("same key"), std::string::npos);
}

class Signatures : public ::testing::Test {
 protected:
  Signatures() {
    for (std::uint8_t i = 1; i <= 3; ++i) {
      keys_.push_back(numbered_key(i));
      role_.keys.push_back(keys_.back().public_key());
    }
    role_.threshold = 2;
  }
  /// Signatures by these keys, under these ids; in the envelope's order or not, as judged directly.
  Result<std::vector<wire::Digest>> judge(
      const std::vector<std::pair<const SecretKey*, wire::Digest>>& signers,
      MetadataRole signed_as = MetadataRole::kTargets) {
    Envelope envelope{MetadataRole::kTargets, {}, bytes_of("message.")};
    for (const auto& [key, id] : signers)
      envelope.signatures.push_back({id, key->sign(signed_input(signed_as, envelope.message))});
    return check_signatures(envelope, role_, "root version 1");
  }
  std::pair<const SecretKey*, wire::Digest> own(std::size_t i) {
    return {&keys_[i], keys_[i].id()};
  }

  std::vector<SecretKey> keys_;
  wire::TrustRole role_;
};

TEST_F(Signatures, ThresholdOfDistinctKeys) {
  const auto two = judge({own(0), own(2)});
  GOBLIN_ASSERT_OK(two);
  std::vector<wire::Digest> expected = {keys_[0].id(), keys_[2].id()};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(*two, expected);
  EXPECT_EQ(judge({own(0), own(1), own(2)}).value().size(), 3u);
  const auto one = judge({own(0)});
  GOBLIN_EXPECT_CODE(Code::kCorrupt, one);
  EXPECT_NE(one.error().message.find("signed by 1 of the 2 keys of root version 1"),
            std::string::npos)
      << one.error().message;
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({}));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), own(0)}));
}

TEST_F(Signatures, UnderAnotherIdCountForNothing) {
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), {&keys_[0], keys_[1].id()}}));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), {&keys_[0], wire::Digest{}}}));
  // One key listed twice would be two ids for whoever trusts ids; it is one here.
  role_.keys = {keys_[0].public_key(), keys_[0].public_key()};
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), own(0)}));
}

TEST_F(Signatures, OfOtherKeysAreIgnored) {
  const SecretKey stranger = numbered_key(99);
  EXPECT_TRUE(judge({own(0), own(1), {&stranger, stranger.id()}}));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), {&stranger, stranger.id()}}));
}

TEST_F(Signatures, ThatDoNotHoldSpoilTheFile) {
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), own(1), {&keys_[0], keys_[2].id()}}));
}

TEST_F(Signatures, OfAnotherRoleOrOfTheBareMessage) {
  for (const MetadataRole role : {MetadataRole::kRoot, MetadataRole::kTimestamp})
    GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), own(1)}, role));
  Envelope envelope{MetadataRole::kTargets, {}, bytes_of("message.")};
  for (const SecretKey& key : keys_)
    envelope.signatures.push_back({key.id(), key.sign(envelope.message)});
  GOBLIN_EXPECT_CODE(Code::kCorrupt, check_signatures(envelope, role_, "root"));
}

TEST_F(Signatures, ThresholdZeroIsRefused) {
  role_.threshold = 0;
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({own(0), own(1)}));
  GOBLIN_EXPECT_CODE(Code::kCorrupt, judge({}));
}

}  // namespace
}  // namespace goblin::trust::test
