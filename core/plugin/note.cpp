// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/note.hpp"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "goblin/abi/plugin.h"

namespace goblin::plugin {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "a processor that GPU Goblin does not know"
#endif

// More than any linker makes, few enough to look at each.
constexpr std::uint16_t kMaxHeaders = 4096;

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(Code::kCorrupt, "the plugin's file is damaged: " + what + "; fetch it again");
}

/// A struct at `offset`, if all of it lies in the file. Copied, since a file aligns nothing.
template <typename T>
std::optional<T> read_at(wire::ByteView file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

bool inside(wire::ByteView file, std::uint64_t offset, std::uint64_t size) {
  return offset <= file.size() && size <= file.size() - offset;
}

Result<Elf64_Ehdr> read_header(wire::ByteView file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    return fail(Code::kCorrupt,
                "the plugin's file (" + std::to_string(file.size()) +
                    " bytes) is no ELF shared library; give the .so that goblin_add_plugin built");
  }
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != kMachine) {
    return fail(Code::kUnsupported, "the plugin was built for another processor (ELF machine " +
                                        std::to_string(header->e_machine) + "; this one is " +
                                        std::to_string(kMachine) + "); build it for this one");
  }
  if (header->e_type != ET_DYN) {
    return corrupt("it is no shared library (ELF type " + std::to_string(header->e_type) + ")");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_phentsize != sizeof(Elf64_Phdr) ||
      header->e_shnum > kMaxHeaders || header->e_phnum > kMaxHeaders) {
    return corrupt("its ELF header has impossible sizes");
  }
  return *header;
}

/// A loader maps what the program headers say and dies when the file ends before.
Result<void> check_segments(wire::ByteView file, const Elf64_Ehdr& header) {
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    if (header.e_phoff > file.size()) {
      return corrupt("it is cut short");
    }
    const auto segment = read_at<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || !inside(file, segment->p_offset, segment->p_filesz)) {
      return corrupt("it is cut short at " + std::to_string(file.size()) + " bytes");
    }
  }
  return {};
}

Result<goblin_plugin_note_v1> find_note(wire::ByteView file, const Elf64_Ehdr& header) {
  auto section_at = [&](std::uint64_t i) -> std::optional<Elf64_Shdr> {
    if (header.e_shoff > file.size()) {
      return std::nullopt;
    }
    return read_at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto names = section_at(header.e_shstrndx);
  if (header.e_shnum != 0 && (header.e_shstrndx >= header.e_shnum || !names ||
                              !inside(file, names->sh_offset, names->sh_size))) {
    return corrupt("its section names are not in the file, which has " +
                   std::to_string(file.size()) + " bytes");
  }
  constexpr std::string_view kWanted(GOBLIN_NOTE_SECTION);
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section) {
      return corrupt("it is cut short at " + std::to_string(file.size()) + " bytes");
    }
    // One byte more than the name: its NUL.
    if (section->sh_name >= names->sh_size ||
        names->sh_size - section->sh_name < kWanted.size() + 1 ||
        std::memcmp(file.data() + names->sh_offset + section->sh_name, kWanted.data(),
                    kWanted.size() + 1) != 0) {
      continue;
    }
    if (section->sh_type == SHT_NOBITS || section->sh_size < sizeof(goblin_plugin_note_v1) ||
        !inside(file, section->sh_offset, section->sh_size)) {
      return corrupt("its section .goblin.note is too short or leaves the file");
    }
    return *read_at<goblin_plugin_note_v1>(file, section->sh_offset);
  }
  return fail(Code::kInvalidArgument,
              "the library has no section .goblin.note, so it is no GPU Goblin plugin; write "
              "GOBLIN_PLUGIN(YourKind) in one of its sources");
}

}  // namespace

bool is_kind_name(std::string_view name) {
  return !name.empty() && name.size() < sizeof(goblin_note_kind_v1::name) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

Result<KindId> KindId::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  KindId id;
  if (slash != std::string_view::npos) {
    id.name = text.substr(0, slash);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, id.version);
    if (error != std::errc() || stop != end) {
      id.version = 0;
    }
  }
  if (!is_kind_name(id.name) || id.version == 0) {
    return fail(Code::kInvalidArgument, "'" + std::string(text.substr(0, 80)) +
                                            "' names no kind: expected a name and a version, such "
                                            "as matmul/1");
  }
  return id;
}

Result<PluginNote> read_note(wire::ByteView file) {
  GOBLIN_TRY(const Elf64_Ehdr header, read_header(file));
  GOBLIN_TRY_VOID(check_segments(file, header));
  GOBLIN_TRY(const goblin_plugin_note_v1 raw, find_note(file, header));
  if (raw.magic != GOBLIN_NOTE_MAGIC) {
    return corrupt("its note does not begin with GOBLIN01");
  }
  PluginNote note{raw.abi_major, raw.abi_minor, {}};
  if (raw.kind_count == 0 || raw.kind_count > GOBLIN_NOTE_MAX_KINDS) {
    return fail(Code::kInvalidArgument,
                "the plugin's note lists " + std::to_string(raw.kind_count) + " kinds; 1 to " +
                    std::to_string(GOBLIN_NOTE_MAX_KINDS) + " are possible");
  }
  for (std::uint32_t i = 0; i < raw.kind_count; ++i) {
    const goblin_note_kind_v1& kind = raw.kinds[i];
    const KindId id{std::string(kind.name, strnlen(kind.name, sizeof kind.name)), kind.version};
    if (!is_kind_name(id.name) || id.version == 0) {
      return fail(Code::kInvalidArgument,
                  "kind " + std::to_string(i) +
                      " of the plugin's note has no proper name or version: lower case letters, "
                      "digits and '-', at most 63 bytes, and a version from 1");
    }
    if (std::find(note.kinds.begin(), note.kinds.end(), id) != note.kinds.end()) {
      return fail(Code::kInvalidArgument, "the plugin holds the kind " + id.text() +
                                              " twice; give one of them another name or version");
    }
    note.kinds.push_back(id);
  }
  return note;
}

Result<void> check_abi(std::string_view what, std::uint32_t major, std::uint32_t minor) {
  if (major == GOBLIN_ABI_MAJOR && minor <= GOBLIN_ABI_MINOR) {
    return {};
  }
  const std::string name(what);
  const bool newer = major > GOBLIN_ABI_MAJOR || major == GOBLIN_ABI_MAJOR;
  return fail(Code::kUnsupported, "the " + name + " was built for ABI " + std::to_string(major) +
                                      "." + std::to_string(minor) + "; this GPU Goblin has ABI " +
                                      std::to_string(GOBLIN_ABI_MAJOR) + "." +
                                      std::to_string(GOBLIN_ABI_MINOR) + ": " +
                                      (newer ? "upgrade GPU Goblin on this machine"
                                             : "build the " + name + " again with a newer SDK"));
}

}  // namespace goblin::plugin
