// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <sys/stat.h>

#include <fstream>

#include "core/net/sha256.hpp"
#include "net_test.hpp"

namespace goblin::net {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Identity, IsMadeOncePrivatelyAndNamesNothing) {
  const Scratch scratch;
  const std::string dir = scratch.file("a/b");
  auto made = Identity::load_or_create(dir);
  ASSERT_TRUE(made) << made.error().message;
  struct stat file {};
  ASSERT_EQ(::stat(dir.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((dir + "/identity.key").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  auto again = Identity::load_or_create(dir);
  ASSERT_TRUE(again);
  EXPECT_EQ((*made)->pin(), (*again)->pin());
  auto other = Identity::load_or_create(scratch.file("c"));
  ASSERT_TRUE(other);
  EXPECT_NE((*made)->pin(), (*other)->pin());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2);
}

TEST(Identity, RefusesWhatCannotBeTrusted) {
  const Scratch scratch;
  const std::string dir = scratch.file("d");
  const std::string key = dir + "/identity.key";
  const std::string certificate = dir + "/identity.crt";
  ASSERT_TRUE(Identity::load_or_create(dir));
  const std::string good_key = slurp(key);

  ::chmod(key.c_str(), 0640);
  expect_error(Identity::load_or_create(dir), Code::kUnavailable, "others may read the key");
  ::chmod(key.c_str(), 0600);
  ::chmod(dir.c_str(), 0777);
  expect_error(Identity::load_or_create(dir), Code::kUnavailable, "chmod 700");
  ::chmod(dir.c_str(), 0700);

  ASSERT_TRUE(Identity::load_or_create(scratch.file("other")));
  std::filesystem::copy_file(scratch.file("other/identity.crt"), certificate,
                             std::filesystem::copy_options::overwrite_existing);
  expect_error(Identity::load_or_create(dir), Code::kCorrupt, "does not belong to identity.key");
  std::ofstream(certificate) << "garbage";
  expect_error(Identity::load_or_create(dir), Code::kCorrupt, "identity.crt");

  // Without a certificate a new one is made for the same key.
  std::filesystem::remove(certificate);
  EXPECT_TRUE(Identity::load_or_create(dir));
  EXPECT_EQ(slurp(key), good_key);

  std::ofstream(key) << "garbage";
  expect_error(Identity::load_or_create(dir), Code::kCorrupt, "no Ed25519 key");
  std::filesystem::remove(key);
  expect_error(Identity::load_or_create(dir), Code::kCorrupt, "no identity.key");
  EXPECT_FALSE(std::filesystem::exists(key));
  expect_error(Identity::load_or_create("/proc/none/here"), Code::kUnavailable, "/proc/none");
}

TEST(Sha256, KnownAnswersAndReuse) {
  const std::string abc = "abc";
  const wire::ByteView view(reinterpret_cast<const std::byte*>(abc.data()), abc.size());
  const char* const expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(sha256(view).hex(), expected);
  EXPECT_EQ(sha256({}).hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  for (int i = 0; i < 2; ++i) {
    hash.update(view.first(1));
    hash.update({});
    hash.update(view.subspan(1));
    EXPECT_EQ(hash.finish().hex(), expected);
  }
  Sha256 moved(std::move(hash));
  moved.update(view);
  EXPECT_EQ(moved.finish().hex(), expected);
}

}  // namespace
}  // namespace goblin::net
