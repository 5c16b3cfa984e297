// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A malicious plugin in a real runner: nothing that it tries succeeds. Each test of the fixture
// `Inside` runs as whoever runs the tests; those of `Elsewhere` run them again as an ordinary user,
// and where the kernel offers less.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "core/jail/sanitized.hpp"
#include "core/plugin/jail_probe.hpp"
#include "tests/core/jail/surroundings.hpp"
#include "tests/core/plugin/runner_fixture.hpp"
#include "tests/testing/plugins/jail_probe/modes.hpp"
#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace goblin::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Listeners of all kinds, which accept nobody but are there.
class Listeners {
 public:
  Listeners() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tcp_ = listener(AF_INET, &any, sizeof any);
    socklen_t size = sizeof any;
    ::getsockname(tcp_.get(), reinterpret_cast<sockaddr*>(&any), &size);
    port_ = ntohs(any.sin_port);
    const std::string name = "goblin-probe-" + std::to_string(port_);
    path_ = "/tmp/" + name + ".sock";
    abstract_ = unix_listener(std::string(1, '\0') + name);
    named_ = unix_listener(path_);
  }
  ~Listeners() { ::unlink(path_.c_str()); }
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;
  [[nodiscard]] std::int64_t port() const { return port_; }

 private:
  static net::UniqueFd listener(int family, const void* address, std::size_t size) {
    net::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), static_cast<const sockaddr*>(address), static_cast<socklen_t>(size)),
              0)
        << std::strerror(errno);
    EXPECT_EQ(::listen(fd.get(), 64), 0);
    return fd;
  }
  static net::UniqueFd unix_listener(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    // An abstract name has no end; one with a path does.
    return listener(AF_UNIX, &address,
                    offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '\0' ? 0 : 1));
  }
  net::UniqueFd tcp_, abstract_, named_;
  std::int64_t port_ = 0;
  std::string path_;
};

Target target_of(const Listeners& listeners) {
  utsname name{};
  ::uname(&name);
  return {::getpid(), listeners.port(), hash_name(name.nodename)};
}

class Inside : public RunnerFixture {
 protected:
  static constexpr std::uint64_t kOutput = 0;

  Inside() : memory_(4096) {}
  void SetUp() override {
    RunnerFixture::SetUp();
    if (jail::kSanitized) {
      GTEST_SKIP() << "a build with a sanitizer leaves the jail out";
    }
  }

  static plugin::RunnerOptions capped() {
    plugin::RunnerOptions with = options();
    with.memory_bytes = 256U << 20;
    return with;
  }

  wire::Execute request(std::uint64_t probe, std::int64_t mode, std::uint32_t segment) const {
    const Target target = target_of(listeners_);
    wire::RunnerTask task;
    task.params = {wire::Value::of(target.pid), wire::Value::of(target.port),
                   wire::Value::of(target.host), wire::Value::of(mode),
                   wire::Value::of(static_cast<std::int64_t>(probe))};
    wire::TensorAt at;
    at.dtype = GOBLIN_F64;
    at.segment = segment;
    at.offset = kOutput;
    task.outputs = {at};
    return batch(std::move(task));
  }

  /// Tries all probes; what each came to: an errno, or the words of the runner's end.
  struct Tried {
    double error = 0;
    std::string ended;
  };
  std::vector<Tried> try_all() {
    const std::vector<Probe> probes = all_probes();
    std::vector<Tried> results(probes.size());
    run([&]() -> net::Task<void> {
      Client client;
      std::uint32_t segment = 0;
      for (std::size_t i = 0; i < probes.size(); ++i) {
        if (!client) {
          auto started = co_await start("jail-probe", capped());
          CO_ASSERT_TRUE(started);
          client = std::move(*started);
          const auto mapped = co_await client->map(memory_.fd(), memory_.size(), true);
          CO_ASSERT_TRUE(mapped);
          segment = *mapped;
        }
        memory_.as<double>(kOutput)[0] = 0;
        const wire::Execute one = request(i, kAll, segment);
        const auto done = co_await client->execute(one, kLong);
        if (!done) {
          results[i].ended = done.error().message;
          client.reset();
        } else if (done->tasks.at(0).status != GOBLIN_OK) {
          results[i].ended = done->tasks[0].message;
        } else {
          results[i].error = memory_.as<double>(kOutput)[0];
        }
      }
    });
    return results;
  }

