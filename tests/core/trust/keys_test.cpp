// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/keys.hpp"

#include "core/trust/key_files.hpp"
#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

using store::test::damage;
using store::test::slurp;
using store::test::spill;

PublicKey key_from_hex(const char* hex) { return {wire::Digest::from_hex(hex).value().bytes}; }

TEST(Keys, SignAndVerifyAsRfc8032Says) {
  // Its test 2.
  const auto seed =
      wire::Digest::from_hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  const SecretKey key = SecretKey::from_seed(std::span<const std::uint8_t, 32>(seed->bytes));
  EXPECT_EQ(key.public_key(),
            key_from_hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f1"
                         "2af4660c"));
  const Bytes message = {std::byte{0x72}};
  const Signature signature = key.sign(message);
  const auto half = [&](std::size_t at) {
    wire::Digest bytes;
    std::copy_n(signature.begin() + static_cast<std::ptrdiff_t>(at), 32, bytes.bytes.begin());
    return bytes.hex();
  };
  EXPECT_EQ(half(0), "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da");
  EXPECT_EQ(half(32), "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  EXPECT_TRUE(verify(key.public_key(), message, signature));
  EXPECT_FALSE(verify(key.public_key(), bytes_of("x"), signature));
  EXPECT_FALSE(verify(numbered_key(1).public_key(), message, signature));
  for (std::size_t at = 0; at < signature.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Signature wrong = signature;
      wrong[at] ^= static_cast<std::uint8_t>(1u << bit);
      ASSERT_FALSE(verify(key.public_key(), message, wrong)) << at;
    }
  }
  EXPECT_EQ(key.id().hex(), "39f713d0a644253f04529421b9f51b9b08979d08295959c4f3990ee617f5139f");
}

TEST(Keys, EachIsNew) { EXPECT_NE(SecretKey::make().public_key(), SecretKey::make().public_key()); }

// A key of small order "signs" anything: with R = A = the neutral element and S = 0 the equation
// holds for every message.
TEST(Keys, OfSmallOrderAndNotCanonicalAreRefused) {
  const char* const bad[] = {
      "0100000000000000000000000000000000000000000000000000000000000000",  // order 1
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  // order 2
      "0000000000000000000000000000000000000000000000000000000000000080",  // order 4
      "0000000000000000000000000000000000000000000000000000000000000000",  // order 4
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",  // order 8
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",  // order 8
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",  // order 8
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",  // order 8
      "0100000000000000000000000000000000000000000000000000000000000080",  // order 1, sign bit
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  // 1 + p
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  // p
      "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",  // over p
      "0200000000000000000000000000000000000000000000000000000000000000",  // no point of the curve
      "0169d3c02f3edd121cafbe1dfd45c4cf4aac216a79e36e6326419f2a654d2d46",  // good key + order 8
  };
  Signature forged{};
  forged[0] = 1;  // R: the neutral element
  for (const char* hex : bad) {
    const PublicKey key = key_from_hex(hex);
    const auto refused = check_public_key(key);
    GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
    EXPECT_NE(refused.error().message.find(key_id(key).hex()), std::string::npos);
    EXPECT_FALSE(verify(key, bytes_of("anything"), forged)) << hex;
  }
  EXPECT_TRUE(check_public_key(numbered_key(7).public_key()));
}

// S + L signs as well as S does for a lenient verifier: one signature, two forms.
TEST(Keys, SignaturesThatAreNotCanonicalAreRefused) {
  const SecretKey key = numbered_key(3);
  const Bytes message = bytes_of("message");
  Signature signature = key.sign(message);
  const std::uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7,
                                  0xa2, 0xde, 0xf9, 0xde, 0x14, 0,    0,    0,    0,    0,    0,
                                  0,    0,    0,    0,    0,    0,    0,    0,    0,    0x10};
  ASSERT_TRUE(verify(key.public_key(), message, signature));
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    carry += signature[32 + i] + order[i];
    signature[32 + i] = static_cast<std::uint8_t>(carry);
    carry >>= 8;
  }
  EXPECT_FALSE(verify(key.public_key(), message, signature));
}

TEST(KeyFiles, PublicKeyThereAndBack) {
  const TempDir directory;
  const PublicKey key = numbered_key(1).public_key();
  GOBLIN_ASSERT_OK(write_public_key(directory / "a.pub", key));
  EXPECT_EQ(slurp(directory / "a.pub"),
            "goblin public key 1\n" + wire::Digest{key.bytes}.hex() + "\n");
  EXPECT_EQ(read_public_key(directory / "a.pub").value(), key);
  const auto again = write_public_key(directory / "a.pub", numbered_key(2).public_key());
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, again);
  EXPECT_NE(again.error().message.find("a.pub' is there already"), std::string::npos);
  EXPECT_EQ(read_public_key(directory / "a.pub").value(), key);
  GOBLIN_EXPECT_CODE(Code::kNotFound, read_public_key(directory / "none.pub"));
}

