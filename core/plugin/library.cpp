// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/library.hpp"

#include <boost/dll/shared_library.hpp>
#include <cstring>

#include "core/plugin/describe.hpp"
#include "core/plugin/sealed_file.hpp"

namespace goblin::plugin {
namespace {

// Sizes of the tables in ABI 1.0: what every 1.x plugin brings at least.
constexpr std::uint64_t kKindSize10 = offsetof(goblin_kind_v1, compare) + sizeof(void*);
constexpr std::uint64_t kPluginSize10 = offsetof(goblin_plugin_v1, kind_count) + sizeof(uint64_t);
constexpr std::uint64_t kBackendSize10 = offsetof(goblin_backend_v1, find_operator) + sizeof(void*);
constexpr std::uint64_t kBackendSize11 = offsetof(goblin_backend_v1, close) + sizeof(void*);
// No table will ever be longer; a larger number is garbage.
constexpr std::uint64_t kMaxTable = 4096;

tl::unexpected<Error> bad_table(const std::string& what) {
  return fail(Code::kInvalidArgument,
              "the plugin's tables are wrong: " + what + "; build it with the SDK's GOBLIN_PLUGIN");
}

/// Opens a library and finds one function in it. The library is never closed.
template <typename Function>
Result<Function> open_entry(const std::string& what, const std::string& path, const char* entry) {
  boost::dll::fs::error_code error;
  // Deliberately leaked: unloading a library whose threads may still run is never safe.
  auto* library = new boost::dll::shared_library;
  library->load(path, error, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (error) {
    delete library;
    return fail(Code::kCorrupt, "cannot load the " + what + ": " + error.message());
  }
  if (!library->has(entry)) {
    return fail(Code::kInvalidArgument, "the " + what + " does not export " + entry +
                                            "; build it with the SDK, which does");
  }
  return &library->get<std::remove_pointer_t<Function>>(entry);
}

/// Required slots, by name.
Result<void> check_slots(const goblin_kind_v1& kind, const std::string& id) {
  const struct {
    const char* name;
    bool present;
  } slots[] = {{"describe", kind.describe != nullptr},
               {"validate", kind.validate != nullptr},
               {"planner_create", kind.planner_create != nullptr},
               {"planner_state", kind.planner_state != nullptr},
               {"planner_next", kind.planner_next != nullptr},
               {"planner_accept", kind.planner_accept != nullptr},
               {"planner_finish", kind.planner_finish != nullptr},
               {"planner_destroy", kind.planner_destroy != nullptr},
               {"execute", kind.execute != nullptr}};
  for (const auto& slot : slots) {
    if (!slot.present) {
      return bad_table("kind " + id + " has no " + slot.name);
    }
  }
  return {};
}

/// Size and required slots; kInvalidArgument says what is wrong with them.
Result<void> check_backend_table(const goblin_backend_v1& table, const std::string& what) {
  if (table.struct_size < kBackendSize10 || table.struct_size > kMaxTable) {
    return fail(Code::kInvalidArgument, what + " of " + std::to_string(table.struct_size) +
                                            " bytes, expected " + std::to_string(kBackendSize10) +
                                            " to " + std::to_string(kMaxTable) +
                                            "; build it with the SDK's headers");
  }
  const struct {
    const char* name;
    bool present;
  } slots[] = {{"name", table.name != nullptr},
               {"device_count", table.device_count != nullptr},
               {"describe_device", table.describe_device != nullptr},
               {"operator_count", table.operator_count != nullptr},
               {"operator_at", table.operator_at != nullptr},
               {"find_operator", table.find_operator != nullptr}};
  for (const auto& slot : slots) {
    if (!slot.present) {
      return fail(Code::kInvalidArgument, what + " without " + slot.name);
    }
  }
  return {};
}

/// Older backends end before these slots; those that keep nothing leave them empty.
bool can_be_opened(const goblin_backend_v1& table) {
  return table.struct_size >= kBackendSize11 && table.open != nullptr && table.close != nullptr;
}

}  // namespace

Result<std::vector<goblin_kind_v1>> check_plugin_table(const goblin_plugin_v1* table,
                                                       const PluginNote& note) {
  if (table == nullptr) {
    return fail(Code::kUnsupported,
                "the plugin says that it cannot work with this GPU Goblin (ABI " +
                    std::to_string(GOBLIN_ABI_MAJOR) + "." + std::to_string(GOBLIN_ABI_MINOR) +
                    "); build it with this version's SDK");
  }
  if (table->struct_size < kPluginSize10 || table->struct_size > kMaxTable) {
    return bad_table("struct_size is " + std::to_string(table->struct_size) + ", expected " +
                     std::to_string(kPluginSize10) + " or more");
  }
  GOBLIN_TRY_VOID(check_abi("plugin", table->abi_major, table->abi_minor));
  if (table->abi_major != note.abi_major || table->abi_minor != note.abi_minor) {
    return bad_table("they are of ABI " + std::to_string(table->abi_major) + "." +
                     std::to_string(table->abi_minor) + ", the note of " +
                     std::to_string(note.abi_major) + "." + std::to_string(note.abi_minor));
  }
  if (table->kinds == nullptr || table->kind_count != note.kinds.size()) {
    return bad_table("they hold " + std::to_string(table->kind_count) + " kinds, the note " +
                     std::to_string(note.kinds.size()));
  }
  std::vector<goblin_kind_v1> kinds;
  for (std::size_t i = 0; i < note.kinds.size(); ++i) {
    const goblin_kind_v1* theirs = table->kinds[i];
    const std::string id = note.kinds[i].text();
    if (theirs == nullptr || theirs->struct_size < kKindSize10 || theirs->struct_size > kMaxTable) {
      return bad_table("kind " + id + " has no table, or one of an impossible size");
    }
    goblin_kind_v1 ours{};
    std::memcpy(&ours, theirs, std::min<std::uint64_t>(theirs->struct_size, sizeof ours));
    if (ours.name == nullptr || ours.name != note.kinds[i].name ||
        ours.version != note.kinds[i].version) {
      return bad_table("kind " + std::to_string(i) + " is not " + id + ", which the note says");
    }
    GOBLIN_TRY_VOID(check_slots(ours, id));
    kinds.push_back(ours);
  }
  return kinds;
}

Result<PluginLibrary> PluginLibrary::load(int sealed_fd) {
  GOBLIN_TRY_VOID(check_sealed(sealed_fd));
  PluginNote note;
  {
    GOBLIN_TRY(const FileMap file, FileMap::open(sealed_fd));
    GOBLIN_TRY(note, read_note(file.bytes()));
  }
  GOBLIN_TRY_VOID(check_abi("plugin", note.abi_major, note.abi_minor));
  GOBLIN_TRY(const auto entry,
             open_entry<goblin_plugin_entry_fn_v1>(
                 "plugin", "/proc/self/fd/" + std::to_string(sealed_fd), GOBLIN_PLUGIN_ENTRY_V1));
  const goblin_host_v1 host{sizeof host, GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR};
  PluginLibrary library;
  GOBLIN_TRY(library.kinds_, check_plugin_table(entry(&host), note));
  for (const goblin_kind_v1& kind : library.kinds_) {
    GOBLIN_TRY(wire::KindDescription description, describe(kind));
    library.descriptions_.push_back(std::move(description));
  }
  return library;
}

void BackendLibrary::Close::operator()(const goblin_backend_v1* table) const {
  if (close != nullptr) close(table);
}

Result<BackendLibrary> BackendLibrary::load(const std::string& path, const std::string& device) {
  GOBLIN_TRY(const auto entry, open_entry<goblin_backend_entry_fn_v1>("backend " + path, path,
                                                                      GOBLIN_BACKEND_ENTRY_V1));
  const goblin_backend_v1* table = entry();
  if (table == nullptr) {
    return fail(Code::kUnsupported,
                "this machine cannot run the backend " + path + "; choose another backend");
  }
  GOBLIN_TRY_VOID(check_abi("backend", table->abi_major, table->abi_minor));
  GOBLIN_TRY_VOID(check_backend_table(*table, "the backend " + path + " has a table"));
  BackendLibrary backend;
  if (can_be_opened(*table)) {
    char words[256] = "";
    goblin_text_v1 message{words, sizeof words};
    const goblin_backend_v1* opened = nullptr;
    const goblin_status_v1 status = table->open(table, &opened, &message);
    if (status != GOBLIN_OK || opened == nullptr) {
      return fail(status == GOBLIN_OK ? Code::kInternal : code_from_status(status),
                  "the backend " + path + " could not be opened: " +
                      (words[0] != '\0' ? words : "it does not say why"));
    }
    backend.table_ = {opened, Close{table->close}};
    GOBLIN_TRY_VOID(check_backend_table(*opened, "the backend " + path + " opens a table"));
    table = opened;
  } else {
    backend.table_.reset(table);
  }
  std::string known;
  const std::uint64_t count = table->device_count(table);
  for (std::uint64_t i = 0; i < count; ++i) {
    goblin_device_v1 info{};
    info.struct_size = sizeof info;
    if (table->describe_device(table, i, &info) != GOBLIN_OK) {
      continue;
    }
    const std::string name(info.name, strnlen(info.name, sizeof info.name));
    known += (known.empty() ? "" : ", ") + name;
    if (device.empty() || device == name) {
      backend.device_index_ = static_cast<std::uint32_t>(i);
      backend.device_name_ = name;
      return backend;
    }
  }
  return fail(Code::kNotFound,
              "backend '" + std::string(table->name) + "' has no device '" + device +
                  "' on this machine; it has: " + (known.empty() ? "none" : known));
}

}  // namespace goblin::plugin