  /// Starts a task that never answers, and returns how its runner ended.
  Error run_forever(ProbeMode mode) {
    Error error{Code::kInternal, "not run"};
    run([&]() -> net::Task<void> {
      auto client = co_await start("jail-probe", capped());
      CO_ASSERT_TRUE(client);
      const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
      CO_ASSERT_TRUE(segment);
      const wire::Execute request = this->request(0, mode, *segment);
      const auto done = co_await (*client)->execute(request, net::Milliseconds(300));
      EXPECT_FALSE(done);
      if (!done) {
        error = done.error();
      }
      EXPECT_EQ((co_await (*client)->exited()).message, error.message);
    });
    return error;
  }

  Listeners listeners_;
  SharedMemory memory_;
};

/// The one layer that denies a probe, where the others do not.
std::optional<jail::Layer> needs(const std::string& name) {
  const std::map<std::string, jail::Layer> some{
      {"stats /etc/passwd", jail::Layer::kMountNamespace},
      {"learns the computer's name", jail::Layer::kUtsNamespace},
      {"knows its parent", jail::Layer::kPidNamespace},
      {"starts 500 threads", jail::Layer::kProcessLimit}};
  const auto found = some.find(name);
  return found == some.end() ? std::nullopt : std::optional(found->second);
}

TEST_F(Inside, NoProbeSucceeds) {
  const std::vector<Probe> probes = all_probes();
  const auto results = try_all();
  ASSERT_GT(probes.size(), 100U);
  const auto machine = plugin::probe_jail(options());
  ASSERT_TRUE(machine) << error_text(machine);
  if (runs_in(Surroundings::kNoNamespaces)) {
    EXPECT_FALSE(machine->report.has(jail::Layer::kMountNamespace));
  }
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const Probe& probe = probes[i];
    const Tried& result = results[i];
    if (const auto layer = needs(probe.name); layer && !machine->report.has(*layer)) {
      continue;
    }
    EXPECT_TRUE(result.error > 0 || !result.ended.empty()) << probe.group << ": it " << probe.name;
    if (probe.fatal) {
      EXPECT_THAT(result.ended, AnyOf(HasSubstr("jail forbids"), HasSubstr("signal 11")))
          << probe.name;
    } else {
      EXPECT_EQ(result.ended, "") << probe.name;
    }
    RecordProperty(
        std::to_string(i),
        std::string(probe.group) + ": " + probe.name + ": " +
            (result.ended.empty() ? std::strerror(static_cast<int>(result.error)) : result.ended));
  }
}

TEST_F(Inside, AForbiddenCallIsNamed) {
  const std::vector<Probe> probes = all_probes();
  const auto results = try_all();
  const auto said = [&](const std::string& name) {
    for (std::size_t i = 0; i < probes.size(); ++i) {
      if (name == probes[i].name) {
        return results[i].ended;
      }
    }
    return std::string("no such probe");
  };
  EXPECT_EQ(said("sets io_uring up"),
            "the plugin asked the kernel for 'io_uring_setup', which the jail forbids, so its "
            "runner was killed");
  EXPECT_THAT(said("traces the daemon"), HasSubstr("'ptrace'"));
  EXPECT_THAT(said("becomes a program"), HasSubstr("'execve'"));
}

TEST_F(Inside, NorDoesAConstructorWhileThePluginIsLoaded) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("jail-probe", capped());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    const wire::Execute request = this->request(0, kLoadTime, *segment);
    const auto done = co_await (*client)->execute(request, kLong);
    CO_ASSERT_TRUE(done);
    EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK);
    EXPECT_GT(memory_.as<double>(kOutput)[0], 0);
  });
}

