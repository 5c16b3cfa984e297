// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The blob cache over a disk that fails at each call: only the right bytes come out, the cap holds,
// and the cache goes on.
#include <set>

#include "tests/core/store/blob_fixture.hpp"
#include "tests/fault/faults.hpp"

namespace goblin::fault {
namespace {

using store::BlobCache;
using store::test::Blob;

constexpr std::uint64_t kCap = 1'000'000;

class BlobFaults : public store::test::BlobCacheTest {
 protected:
  Result<void> try_open() {
    cache_.reset();
    GOBLIN_TRY(cache_, BlobCache::open(path_, store::NamedBy::kBlake3, kCap, nullptr));
    return {};
  }
  Result<void> put_some(const Blob& blob, std::size_t count) {
    GOBLIN_TRY(auto download, cache_->download(blob.digest));
    GOBLIN_TRY_VOID(download->sink()->begin(blob.bytes.size()));
    const std::uint64_t start = download->offset();
    return download->sink()->write(start, wire::ByteView(blob.bytes).subspan(start, count - start));
  }
  /// `kept` hears of each blob that was committed.
  Result<void> history(const std::function<void(std::uint64_t)>& kept) {
    GOBLIN_TRY_VOID(try_open());
    GOBLIN_TRY_VOID(put(a_));
    kept(1);
    GOBLIN_TRY_VOID(put_some(b_, 100'000));
    GOBLIN_TRY_VOID(try_open());
    GOBLIN_TRY_VOID(cache_->find(a_.digest));  // hashed anew
    GOBLIN_TRY_VOID(put(b_, 64 << 10));        // goes on
    kept(2);
    GOBLIN_TRY_VOID(cache_->mend());
    GOBLIN_TRY_VOID(put(c_));  // evicts
    kept(3);
    return {};
  }
  std::uint64_t calls_of_a_run(On on) {
    count(on);
    EXPECT_TRUE(history([](std::uint64_t) {}));
    const std::uint64_t calls = off();
    forget();
    return calls;
  }
  void forget() {
    cache_.reset();
    std::filesystem::remove_all(path_);
  }
  /// What is found is right. After a kill, what was committed last is there.
  void expect_sound(std::uint64_t kept, bool all_there) {
    GOBLIN_ASSERT_OK(try_open());
    const Blob* const blobs[] = {&a_, &b_, &c_};
    for (std::uint64_t i = 0; i < 3; ++i) {
      auto pin = cache_->find(blobs[i]->digest);
      if (pin) {
        EXPECT_EQ(read(**pin), blobs[i]->bytes);
      } else {
        EXPECT_EQ(pin.error().code, Code::kNotFound) << pin.error().message;
        EXPECT_FALSE(all_there && i + 1 == kept) << "blob " << i << " was committed and is gone";
      }
    }
    EXPECT_LE(cache_->used_bytes(), kCap);
    if (auto pin = cache_->find(c_.digest); !pin) {
      pin = put(c_);
      GOBLIN_ASSERT_OK(pin);
      EXPECT_EQ(read(**pin), c_.bytes);
    }
  }

  const Blob a_{400'000, 1}, b_{300'000, 2}, c_{500'000, 3};
};

TEST_F(BlobFaults, EachCallFailsOnce) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  ASSERT_GT(calls, 25u);
  std::set<std::string> names;
  for (const int error_number : {EIO, ENOSPC}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      forget();
      arm({.on = On::kDisk, .how = How::kFail, .at = at, .error_number = error_number});
      const auto done = history([](std::uint64_t) {});
      off();
      SCOPED_TRACE("call " + std::to_string(at) + ", " + last_failed());
      if (!done) {
        names.insert(last_failed());
        const Error& error = done.error();
        // Not found: what could not be read is fetched again.
        EXPECT_TRUE(error.code == Code::kUnavailable || error.code == Code::kExhausted ||
                    error.code == Code::kNotFound)
            << error.message;
        EXPECT_TRUE(error.message.find(path_) != std::string::npos ||
                    error.message.find(a_.digest.hex()) != std::string::npos)
            << error.message;
      }
      // The same cache goes on once the disk does.
      if (cache_ != nullptr) {
        GOBLIN_ASSERT_OK(cache_->mend());
        EXPECT_FALSE(cache_->trouble());
        if (!cache_->find(b_.digest)) GOBLIN_ASSERT_OK(put(b_));
        EXPECT_LE(cache_->used_bytes(), kCap);
      }
      expect_sound(0, false);
      if (HasFailure()) return;
    }
  }
  for (const char* name : {"open", "pwrite", "fallocate", "renameat", "fchmod", "flock"}) {
    EXPECT_TRUE(names.contains(name)) << name << " failed and nobody said so";
  }
}

TEST_F(BlobFaults, EachReadOrWriteIsShort) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  for (std::uint64_t at = 0; at < calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    forget();
    arm({.on = On::kDisk, .how = How::kShort, .at = at});
    const auto done = history([](std::uint64_t) {});
    off();
    GOBLIN_ASSERT_OK(done);
    expect_sound(3, true);
  }
}

TEST_F(BlobFaults, EndsAtEveryCall) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  for (const How how : {How::kKill, How::kTorn, How::kPower}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      SCOPED_TRACE("call " + std::to_string(at) + ", end " + std::to_string(static_cast<int>(how)));
      forget();
      const Ended ended = in_child([&](int fd) {
        arm({.on = On::kDisk, .how = how, .at = at});
        if (!history([&](std::uint64_t kept) { tell(fd, kept); })) ::_exit(1);
      });
      ASSERT_FALSE(ended.exited(1));
      // Blobs are not synchronised: a loss of power takes them, but never gives others.
      expect_sound(ended.last, how != How::kPower);
      if (HasFailure()) return;
    }
  }
}

TEST_F(BlobFaults, EachAllocationFailsOnce) {
  const std::uint64_t calls = calls_of_a_run(On::kMemory);
  ASSERT_GT(calls, 100u);
  int ends = 0;
  for (std::uint64_t at = 0; at < calls; at += 3) {
    SCOPED_TRACE("allocation " + std::to_string(at));
    forget();
    const Ended ended = in_child([&](int fd) {
      std::set_new_handler(end_without_memory);
      arm({.on = On::kMemory, .how = How::kFail, .at = at});
      if (!history([&](std::uint64_t kept) { tell(fd, kept); })) ::_exit(1);
    });
    // opendir's allocation is the C library's: an error.
    ASSERT_TRUE(ended.exited(0) || ended.exited(1) || ended.exited(kNoMemory)) << ended.status;
    ends += ended.exited(kNoMemory) ? 1 : 0;
    expect_sound(ended.last, true);
    if (HasFailure()) return;
  }
  EXPECT_GT(ends, 20);
}

}  // namespace
}  // namespace goblin::fault
