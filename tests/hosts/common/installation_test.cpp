// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/installation.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace goblin::hosts {
namespace {

namespace fs = std::filesystem;

class InstallationTest : public ::testing::Test {
 public:
  ~InstallationTest() override {
    ::unsetenv("GOBLIN_LIBDIR");
    fs::remove_all(root_);
  }

 protected:
  InstallationTest() {
    std::string pattern = (fs::temp_directory_path() / "goblin-install-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    ::unsetenv("GOBLIN_LIBDIR");
  }
  std::string make(const std::string& file, bool executable = false) {
    const fs::path path = fs::path(root_) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    if (executable) {
      fs::permissions(path, fs::perms::owner_all);
    }
    return path.string();
  }
  std::string root_;
};

TEST_F(InstallationTest, Installed) {
  const std::string runner = make("libexec/goblin/goblin-runner", true);
  const std::string cpu = make("lib/x86_64-linux-gnu/goblin/backends/libgoblin_backend_cpu.so");
  const std::string reference = make("lib/goblin/backends/libgoblin_backend_reference.so");
  const std::string matmul = make("lib/goblin/plugins/matmul.so");
  make("lib/libgoblin_backend_stray.so");
  make("lib/goblin/plugins/notes.txt");
  make("lib/goblin/backends/other.so");
  const auto installation = Installation::beside(root_ + "/bin/goblin");
  EXPECT_EQ(installation.runner().value(), runner);
  EXPECT_EQ(installation.backend("cpu").value(), cpu);
  EXPECT_EQ(installation.backend("reference").value(), reference);
  EXPECT_EQ(installation.backends(), (std::vector<std::string>{"cpu", "reference"}));
  EXPECT_EQ(installation.plugin("matmul").value(), matmul);
  EXPECT_EQ(installation.plugins(), std::vector<std::string>{matmul});
}

TEST_F(InstallationTest, BuildTree) {
  make("CMakeCache.txt");
  const std::string runner = make("bin/goblin-runner", true);
  const std::string cpu = make("lib/libgoblin_backend_cpu.so");
  const std::string matmul = make("plugins/matmul/matmul.so");
  const std::string training = make("plugins/training.so");
  const auto installation = Installation::beside(root_ + "/bin/goblin");
  EXPECT_EQ(installation.runner().value(), runner);
  EXPECT_EQ(installation.backend("cpu").value(), cpu);
  EXPECT_EQ(installation.plugins(), (std::vector<std::string>{matmul, training}));
}

TEST_F(InstallationTest, OverridesByConfigurationAndEnvironment) {
  const std::string runner = make("a/goblin-runner", true);
  const std::string cpu = make("a/backends/libgoblin_backend_cpu.so");
  const std::string matmul = make("a/plugins/matmul.so");
  const std::string other = make("b/goblin-runner", true);
  ASSERT_EQ(::setenv("GOBLIN_LIBDIR", (root_ + "/b").c_str(), 1), 0);
  EXPECT_EQ(Installation::locate("")->runner().value(), other);
  const auto configured = Installation::locate(root_ + "/a").value();
  EXPECT_EQ(configured.runner().value(), runner);
  EXPECT_EQ(configured.backend("cpu").value(), cpu);
  EXPECT_EQ(configured.plugin("matmul").value(), matmul);
}

TEST_F(InstallationTest, WithoutAnOverrideTheProgramsOwnPlaceCounts) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const auto refused = Installation::locate("")->plugin("no-such-plugin");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(self.parent_path().parent_path().string()),
            std::string::npos)
      << refused.error().message;
}

TEST_F(InstallationTest, MissingPartsNameThePlaces) {
  make("lib/goblin/backends/libgoblin_backend_cpu.so");
  make("bin/goblin-runner");  // not executable: not a runner
  const auto installation = Installation::beside(root_ + "/bin/goblin");
  const auto runner = installation.runner();
  ASSERT_FALSE(runner);
  EXPECT_EQ(runner.error().code, Code::kNotFound);
  EXPECT_NE(runner.error().message.find(root_ + "/libexec/goblin"), std::string::npos);
  const auto backend = installation.backend("cuda");
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("'cuda' is not installed; there are: cpu"),
            std::string::npos);
  EXPECT_NE(backend.error().message.find(root_ + "/lib/goblin/backends"), std::string::npos);
  EXPECT_NE(installation.plugin("matmul").error().message.find("there are: none"),
            std::string::npos);
  EXPECT_TRUE(installation.plugins().empty());
}

TEST_F(InstallationTest, NamesAreNotPaths) {
  make("lib/goblin/plugins/matmul.so");
  make("lib/goblin/secret.so");
  const auto installation = Installation::beside(root_ + "/bin/goblin");
  EXPECT_FALSE(installation.plugin("../secret"));
  EXPECT_FALSE(installation.plugin(""));
}

TEST_F(InstallationTest, OverrideThatDoesNotExist) {
  const auto refused = Installation::locate(root_ + "/none");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_NE(refused.error().message.find("GOBLIN_LIBDIR"), std::string::npos);
  ASSERT_EQ(::setenv("GOBLIN_LIBDIR", (root_ + "/none").c_str(), 1), 0);
  EXPECT_FALSE(Installation::locate(""));
}

}  // namespace
}  // namespace goblin::hosts
