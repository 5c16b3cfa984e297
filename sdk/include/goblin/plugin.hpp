// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// GOBLIN_PLUGIN(MyKind): from classes to the C tables of abi/plugin.h. Every call catches what is
// thrown, because nothing but C may cross that edge.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "goblin/abi/plugin.h"
#include "goblin/kind.hpp"

namespace goblin::detail {

inline goblin_status_v1 answer(Code code, std::string_view text, goblin_text_v1* message) noexcept {
  if (message != nullptr && message->data != nullptr && message->capacity > 0) {
    const std::size_t n = std::min<std::size_t>(text.size(), message->capacity - 1);
    std::memcpy(message->data, text.data(), n);
    message->data[n] = '\0';
  }
  return static_cast<goblin_status_v1>(code);
}

/// Runs `body` (→ Result<void>) and turns whatever comes of it into a status and a message.
template <typename Body>
goblin_status_v1 guard(goblin_text_v1* message, Body&& body) noexcept {
  try {
    const Result<void> result = body();
    return result ? GOBLIN_OK : answer(result.error().code, result.error().message, message);
  } catch (const Failure& failure) {
    return answer(failure.error().code, failure.error().message, message);
  } catch (const std::bad_alloc&) {
    return answer(Code::kExhausted, "out of memory: offer more, or make the task smaller", message);
  } catch (const std::exception& exception) {
    return answer(Code::kInternal, exception.what(), message);
  } catch (...) {
    return answer(Code::kInternal, "the plugin threw something that is no std::exception", message);
  }
}

inline std::vector<Tensor> tensors(const goblin_tensor_v1* data, std::uint64_t count) {
  std::vector<Tensor> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) out.emplace_back(data[i]);
  return out;
}

/// A planner with the bytes that planner_state points to.
struct PlannerBox {
  std::unique_ptr<Planner> planner;
  std::vector<std::byte> state;
};

/// The table of one kind; `K` is made once, when the plugin is entered.
template <typename K>
class KindTable {
  static_assert(std::is_base_of_v<Kind, K>, "GOBLIN_PLUGIN takes classes derived of goblin::Kind");

 public:
  KindTable() : table_{} {
    table_.struct_size = sizeof table_;
    table_.name = K::kName;
    table_.version = K::kVersion;
    table_.self = this;
    table_.describe = [](void* self) { return of(self).describe(); };
    table_.validate = validate;
    table_.planner_create = planner_create;
    table_.planner_state = [](void* planner, const void** state, std::uint64_t* size) {
      const auto& bytes = static_cast<PlannerBox*>(planner)->state;
      *state = bytes.data();
      *size = bytes.size();
      return static_cast<goblin_status_v1>(GOBLIN_OK);
    };
    table_.planner_next = planner_next;
    table_.planner_accept = planner_accept;
    table_.planner_recall = planner_recall;
    table_.planner_finish = [](void* planner, goblin_text_v1* message) {
      return guard(message, [&] { return static_cast<PlannerBox*>(planner)->planner->finish(); });
    };
    table_.planner_destroy = [](void* planner) { delete static_cast<PlannerBox*>(planner); };
    table_.execute = execute;
    table_.check = check;
    table_.compare = compare;
  }
  KindTable(const KindTable&) = delete;
  KindTable& operator=(const KindTable&) = delete;
  [[nodiscard]] const goblin_kind_v1* table() const { return &table_; }

 private:
  static KindTable& of(void* self) { return *static_cast<KindTable*>(self); }

  const goblin_description_v1* describe() noexcept {
    try {
      if (!description_) {
        description_.emplace(kind_.describe());
        description_table_ = description_->table();
      }
      return &description_table_;
    } catch (...) {
      return nullptr;
    }
  }

