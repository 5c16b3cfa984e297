// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Each call that changes the disk fails, or is the last one, or what it did is lost with the power:
// the directory holds the old state or the new one, whole, and goes on from there.
#include "tests/core/trust/disk_faults.hpp"

#include "tests/core/trust/network.hpp"

namespace goblin::trust::test {
namespace {

/// A host with catalogue 1 under root 1, before an update to catalogue 2 under root 2.
class DiskFaults : public TrustTest {
 protected:
  DiskFaults() {
    network_.publish_targets(kNow);
    network_.publish_root([](wire::TrustRoot&) {});
    newer_ = network_.server.files;
    network_.server.files = Network().server.files;
    older_ = network_.server.files;
  }
  void prepare() {
    faults_off();
    verifier_.reset();
    std::filesystem::remove_all(path());
    network_.server.files = older_;
    start();
    network_.server.files = newer_;
  }
  /// How many calls an update takes when nothing fails.
  std::uint64_t count_calls() {
    prepare();
    faults_off();
    EXPECT_TRUE(update());
    const std::uint64_t calls = calls_made();
    EXPECT_GT(calls, 15u) << "the calls are not seen: is --wrap at work?";
    return calls;
  }
  /// After a fault: what is there is whole, nothing that was seen is forgotten, and the update goes
  /// through.
  void expect_whole(const std::string& what) {
    SCOPED_TRACE(what);
    faults_off();
    open();
    ASSERT_NE(verifier_, nullptr);
    const std::uint64_t found = version();
    EXPECT_TRUE(found == 1 || found == 2) << found;
    EXPECT_EQ(allows("matmul-1"), true);
    const wire::TrustState state = verifier_->state();
    EXPECT_GE(state.seen_timestamp.version, 1u);
    EXPECT_GE(state.latest_s, kNow - kDay);
    EXPECT_GE(verifier_->root().version, found) << "catalogue 2 came after root 2";
    EXPECT_TRUE(verifier_->may_start(kNow));
    GOBLIN_ASSERT_OK(update());
    EXPECT_EQ(version(), 2u);
    EXPECT_EQ(verifier_->root().version, 2u);
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path())) ++files;
    EXPECT_EQ(files, 4u) << "something was left behind";
  }

  std::map<Server::Place, Bytes> older_, newer_;
};

TEST_F(DiskFaults, EachCallFailsOnce) {
  const std::uint64_t calls = count_calls();
  int refused = 0;
  for (const int error_number : {EIO, ENOSPC}) {
    for (std::uint64_t call = 0; call < calls; ++call) {
      const std::string what = "call " + std::to_string(call);
      prepare();
      fail_call(call, error_number);
      const auto outcome = update();
      faults_off();
      if (!outcome) {
        ++refused;
        EXPECT_EQ(outcome.error().code, error_number == EIO ? Code::kUnavailable : Code::kExhausted)
            << what << outcome.error().message;
        EXPECT_NE(outcome.error().message.find(path()), std::string::npos)
            << what << outcome.error().message;
        EXPECT_EQ(version(), 1u) << what;
      }
      // The same process goes on once the disk does.
      GOBLIN_ASSERT_OK(update());
      EXPECT_EQ(version(), 2u) << what;
      // And so does another one, had this one ended at the fault.
      prepare();
      fail_call(call, error_number);
      [[maybe_unused]] const auto again = update();
      expect_whole(what);
    }
  }
  EXPECT_GT(refused, 15);
}

TEST_F(DiskFaults, EachWriteIsShort) {
  const std::uint64_t calls = count_calls();
  for (std::uint64_t call = 0; call < calls; ++call) {
    prepare();
    halve_call(call);
    GOBLIN_ASSERT_OK(update());
    expect_whole("call " + std::to_string(call));
  }
}

TEST_F(DiskFaults, KilledAtEachCall) {
  const std::uint64_t calls = count_calls();
  for (std::uint64_t call = 0; call < calls; ++call) {
    prepare();
    die_at_call(call);
    [[maybe_unused]] const auto outcome = update();
    verifier_.reset();
    expect_whole("call " + std::to_string(call));
  }
}

TEST_F(DiskFaults, PowerLostAtEachCall) {
  const std::uint64_t calls = count_calls();
  for (const Undo undo : {Undo::kNone, Undo::kAll, Undo::kAllButTheLast}) {
    for (std::uint64_t call = 0; call <= calls; ++call) {
      prepare();
      die_at_call(call);
      [[maybe_unused]] const auto outcome = update();
      verifier_.reset();
      lose_power(undo);
      expect_whole("call " + std::to_string(call) + ", undo " +
                   std::to_string(static_cast<int>(undo)));
    }
  }
}

TEST_F(DiskFaults, AtTheVeryFirstStart) {
  faults_off();
  network_.server.files = newer_;
  start();
  const std::uint64_t calls = calls_made();
  for (std::uint64_t call = 0; call <= calls; ++call) {
    for (const int power : {0, 1, 2, 3}) {
      SCOPED_TRACE("call " + std::to_string(call) + ", power " + std::to_string(power));
      verifier_.reset();
      std::filesystem::remove_all(path());
      die_at_call(call);
      if (auto opened = Verifier::open({.directory = path(), .root = network_.first_root})) {
        [[maybe_unused]] const auto outcome = (*opened)->update(network_.server, kNow);
      }
      if (power != 0) lose_power(static_cast<Undo>(power - 1));
      faults_off();
      start();
      EXPECT_EQ(version(), 2u);
    }
  }
}

// What was seen is remembered by the process even when the disk cannot.
TEST_F(DiskFaults, VersionsSeenWithADeadDiskAreNotTakenBack) {
  prepare();
  network_.server.files = older_;
  const Bytes old = older_.at({MetadataRole::kTimestamp, 0});
  network_.server.files.at({MetadataRole::kTimestamp, 0}) =
      newer_.at({MetadataRole::kTimestamp, 0});
  die_at_call(0);
  EXPECT_FALSE(update());  // its targets are not there, and nothing can be written
  network_.timestamp() = old;
  const auto refused = update();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("has seen version 2"), std::string::npos);
  faults_off();
}

}  // namespace
}  // namespace goblin::trust::test
