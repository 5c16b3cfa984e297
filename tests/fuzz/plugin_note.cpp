// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A plugin's file before anybody loads it: its ELF headers and its note.
#include <elf.h>

#include <cstring>
#include <set>

#include "core/plugin/note.hpp"
#include "goblin/abi/plugin.h"
#include "tests/fuzz/guarded.hpp"

namespace goblin::fuzz {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#else
constexpr std::uint16_t kMachine = EM_AARCH64;
#endif

void run(ByteView input) {
  for (const Against edge : {Against::kEnd, Against::kStart}) {
    const auto note = plugin::read_note(guarded(input, edge));
    if (!note) {
      expect(!note.error().message.empty(), "a refusal says why");
      continue;
    }
    expect(!note->kinds.empty() && note->kinds.size() <= GOBLIN_NOTE_MAX_KINDS,
           "a plugin has from 1 to 16 kinds");
    std::set<plugin::KindId> seen;
    for (const plugin::KindId& kind : note->kinds) {
      expect(plugin::is_kind_name(kind.name) && kind.version >= 1, "kinds have proper names");
      expect(seen.insert(kind).second, "no kind stands twice");
      const auto parsed = plugin::KindId::parse(kind.text());
      expect(parsed && *parsed == kind, "a kind's text is read as that kind");
    }
  }
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  if (const auto id = plugin::KindId::parse(text)) {
    expect(plugin::is_kind_name(id->name), "a name that parses is one");
  }
}

/// The smallest file that has a note: header, one segment, sections, their names, the note.
Bytes library(std::uint32_t kinds) {
  constexpr std::string_view kNames("\0.goblin.note\0.shstrtab\0", 24);
  goblin_plugin_note_v1 note{};
  note.magic = GOBLIN_NOTE_MAGIC;
  note.abi_major = 1;
  note.kind_count = kinds;
  for (std::uint32_t i = 0; i < kinds && i < GOBLIN_NOTE_MAX_KINDS; ++i) {
    std::memcpy(note.kinds[i].name, "matmul", 6);
    note.kinds[i].version = i + 1;
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = kMachine;
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  const std::uint64_t note_at = sizeof header + sizeof(Elf64_Phdr);
  const std::uint64_t names_at = note_at + sizeof note;
  header.e_shoff = names_at + kNames.size();
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_filesz = names_at;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = note_at;
  sections[1].sh_size = sizeof note;
  sections[2].sh_name = 14;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = names_at;
  sections[2].sh_size = kNames.size();
  return Script()
      .bytes(std::as_bytes(std::span(&header, 1)))
      .bytes(std::as_bytes(std::span(&segment, 1)))
      .bytes(std::as_bytes(std::span(&note, 1)))
      .text(kNames)
      .bytes(std::as_bytes(std::span(sections)))
      .take();
}

std::vector<Bytes> seeds() {
  return {library(1),
          library(3),
          library(GOBLIN_NOTE_MAX_KINDS),
          library(0),
          library(4'000'000'000),
          Script().text("matmul/1").take()};
}

}  // namespace

Target plugin_note_target() { return {"plugin_note", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
