// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Staging and the results in it over a disk that fails at each call: a file that was given out is
// whole, no number is given out twice, and what failed leaves nothing.
#include <set>

#include "hosts/lab/result_store.hpp"
#include "tests/core/store/support.hpp"
#include "tests/fault/faults.hpp"

namespace goblin::fault {
namespace {

using store::Staging;
using store::test::TempDir;

constexpr std::uint64_t kLarge = 300'000;

class StagingFaults : public ::testing::Test {
 protected:
  /// `given` hears of each number that was given out.
  Result<void> history(const std::function<void(std::uint64_t)>& given) {
    staging_.reset();
    GOBLIN_TRY(staging_, Staging::open(path_, 100'000'000));
    GOBLIN_TRY(const Staging::File first, staging_->create(1000));
    given(first.number);
    GOBLIN_TRY(const Staging::File second, staging_->create_resident(kLarge));
    given(second.number);
    GOBLIN_TRY_VOID(lab::write_all(second.fd.get(), 10, wire::Bytes(5000, std::byte{7})));
    GOBLIN_TRY_VOID(staging_->remove(first.number));
    staging_.reset();
    GOBLIN_TRY(staging_, Staging::open(path_, 100'000'000));
    GOBLIN_TRY(const Staging::File again,
               staging_->reopen(second.number, Staging::Access::kReadWrite));
    GOBLIN_TRY(const Staging::File third, staging_->create(2000));
    given(third.number);
    return {};
  }
  void forget() {
    staging_.reset();
    std::filesystem::remove_all(path_);
  }
  std::uint64_t calls_of_a_run(On on) {
    count(on);
    EXPECT_TRUE(history([](std::uint64_t) {}));
    const std::uint64_t calls = off();
    forget();
    return calls;
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      found += entry.path().extension() == ".bin" ? 1 : 0;
    }
    return found;
  }
  /// Opened anew: numbers go on behind all that were given out.
  void expect_sound(std::uint64_t last) {
    staging_.reset();
    auto opened = Staging::open(path_, 100'000'000);
    GOBLIN_ASSERT_OK(opened);
    staging_ = std::move(*opened);
    std::uint64_t bytes = 0;
    const auto numbers = staging_->list();
    GOBLIN_ASSERT_OK(numbers);
    for (const std::uint64_t number : *numbers) {
      const auto file = staging_->reopen(number, Staging::Access::kRead);
      GOBLIN_ASSERT_OK(file);
      bytes += file->size;
    }
    EXPECT_EQ(staging_->used_bytes(), bytes);
    const auto made = staging_->create(10);
    GOBLIN_ASSERT_OK(made);
    EXPECT_GT(made->number, last) << "a number was given out twice";
  }

  TempDir directory_;
  std::string path_ = directory_ / "staging";
  std::unique_ptr<Staging> staging_;
};

TEST_F(StagingFaults, EachCallFailsOnce) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  ASSERT_GT(calls, 15u);
  std::set<std::string> names;
  for (const int error_number : {EIO, ENOSPC}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      forget();
      std::uint64_t last = 0;
      arm({.on = On::kDisk, .how = How::kFail, .at = at, .error_number = error_number});
      const auto done = history([&](std::uint64_t number) { last = number; });
      off();
      SCOPED_TRACE("call " + std::to_string(at) + ", " + last_failed());
      if (!done) {
        names.insert(last_failed());
        const Error& error = done.error();
        EXPECT_EQ(error.code, error_number == EIO ? Code::kUnavailable : Code::kExhausted)
            << error.message;
        EXPECT_NE(error.message.find("staging"), std::string::npos) << error.message;
      }
      if (staging_ != nullptr) {
        EXPECT_EQ(staging_->list()->size(), files()) << "a file that nobody knows was left";
        const auto made = staging_->create(10);
        GOBLIN_ASSERT_OK(made);
        EXPECT_GT(made->number, last);
        last = made->number;
      }
      expect_sound(last);
      if (HasFailure()) return;
    }
  }
  for (const char* name :
       {"open", "pwrite", "fsync", "renameat", "fallocate", "unlinkat", "flock"}) {
    EXPECT_TRUE(names.contains(name)) << name << " failed and nobody said so";
  }
}

