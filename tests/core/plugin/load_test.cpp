// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Plugins and backends that do not load, through the real runner: a clear error, and nothing of
// the child is left.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "goblin/abi/plugin.h"
#include "tests/core/plugin/runner_fixture.hpp"

namespace goblin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kOurs = std::to_string(GOBLIN_ABI_MAJOR) + "." + std::to_string(GOBLIN_ABI_MINOR);

class Load : public RunnerFixture {
 protected:
  /// The error of a start that must fail.
  Error refusal(const std::string& name, const plugin::RunnerOptions& with) {
    Error error;
    run([&]() -> net::Task<void> {
      auto client = co_await start(name, with);
      EXPECT_FALSE(client) << name;
      error = client ? Error{} : client.error();
    });
    return error;
  }
  Error refusal(const std::string& name) { return refusal(name, options()); }
};

TEST_F(Load, GivesDescriptionAndDevice) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    EXPECT_TRUE((*client)->alive());
    EXPECT_FALSE((*client)->device().empty());
    const auto& kinds = (*client)->kinds();
    if (kinds.size() != 1) {
      ADD_FAILURE() << kinds.size() << " kinds";
      co_return;
    }
    EXPECT_EQ(kinds[0].name, "faulty");
    EXPECT_EQ(kinds[0].version, 1u);
    EXPECT_EQ(kinds[0].default_policy, std::uint32_t{GOBLIN_POLICY_VALIDATOR});
    EXPECT_EQ(kinds[0].inputs.at(0).name, "x");
    EXPECT_EQ(kinds[0].inputs.at(0).dtypes, GOBLIN_DTYPE_BIT(GOBLIN_F64));
    EXPECT_EQ(kinds[0].params.at(0).name, "mode");
    EXPECT_EQ(kinds[0].params.at(0).max_value, wire::Value::of(std::int64_t{1000}));
    EXPECT_EQ(kinds[0].outputs.at(0).doc, "twice x");
  });
}

TEST_F(Load, OtherAbisNameBothVersionsAndTheRemedy) {
  EXPECT_THAT(refusal("newer-minor").message,
              AllOf(HasSubstr("ABI 1.7"), HasSubstr(kOurs), HasSubstr("upgrade GPU Goblin")));
  EXPECT_THAT(refusal("newer-major").message,
              AllOf(HasSubstr("ABI 2.0"), HasSubstr(kOurs), HasSubstr("upgrade GPU Goblin")));
  EXPECT_THAT(refusal("older-major").message,
              AllOf(HasSubstr("ABI 0.3"), HasSubstr(kOurs), HasSubstr("build the plugin again")));
  EXPECT_EQ(refusal("newer-minor").code, Code::kUnsupported);
  EXPECT_EQ(refusal("older-major").code, Code::kUnsupported);
}

TEST_F(Load, TablesThatContradictTheNoteAreRefused) {
  EXPECT_THAT(refusal("lying-note").message, HasSubstr("ABI 1.7"));
  EXPECT_THAT(refusal("fewer-kinds").message, HasSubstr("1 kinds, the note 2"));
  EXPECT_THAT(refusal("other-name").message, HasSubstr("plain/1"));
  EXPECT_THAT(refusal("tiny-table").message, HasSubstr("struct_size is 8"));
  EXPECT_THAT(refusal("no-execute").message, HasSubstr("has no execute"));
  EXPECT_THAT(refusal("null-table").message, HasSubstr("cannot work with this GPU Goblin"));
}

TEST_F(Load, FilesThatAreNoProperPluginsAreRefused) {
  EXPECT_THAT(refusal("missing-entry").message, HasSubstr("goblin_plugin_entry_v1"));
  EXPECT_EQ(refusal("garbage-note").code, Code::kCorrupt);
  EXPECT_THAT(refusal("duplicate-kinds").message, HasSubstr("plain/1 twice"));
}

TEST_F(Load, TruncatedLibraryIsAnErrorNotASignal) {
  std::ifstream file(plugin_path("plain"), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{64}, text.size() / 2, text.size() - 1}) {
    run([&]() -> net::Task<void> {
      const auto bytes = std::as_bytes(std::span(text)).first(length);
      auto fd = plugin::make_sealed_memfd(bytes);
      CO_ASSERT_TRUE(fd);
      plugin::RunnerOptions with = options();
      with.plugin_fd = fd->get();
      const auto client = co_await plugin::RunnerClient::start(*loop_, with);
      EXPECT_FALSE(client);
      if (!client) {
        EXPECT_EQ(client.error().code, Code::kCorrupt) << client.error().message;
      }
    });
  }
}

TEST_F(Load, UnsealedFilesAreRefused) {
  run([&]() -> net::Task<void> {
    const SharedMemory memory(100);
    plugin::RunnerOptions with = options();
    with.plugin_fd = memory.fd();
    const auto client = co_await plugin::RunnerClient::start(*loop_, with);
    EXPECT_FALSE(client);
    if (!client) {
      EXPECT_THAT(client.error().message, HasSubstr("sealed"));
    }
  });
}

TEST_F(Load, SpinningConstructorAndEntryAreKilledAtTheDeadline) {
  plugin::RunnerOptions with = options();
  with.startup = net::Milliseconds(300);
  for (const char* name : {"spin-constructor", "spin-entry"}) {
    const Error error = refusal(name, with);
    EXPECT_EQ(error.code, Code::kUnavailable) << name;
    EXPECT_THAT(error.message, AllOf(HasSubstr("while it was loaded"), HasSubstr("300 ms")));
  }
}

TEST_F(Load, CrashingAndLeavingConstructorsAreNamed) {
  const Error crash = refusal("crash-constructor");
  EXPECT_EQ(crash.code, Code::kInternal);
  EXPECT_THAT(crash.message, AllOf(HasSubstr("crashed"), HasSubstr("signal 6")));
  const Error left = refusal("exit-constructor");
  EXPECT_EQ(left.code, Code::kInternal);
  EXPECT_THAT(left.message, HasSubstr("exit status 0"));
}

TEST_F(Load, MissingRunnerBackendAndDeviceAreNamed) {
  plugin::RunnerOptions with = options();
  with.runner = "/nonexistent/goblin-runner";
  const Error runner = refusal("plain", with);
  EXPECT_EQ(runner.code, Code::kNotFound);
  EXPECT_THAT(runner.message, HasSubstr("/nonexistent/goblin-runner"));
  with = options();
  with.backend = "/nonexistent/backend.so";
  EXPECT_THAT(refusal("plain", with).message, HasSubstr("/nonexistent/backend.so"));
  with = options();
  with.backend = plugin_path("plain");
  EXPECT_THAT(refusal("plain", with).message, HasSubstr("goblin_backend_entry_v1"));
  with = options();
  with.device = "abacus";
  const Error device = refusal("plain", with);
  EXPECT_EQ(device.code, Code::kNotFound);
  EXPECT_THAT(device.message, AllOf(HasSubstr("'abacus'"), HasSubstr("it has:")));
}

TEST_F(Load, AProgramThatIsNoRunnerIsAnError) {
  plugin::RunnerOptions with = options();
  with.runner = "/bin/true";
  const Error error = refusal("plain", with);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_THAT(error.message, HasSubstr("exit status 0"));
}

}  // namespace
}  // namespace goblin::testing