TEST_F(Inside, WhoIsDeafIsKilledAtTheDeadline) {
  const Error error = run_forever(kSpinDeafly);
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("did not answer within 300 ms"));
}

TEST_F(Inside, WhoStopsItselfIsKilledAtTheDeadline) {
  EXPECT_THAT(run_forever(kStopItself).message, HasSubstr("did not answer within 300 ms"));
}

TEST_F(Inside, RunnersOfTheSameDaemonShareNoUserId) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only a daemon that is root has user ids to give";
  }
  run([&]() -> net::Task<void> {
    auto first = co_await start("faulty", options());
    CO_ASSERT_TRUE(first);
    auto second = co_await start("faulty", options());
    CO_ASSERT_TRUE(second);
    std::vector<uid_t> ids;
    for (const auto* client : {&first, &second}) {
      struct stat info {};
      EXPECT_EQ(::stat(("/proc/" + std::to_string((**client)->pid()) + "/task").c_str(), &info), 0);
      // Of a process that is not dumpable, root owns the files; its status tells.
      std::FILE* file =
          std::fopen(("/proc/" + std::to_string((**client)->pid()) + "/status").c_str(), "re");
      char line[256];
      unsigned id = 0;
      while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
        if (std::sscanf(line, "Uid: %u", &id) == 1) {
          ids.push_back(id);
        }
      }
      std::fclose(file);
    }
    EXPECT_EQ(ids.size(), 2U);
    if (ids.size() == 2) {
      EXPECT_NE(ids[0], ids[1]);
      EXPECT_GE(std::min(ids[0], ids[1]), 61184U);
    }
  });
}

TEST_F(Inside, TheProbeOfThisMachineFindsACompleteJail) {
  const auto probe = plugin::probe_jail(options());
  ASSERT_TRUE(probe) << error_text(probe);
  EXPECT_EQ(probe->refused, "");
  EXPECT_THAT(probe->escapes, ::testing::IsEmpty());
  for (std::size_t i = 0; i < jail::kProtections; ++i) {
    const auto protection = static_cast<jail::Protection>(i);
    EXPECT_TRUE(jail::enforced_by(probe->report, protection)) << jail::name(protection);
  }
  plugin::RunnerOptions with = options();
  const auto words = plugin::expect_jail(with);
  ASSERT_TRUE(words) << error_text(words);
  EXPECT_THAT(*words, HasSubstr("runners have a jail"));
}

TEST_F(Inside, AControlGroupCountsARunnerByItself) {
  const auto groups = plugin::ControlGroups::open();
  if (!groups) {
    GTEST_SKIP() << groups.error().message;
  }
  run([&]() -> net::Task<void> {
    plugin::RunnerOptions with = capped();
    with.groups = *groups;
    with.require = {jail::Layer::kCgroup};
    auto client = co_await start("jail-probe", with);
    CO_ASSERT_TRUE(client);
    std::ifstream file("/proc/" + std::to_string((*client)->pid()) + "/cgroup");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, HasSubstr("goblin-runner-" + std::to_string(::getpid()) + "-2"));
  });
  // Its group goes with it.
  const auto next = (*groups)->make(1U << 28, 1);
  ASSERT_TRUE(next) << error_text(next);
  for (const std::string& directory : next->directories()) {
    const std::string before = directory.substr(0, directory.rfind('-')) + "-2";
    EXPECT_NE(::access(before.c_str(), F_OK), 0) << before;
    EXPECT_EQ(::access(directory.c_str(), F_OK), 0);
  }
}