  static goblin_status_v1 validate(void* self, const goblin_job_v1* job, goblin_tensor_v1* outputs,
                                   goblin_estimate_v1* estimate, goblin_text_v1* message) {
    return guard(message, [&]() -> Result<void> {
      GOBLIN_TRY(const Validated validated, of(self).kind_.validate(Job(*job)));
      const goblin_description_v1* described = of(self).describe();
      if (described == nullptr || validated.outputs.size() != described->output_count) {
        return fail(Code::kInternal, "validate gives " + std::to_string(validated.outputs.size()) +
                                         " outputs; the description says otherwise");
      }
      for (std::size_t i = 0; i < validated.outputs.size(); ++i) {
        outputs[i] = Tensor(validated.outputs[i]).raw();
      }
      estimate->flops = validated.flops;
      estimate->bytes = validated.bytes;
      estimate->min_task_bytes = validated.min_task_bytes;
      return {};
    });
  }

  static goblin_status_v1 planner_create(void* self, const goblin_job_v1* job,
                                         const goblin_capacity_v1* capacity,
                                         const goblin_planner_services_v1* services,
                                         const void* state, std::uint64_t state_size,
                                         void** planner, goblin_text_v1* message) {
    return guard(message, [&]() -> Result<void> {
      std::optional<std::span<const std::byte>> bytes;
      if (state != nullptr) bytes.emplace(static_cast<const std::byte*>(state), state_size);
      auto box = std::make_unique<PlannerBox>();
      GOBLIN_TRY(box->planner, of(self).kind_.make_planner(Job(*job), Capacity(*capacity),
                                                           Services(*services), bytes));
      if (!box->planner) return fail(Code::kInternal, "make_planner gave no planner");
      box->state = box->planner->state();
      *planner = box.release();
      return {};
    });
  }

  static goblin_status_v1 planner_next(void* planner, const goblin_capacity_v1* capacity,
                                       const goblin_task_sink_v1* sink, std::uint32_t* progress,
                                       goblin_text_v1* message) {
    return guard(message, [&]() -> Result<void> {
      TaskSink tasks(*sink);
      GOBLIN_TRY(const Progress made,
                 static_cast<PlannerBox*>(planner)->planner->next(Capacity(*capacity), tasks));
      *progress = static_cast<std::uint32_t>(made);
      return {};
    });
  }

  static goblin_status_v1 planner_accept(void* planner, const goblin_planned_task_v1* planned,
                                         const goblin_tensor_v1* outputs, std::uint64_t count,
                                         std::uint32_t* disposition, goblin_text_v1* message) {
    return guard(message, [&]() -> Result<void> {
      Planner& impl = *static_cast<PlannerBox*>(planner)->planner;
      *disposition = GOBLIN_ACCEPT_MERGED;
      if (outputs == nullptr) return impl.restore(PlannedTask(*planned));
      GOBLIN_TRY(const Disposition done,
                 impl.accept(PlannedTask(*planned), tensors(outputs, count)));
      *disposition = static_cast<std::uint32_t>(done);
      return {};
    });
  }

  static goblin_status_v1 planner_recall(void* planner, const goblin_planned_task_v1* planned,
                                         const goblin_tensor_v1* outputs, std::uint64_t count,
                                         goblin_text_v1* message) {
    return guard(message, [&] {
      return static_cast<PlannerBox*>(planner)->planner->recall(PlannedTask(*planned),
                                                                tensors(outputs, count));
    });
  }

  static goblin_status_v1 execute(void* self, const goblin_task_v1* task,
                                  const goblin_backend_v1* backend, const goblin_exec_v1* exec,
                                  goblin_text_v1* message) {
    return guard(message,
                 [&] { return of(self).kind_.execute(Task(*task), Device(*backend, *exec)); });
  }