TEST_F(StagingFaults, EndsAtEveryCall) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  for (const How how : {How::kKill, How::kTorn, How::kPower}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      SCOPED_TRACE("call " + std::to_string(at) + ", end " + std::to_string(static_cast<int>(how)));
      forget();
      const Ended ended = in_child([&](int fd) {
        arm({.on = On::kDisk, .how = how, .at = at});
        if (!history([&](std::uint64_t number) { tell(fd, number); })) ::_exit(1);
      });
      ASSERT_FALSE(ended.exited(1));
      expect_sound(ended.last);
      if (HasFailure()) return;
    }
  }
}

TEST_F(StagingFaults, EachAllocationFailsOnce) {
  const std::uint64_t calls = calls_of_a_run(On::kMemory);
  ASSERT_GT(calls, 30u);
  for (std::uint64_t at = 0; at < calls; ++at) {
    SCOPED_TRACE("allocation " + std::to_string(at));
    forget();
    const Ended ended = in_child([&](int fd) {
      std::set_new_handler(end_without_memory);
      arm({.on = On::kMemory, .how = How::kFail, .at = at});
      if (!history([&](std::uint64_t number) { tell(fd, number); })) ::_exit(1);
    });
    ASSERT_TRUE(ended.exited(0) || ended.exited(1) || ended.exited(kNoMemory)) << ended.status;
    expect_sound(ended.last);
    if (HasFailure()) return;
  }
}

// A result that arrives: the lab node must be able to tell its own disk's fault from the host's.
TEST_F(StagingFaults, AResultThatCannotBeWrittenIsTheDisksFault) {
  for (const int error_number : {EIO, ENOSPC}) {
    forget();
    auto opened = Staging::open(path_, 0);
    GOBLIN_ASSERT_OK(opened);
    staging_ = std::move(*opened);
    lab::ResultStore results(
        *staging_, [this](std::uint64_t stage) { GOBLIN_ASSERT_OK(staging_->remove(stage)); });
    const wire::Bytes bytes = store::test::random_bytes(kLarge, 5);
    const lab::Slot slot = results.allocate(bytes.size()).value();
    lab::SlotSink sink(results.shared_fd(slot), slot.offset, bytes.size());
    GOBLIN_ASSERT_OK(sink.begin(bytes.size()));
    GOBLIN_ASSERT_OK(sink.write(0, wire::ByteView(bytes).first(1000)));
    EXPECT_FALSE(sink.disk_failed());
    arm({.on = On::kDisk, .how = How::kFail, .at = 0, .error_number = error_number});
    const auto refused = sink.write(1000, wire::ByteView(bytes).subspan(1000));
    off();
    GOBLIN_EXPECT_CODE(error_number == EIO ? Code::kUnavailable : Code::kExhausted, refused);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message.find("free some disk space") != std::string::npos,
              error_number == ENOSPC)
        << refused.error().message;
    EXPECT_TRUE(sink.disk_failed());
    sink.abandon();
    // The slot takes another try.
    lab::SlotSink second(results.shared_fd(slot), slot.offset, bytes.size());
    GOBLIN_ASSERT_OK(second.begin(bytes.size()));
    GOBLIN_ASSERT_OK(second.write(0, bytes));
    EXPECT_EQ(second.digest(), net::blob_digest(bytes));
    results.clear();
    EXPECT_EQ(staging_->used_bytes(), 0u);
    // No room for one is an error before anything is given out.
    arm({.on = On::kDisk, .how = How::kFail, .at = 1, .error_number = error_number});
    EXPECT_FALSE(results.allocate(bytes.size()));
    off();
    EXPECT_EQ(staging_->used_bytes(), 0u);
    GOBLIN_ASSERT_OK(results.allocate(bytes.size()));
    results.clear();
  }
}

}  // namespace
}  // namespace goblin::fault