TEST(KeyFiles, WhatIsNoPublicKeyIsNamed) {
  const TempDir directory;
  const std::string good = public_key_text(numbered_key(1).public_key());
  const std::string bad[] = {"",
                             "goblin public key 1\n",
                             good.substr(0, good.size() - 1),
                             good + "\n",
                             "Goblin" + good.substr(6),
                             good.substr(0, 20) + "zz" + good.substr(22),
                             good.substr(0, 20) + good.substr(22),
                             std::string(2000, 'a')};
  for (const std::string& text : bad) {
    spill(directory / "a.pub", text);
    const auto refused = read_public_key(directory / "a.pub");
    GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
    EXPECT_NE(refused.error().message.find("a.pub"), std::string::npos);
  }
  spill(directory / "a.pub", "goblin public key 1\n" + std::string(64, '0') + "\n");
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, read_public_key(directory / "a.pub"));
  std::filesystem::create_symlink(directory / "elsewhere", directory / "link.pub");
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, read_public_key(directory / "link.pub"));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, read_public_key(directory.path() + "/"));
}

TEST(KeyFiles, SecretKeyWithoutPassphrase) {
  const TempDir directory;
  const std::string path = directory / "a.key";
  const SecretKey key = SecretKey::make();
  GOBLIN_ASSERT_OK(write_secret_key(path, key, ""));
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(secret_key_is_encrypted(path).value());
  EXPECT_EQ(read_secret_key(path, "").value().public_key(), key.public_key());
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, write_secret_key(path, SecretKey::make(), ""));
  EXPECT_EQ(read_secret_key(path, "").value().public_key(), key.public_key());
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(KeyFiles, SecretKeyThatOthersMayReadIsRefused) {
  const TempDir directory;
  const std::string path = directory / "a.key";
  GOBLIN_ASSERT_OK(write_secret_key(path, SecretKey::make(), ""));
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0610u, 0666u, 0700u | 01u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto refused = read_secret_key(path, "");
    GOBLIN_EXPECT_CODE(Code::kUnavailable, refused);
    EXPECT_NE(refused.error().message.find(path), std::string::npos);
    EXPECT_NE(refused.error().message.find("chmod 600"), std::string::npos);
    GOBLIN_EXPECT_CODE(Code::kUnavailable, secret_key_is_encrypted(path));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, write_secret_key(path, SecretKey::make(), ""));
  EXPECT_TRUE(read_secret_key(path, ""));
  if (::geteuid() == 0 && ::chown(path.c_str(), 12345, 12345) == 0) {
    const auto refused = read_secret_key(path, "");
    GOBLIN_EXPECT_CODE(Code::kUnavailable, refused);
    EXPECT_NE(refused.error().message.find("user 12345"), std::string::npos);
  }
}

TEST(KeyFiles, SecretKeyWithPassphrase) {
  const TempDir directory;
  const std::string path = directory / "a.key";
  const SecretKey key = numbered_key(42);
  GOBLIN_ASSERT_OK(write_secret_key(path, key, "correct horse"));
  EXPECT_TRUE(secret_key_is_encrypted(path).value());
  const std::string text = slurp(path);
  std::string seed;
  for (int i = 0; i < 4; ++i) seed += "2a2a";
  EXPECT_EQ(text.find(seed), std::string::npos) << "the seed stands there in the clear";
  EXPECT_EQ(read_secret_key(path, "correct horse").value().public_key(), key.public_key());
  const auto wrong = read_secret_key(path, "correct hors");
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, wrong);
  EXPECT_NE(wrong.error().message.find("passphrase"), std::string::npos);
  const auto none = read_secret_key(path, "");
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, none);
  EXPECT_NE(none.error().message.find("is encrypted"), std::string::npos);
  // Salt and nonce are new each time.
  GOBLIN_ASSERT_OK(write_secret_key(directory / "b.key", key, "correct horse"));
  EXPECT_NE(slurp(directory / "b.key"), text);
}

// Each byte of each kind of file, changed: another key never comes out.
TEST(KeyFiles, AnyChangedByteOfASecretKeyIsNoticed) {
  const TempDir directory;
  const std::string path = directory / "a.key";
  GOBLIN_ASSERT_OK(write_secret_key(path, numbered_key(5), ""));
  const std::string good = slurp(path);
  for (std::size_t at = 0; at < good.size(); ++at) {
    damage(path, at, 1);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, read_secret_key(path, ""));
    spill(path, good);
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    std::filesystem::resize_file(path, size);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, read_secret_key(path, ""));
    spill(path, good);
  }
  // With a passphrase each trial costs Argon2id: one digit of each line.
  GOBLIN_ASSERT_OK(write_secret_key(directory / "b.key", numbered_key(5), "p"));
  const std::string box = slurp(directory / "b.key");
  for (std::size_t at = 5; at < box.size(); at = box.find('\n', at) + 5) {
    damage(directory / "b.key", at, 1);
    EXPECT_FALSE(read_secret_key(directory / "b.key", "p")) << at;
    spill(directory / "b.key", box);
  }
  EXPECT_TRUE(read_secret_key(directory / "b.key", "p"));
}

}  // namespace
}  // namespace goblin::trust::test