  static goblin_status_v1 check(void* self, const goblin_task_v1* task,
                                const goblin_backend_v1* backend, const goblin_exec_v1* exec,
                                const std::uint8_t seed[32], std::uint32_t* verdict,
                                goblin_text_v1* message) {
    return guard(message, [&]() -> Result<void> {
      GOBLIN_TRY(const Verdict said, of(self).kind_.check(Task(*task), Device(*backend, *exec),
                                                          Seed(seed, std::size_t{32})));
      *verdict = static_cast<std::uint32_t>(said);
      return {};
    });
  }

  static goblin_status_v1 compare(void* self, const goblin_task_v1* canonical,
                                  const goblin_tensor_v1* other, std::uint64_t count,
                                  std::uint32_t* verdict, goblin_text_v1* message) {
    return guard(message, [&]() -> Result<void> {
      GOBLIN_TRY(const Verdict said,
                 of(self).kind_.compare(Task(*canonical), tensors(other, count)));
      *verdict = static_cast<std::uint32_t>(said);
      return {};
    });
  }

  K kind_;
  std::optional<Description> description_;
  goblin_description_v1 description_table_{};
  goblin_kind_v1 table_;
};

template <typename... Kinds>
struct PluginTable {
  std::tuple<KindTable<Kinds>...> tables;
  const goblin_kind_v1* kinds[sizeof...(Kinds)];
  goblin_plugin_v1 plugin;

  PluginTable() {
    std::size_t n = 0;
    std::apply([&](auto&... table) { ((kinds[n++] = table.table()), ...); }, tables);
    plugin = {sizeof plugin, GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR, kinds, sizeof...(Kinds)};
  }
  PluginTable(const PluginTable&) = delete;
  PluginTable& operator=(const PluginTable&) = delete;
};

template <typename... Kinds>
const goblin_plugin_v1* enter(const goblin_host_v1* host) noexcept {
  if (host == nullptr || host->abi_major != GOBLIN_ABI_MAJOR) return nullptr;
  try {
    static const PluginTable<Kinds...> table;
    return &table.plugin;
  } catch (...) {
    return nullptr;
  }
}

template <typename K>
consteval goblin_note_kind_v1 note_kind() {
  goblin_note_kind_v1 note{};
  const std::string_view name = K::kName;
  if (name.empty() || name.size() >= sizeof note.name) throw "kName: 1 to 63 bytes";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) {
      throw "kName: lower case letters, digits and '-' only";
    }
    note.name[i] = c;
  }
  if (K::kVersion == 0) throw "kVersion starts from 1";
  note.version = K::kVersion;
  return note;
}

template <typename... Kinds>
consteval goblin_plugin_note_v1 note() {
  static_assert(sizeof...(Kinds) >= 1 && sizeof...(Kinds) <= GOBLIN_NOTE_MAX_KINDS);
  goblin_plugin_note_v1 out{};
  out.magic = GOBLIN_NOTE_MAGIC;
  out.abi_major = GOBLIN_ABI_MAJOR;
  out.abi_minor = GOBLIN_ABI_MINOR;
  out.kind_count = sizeof...(Kinds);
  std::size_t n = 0;
  ((out.kinds[n++] = note_kind<Kinds>()), ...);
  return out;
}

}  // namespace goblin::detail

/// Once per plugin, at namespace scope: GOBLIN_PLUGIN(MyKind) or GOBLIN_PLUGIN(A, B).
#define GOBLIN_PLUGIN(...)                                                                    \
  extern "C" {                                                                                \
  __attribute__((                                                                             \
      section(GOBLIN_NOTE_SECTION), used,                                                     \
      visibility("hidden"))) extern const goblin_plugin_note_v1 goblin_plugin_note_instance = \
      ::goblin::detail::note<__VA_ARGS__>();                                                  \
  __attribute__((visibility("default"))) const goblin_plugin_v1* goblin_plugin_entry_v1(      \
      const goblin_host_v1* host) {                                                           \
    return ::goblin::detail::enter<__VA_ARGS__>(host);                                        \
  }                                                                                           \
  }                                                                                           \
  static_assert(true, "a semicolon may follow")