TEST(ControlGroups, DirectoriesThatAreNoGroupsAreRefused) {
  const auto none = plugin::ControlGroups::below({"/nowhere"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_THAT(none.error().message, HasSubstr("/nowhere/goblin-runner-"));
  std::string name = ::testing::TempDir() + "groups-XXXXXX";
  char* directory = ::mkdtemp(name.data());
  ASSERT_NE(directory, nullptr);
  const auto plain = plugin::ControlGroups::below({directory});
  ASSERT_FALSE(plain);
  EXPECT_THAT(plain.error().message, HasSubstr("do not limit memory"));
  EXPECT_EQ(::rmdir(directory), 0) << "something was left in it";
}

TEST(Outside, ProbesSucceedWhereThereIsNoJail) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "what the probes may do outside is known for root";
  }
  const Listeners listeners;
  const Target target = target_of(listeners);
  int tried = 0;
  for (const Probe& probe : all_probes()) {
    if (!probe.outside) {
      continue;
    }
    ++tried;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(probe.attempt(target));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "it proves nothing inside if outside it cannot: " << probe.name << ": "
        << std::strerror(WEXITSTATUS(status));
  }
  EXPECT_GT(tried, 45);
}

// --- other surroundings -----------------------------------------------------------------------

class Elsewhere : public ::testing::Test {
 protected:
  void SetUp() override {
    if (jail::kSanitized) {
      GTEST_SKIP() << "a build with a sanitizer leaves the jail out";
    }
    if (::geteuid() != 0) {
      GTEST_SKIP() << "other surroundings than this user's take root to make";
    }
  }
  static void expect_passes(Surroundings where, const std::string& filter) {
    const Rerun again = rerun(where, filter);
    if (again.status == kCannotSurround) {
      GTEST_SKIP() << again.output;
    }
    EXPECT_EQ(again.status, 0) << again.output;
    EXPECT_THAT(again.output, HasSubstr("[  PASSED  ]"));
  }
};

TEST_F(Elsewhere, AnOrdinaryUserHasTheSameJail) { expect_passes(Surroundings::kUser, "Inside.*"); }

TEST_F(Elsewhere, WithoutNamespacesLandlockAndSeccompHold) {
  expect_passes(Surroundings::kNoNamespaces, "Inside.*");
}

TEST_F(Elsewhere, WithoutLandlockAndNamespacesNothingIsLoaded) {
  expect_passes(Surroundings::kNeither, "Lacking.LandlockAndNamespaces");
}

TEST_F(Elsewhere, WithoutProcNothingIsLoaded) {
  expect_passes(Surroundings::kNoProc, "Lacking.Proc");
}

class Lacking : public RunnerFixture {
 protected:
  Error refusal() {
    Error error{Code::kInternal, "it started"};
    run([&]() -> net::Task<void> {
      const auto client = co_await start("faulty", options());
      if (!client) {
        error = client.error();
      }
    });
    return error;
  }
};

TEST_F(Lacking, LandlockAndNamespaces) {
  if (!runs_in(Surroundings::kNeither)) {
    GTEST_SKIP() << "run by Elsewhere";
  }
  const Error error = refusal();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("no plugin is loaded"), HasSubstr("protection 'files'"),
                    HasSubstr("mount-namespace (unshare:"), HasSubstr("to have it,")));
  plugin::RunnerOptions with = options();
  const auto before = plugin::expect_jail(with);
  ASSERT_FALSE(before);
  EXPECT_THAT(before.error().message,
              AllOf(HasSubstr("protection 'files'"), HasSubstr("landlock")));
}

TEST_F(Lacking, Proc) {
  if (!runs_in(Surroundings::kNoProc)) {
    GTEST_SKIP() << "run by Elsewhere";
  }
  const Error error = refusal();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("/proc"));
}

TEST_F(Lacking, ARequiredLayerIsNamed) {
  if (jail::kSanitized) {
    GTEST_SKIP() << "a build with a sanitizer leaves the jail out";
  }
  plugin::RunnerOptions with = options();
  with.require = {jail::Layer::kLandlock, jail::Layer::kCgroup};
  run([&]() -> net::Task<void> {
    const auto client = co_await start("faulty", with);
    EXPECT_FALSE(client);
    if (!client) {
      EXPECT_EQ(client.error().code, Code::kUnavailable);
      EXPECT_THAT(client.error().message,
                  AllOf(HasSubstr("jail.require"), HasSubstr("cgroup (the daemon may make no"),
                        HasSubstr("Delegate=yes")));
    }
  });
}

}  // namespace
}  // namespace goblin::testing
