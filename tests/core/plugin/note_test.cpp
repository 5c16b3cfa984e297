// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Notes of whole, cut, spoiled and hostile files.
#include "core/plugin/note.hpp"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "core/plugin/sealed_file.hpp"

namespace goblin::plugin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

wire::Bytes read_plugin(const std::string& name) {
  std::ifstream file(std::string(GOBLIN_TEST_PLUGINS) + "/" + name + ".so", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  EXPECT_FALSE(text.empty()) << name;
  return {first, first + text.size()};
}

Error note_error(const std::string& name) {
  const auto note = read_note(read_plugin(name));
  EXPECT_FALSE(note) << name;
  return note ? Error{} : note.error();
}

TEST(Note, SaysWhatAPluginClaims) {
  const auto plain = read_note(read_plugin("plain"));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->abi_major, GOBLIN_ABI_MAJOR);
  EXPECT_EQ(plain->abi_minor, GOBLIN_ABI_MINOR);
  ASSERT_EQ(plain->kinds.size(), 1u);
  EXPECT_EQ(plain->kinds[0].text(), "plain/1");
  const auto cpp = read_note(read_plugin("pi-estimate"));
  ASSERT_TRUE(cpp) << cpp.error().message;
  EXPECT_EQ(cpp->kinds[0].text(), "pi-estimate/1");
  // Another ABI is no damage: the note is readable, check_abi judges.
  const auto newer = read_note(read_plugin("newer-major"));
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->abi_major, 2u);
}

TEST(Note, RefusesNotesThatBreakTheRules) {
  EXPECT_THAT(note_error("garbage-note").message, HasSubstr("GOBLIN01"));
  EXPECT_EQ(note_error("garbage-note").code, Code::kCorrupt);
  EXPECT_THAT(note_error("no-kinds").message, HasSubstr("0 kinds"));
  EXPECT_THAT(note_error("too-many-kinds").message, HasSubstr("4000000000"));
  EXPECT_THAT(note_error("duplicate-kinds").message, HasSubstr("plain/1 twice"));
  EXPECT_THAT(note_error("bad-name").message, HasSubstr("kind 1"));
}

TEST(Note, RefusesFilesThatAreNoPlugins) {
  const std::string text = "#!/bin/sh\necho no library\n";
  const auto script = read_note(std::as_bytes(std::span(text)));
  ASSERT_FALSE(script);
  EXPECT_THAT(script.error().message, HasSubstr("no ELF shared library"));
  EXPECT_FALSE(read_note({}));

  wire::Bytes foreign = read_plugin("plain");
  Elf64_Ehdr header;
  std::memcpy(&header, foreign.data(), sizeof header);
  header.e_machine = EM_RISCV;
  std::memcpy(foreign.data(), &header, sizeof header);
  const auto other = read_note(foreign);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kUnsupported);
  EXPECT_THAT(other.error().message, HasSubstr("another processor"));
}

TEST(Note, EveryCutIsNoticed) {
  const wire::Bytes whole = read_plugin("plain");
  // The section headers end the file: any cut loses some of them.
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    const auto note = read_note(wire::ByteView(whole).first(length));
    ASSERT_FALSE(note) << length;
    EXPECT_EQ(note.error().code, Code::kCorrupt) << length << ": " << note.error().message;
  }
}

TEST(Note, SpoiledFilesNeverLeaveTheBuffer) {
  const wire::Bytes whole = read_plugin("plain");
  const unsigned seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    wire::Bytes spoiled = whole;
    for (int flips = 0; flips < 4; ++flips) {
      // Mostly where the structure is: the ELF header, program headers, section headers.
      std::size_t at = random() % spoiled.size();
      if (round % 3 == 0) at = random() % (sizeof(Elf64_Ehdr) + 13 * sizeof(Elf64_Phdr));
      if (round % 3 == 1) at = header.e_shoff + random() % (spoiled.size() - header.e_shoff);
      spoiled[at] = static_cast<std::byte>(random());
    }
    // A heap block of exactly this size, so that a sanitizer sees a byte too far.
    refused += read_note(spoiled) ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

TEST(Abi, NamesBothVersionsAndWhomToUpgrade) {
  EXPECT_TRUE(check_abi("plugin", GOBLIN_ABI_MAJOR, 0));
  EXPECT_TRUE(check_abi("plugin", GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR));
  const std::string ours =
      std::to_string(GOBLIN_ABI_MAJOR) + "." + std::to_string(GOBLIN_ABI_MINOR);
  for (const auto& [major, minor] :
       {std::pair{GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR + 1}, std::pair{GOBLIN_ABI_MAJOR + 1, 0u}}) {
    const auto newer = check_abi("plugin", major, minor);
    ASSERT_FALSE(newer);
    EXPECT_EQ(newer.error().code, Code::kUnsupported);
    EXPECT_THAT(newer.error().message,
                AllOf(HasSubstr(std::to_string(major) + "." + std::to_string(minor)),
                      HasSubstr(ours), HasSubstr("upgrade GPU Goblin on this machine")));
  }
  const auto older = check_abi("backend", 0, 9);
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().message,
              AllOf(HasSubstr("0.9"), HasSubstr(ours), HasSubstr("build the backend again")));
}

TEST(SealedFile, CannotBeChangedAndIsRecognised) {
  const wire::Bytes bytes(5000, std::byte{7});
  const auto fd = make_sealed_memfd(bytes);
  ASSERT_TRUE(fd);
  EXPECT_TRUE(check_sealed(fd->get()));
  EXPECT_LT(::pwrite(fd->get(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(fd->get(), 10), 0);
  EXPECT_NE(::ftruncate(fd->get(), 10'000), 0);
  const auto map = FileMap::open(fd->get());
  ASSERT_TRUE(map);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), map->bytes().begin(), map->bytes().end()));
  const net::UniqueFd plain(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(check_sealed(plain.get()));
}

TEST(SealedFile, NamesWhatCannotBeRead) {
  const auto missing = make_sealed_memfd_from("/nonexistent/plugin.so");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/plugin.so"));
  const auto directory = make_sealed_memfd_from("/");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Code::kInvalidArgument);
  const auto device = make_sealed_memfd_from("/dev/zero");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace goblin::plugin
