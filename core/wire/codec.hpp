// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How a plain struct becomes one Cap'n Proto segment and back. Included by the .cpp files of
// core/wire only: Cap'n Proto is heavy and stays in this folder.
//
// Each struct has one `visit` that names its fields once, and three passes go over it:
//   Size  counts the words that the message takes, so that the segment is allocated exactly once;
//   Put   writes into that segment, in place;
//   Get   reads, with every length bounded.
// Inside a visit, malformed input is the exception Malformed, as it is a kj::Exception inside Cap'n
// Proto; `decode` turns both into kCorrupt, so neither leaves this folder.
#pragma once

#include <capnp/message.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/wire/bounds.hpp"
#include "core/wire/values.hpp"

namespace goblin::wire::codec {

static_assert(std::endian::native == std::endian::little, "digests are copied as words");

struct Malformed {
  std::string message;
};

/// The schema's struct and the name of a message's type.
template <typename T>
struct Mapping;
template <typename T>
using SchemaOf = typename Mapping<std::remove_cvref_t<T>>::Type;

template <typename Schema>
inline constexpr std::uint64_t kStructWords =
    std::uint64_t{Schema::_capnpPrivate::dataWordSize} + Schema::_capnpPrivate::pointerCount;

/// Where a pass stands, for the message of an error.
struct Place {
  const char* type = "";
  const char* field = "";
};

struct Nothing {};
struct Size {
  static constexpr bool kSize = true, kPut = false, kGet = false;
  template <typename T>
  using Message = const T;
  template <typename Schema>
  using Wire = Nothing;
  std::uint64_t words = 0;
};
struct Put {
  static constexpr bool kSize = false, kPut = true, kGet = false;
  template <typename T>
  using Message = const T;
  template <typename Schema>
  using Wire = typename Schema::Builder;
};
struct Get {
  static constexpr bool kSize = false, kPut = false, kGet = true;
  template <typename T>
  using Message = T;
  template <typename Schema>
  using Wire = typename Schema::Reader;

  /// Words that lists may still take. An item that is a struct takes one at least when written
  /// honestly, so a message has fewer than words; lists of empty structs or aliased ones run out
  /// here.
  std::uint64_t room = 0;
  Place place;

  void at(const char* type, const char* field) { place = {type, field}; }
  [[noreturn]] void refuse(const std::string& what) const;
  /// Refuses a list of more than `limit` items, or one that takes more than the message can hold.
  void list(std::uint64_t count, std::uint64_t limit, std::uint64_t words);
  void length(std::uint64_t bytes, std::uint64_t limit) const;
  void text(capnp::Text::Reader from, std::uint64_t limit, std::string& to) const;
  void range(std::int64_t value, std::int64_t first, std::int64_t last) const;
  void amount(double value) const;
  /// Refuses what TensorSpec::size_bytes refuses; dtype 0 stands for a tensor left out.
  void extents(DType dtype, const std::vector<std::int64_t>& shape) const;
};

/// Words of a text (with its closing NUL) or of data.
inline std::uint64_t text_words(std::size_t bytes) { return bytes == 0 ? 0 : bytes / 8 + 1; }
inline std::uint64_t byte_words(std::size_t bytes) { return (bytes + 7) / 8; }

/// The first kMaxTextBytes of a text for people, not cut within a character.
std::string_view cut_text(std::string_view text);

template <typename T>
constexpr auto number_of(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::underlying_type_t<T>>(value);
  } else {
    return value;
  }
}

[[noreturn]] void encoder_bug(const char* type, std::uint64_t words, const char* what);
Error corrupt(const char* type, std::string what);
Error corrupt(const char* type, const Place& place, const kj::Exception& exception);

template <typename T>
Bytes encode_message(const T& message) {
  using Schema = SchemaOf<T>;
  Size size{1 + kStructWords<Schema>};
  visit(size, message, Nothing{});
  if (size.words > kMaxMessageBytes / 8 * 16)
    encoder_bug(Mapping<T>::kName, size.words, "too long to send: split it over several frames");
  Bytes out(size.words * 8);
  try {
    capnp::FlatMessageBuilder builder(
        kj::arrayPtr(reinterpret_cast<capnp::word*>(out.data()), size.words));
    Put put;
    visit(put, message, builder.initRoot<Schema>());
    builder.requireFilled();
  } catch (const kj::Exception& exception) {
    encoder_bug(Mapping<T>::kName, size.words, exception.getDescription().cStr());
  }
  return out;
}

template <typename T>
Result<T> decode_message(ByteView bytes) {
  constexpr const char* kName = Mapping<T>::kName;
  if (bytes.empty() || bytes.size() % 8 != 0 || bytes.size() > kMaxMessageBytes)
    return fail(corrupt(kName, "message of " + std::to_string(bytes.size()) +
                                   " bytes; a multiple of 8 from 8 to " +
                                   std::to_string(kMaxMessageBytes) + " was expected"));
  const std::size_t words = bytes.size() / 8;
  std::vector<std::uint64_t> aligned;
  const void* data = bytes.data();
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(std::uint64_t) != 0) {
    aligned.resize(words);
    std::memcpy(aligned.data(), data, bytes.size());
    data = aligned.data();
  }
  const kj::ArrayPtr<const capnp::word> segment(static_cast<const capnp::word*>(data), words);
  capnp::ReaderOptions options;
  options.traversalLimitInWords = std::max<std::uint64_t>(64, words * 4);
  options.nestingLimit = 16;
  Get get{.room = words};
  try {
    capnp::SegmentArrayMessageReader reader(kj::arrayPtr(&segment, 1), options);
    T message;
    visit(get, message, reader.getRoot<SchemaOf<T>>());
    return message;
  } catch (const Malformed& malformed) {
    return fail(corrupt(kName, malformed.message));
  } catch (const kj::Exception& exception) {
    return fail(corrupt(kName, get.place, exception));
  }
}

}  // namespace goblin::wire::codec

/// GOBLIN_WIRE_STRUCT(Lease) { fields… }: the visit of a message's type, whose schema's struct has
/// the same name, or is given. In the body `m` is the message, `s` the schema's struct, and each
/// line names a member and the schema's field, which differ in case only.
#define GOBLIN_WIRE_STRUCT_AS(T, S)                                                               \
  template <>                                                                                     \
  struct Mapping<T> {                                                                             \
    using Type = schema::S;                                                                       \
    static constexpr const char* kName = #T;                                                      \
  };                                                                                              \
  template <typename Pass>                                                                        \
  void visit([[maybe_unused]] Pass& pass, [[maybe_unused]] typename Pass::template Message<T>& m, \
             [[maybe_unused]] typename Pass::template Wire<schema::S> s)
#define GOBLIN_WIRE_STRUCT(T) GOBLIN_WIRE_STRUCT_AS(T, T)

#define GOBLIN_AT(member) pass.at(Mapping<std::remove_cvref_t<decltype(m)>>::kName, #member)

/// An integer or a bool, any value.
#define GOBLIN_NUMBER(member, Name)                     \
  do {                                                  \
    if constexpr (Pass::kPut) s.set##Name(m.member);    \
    if constexpr (Pass::kGet) m.member = s.get##Name(); \
  } while (false)

/// A number of at most `most`.
#define GOBLIN_AT_MOST(member, Name, most)                                                      \
  do {                                                                                          \
    if constexpr (Pass::kPut) s.set##Name(m.member);                                            \
    if constexpr (Pass::kGet) {                                                                 \
      GOBLIN_AT(member);                                                                        \
      pass.range(static_cast<std::int64_t>(s.get##Name()), 0, static_cast<std::int64_t>(most)); \
      m.member = s.get##Name();                                                                 \
    }                                                                                           \
  } while (false)

/// An enumerator or a closed number from `first` to `last`.
#define GOBLIN_ENUM(member, Name, first, last)                                            \
  do {                                                                                    \
    if constexpr (Pass::kPut) s.set##Name(number_of(m.member));                           \
    if constexpr (Pass::kGet) {                                                           \
      GOBLIN_AT(member);                                                                  \
      pass.range(s.get##Name(), number_of(first), number_of(last));                       \
      m.member = static_cast<std::remove_reference_t<decltype(m.member)>>(s.get##Name()); \
    }                                                                                     \
  } while (false)
#define GOBLIN_STATUS(member, Name) GOBLIN_ENUM(member, Name, GOBLIN_OK, GOBLIN_INTERNAL)
#define GOBLIN_DTYPE(member, Name, first) GOBLIN_ENUM(member, Name, first, GOBLIN_C128)

/// A finite number that is not negative.
#define GOBLIN_AMOUNT(member, Name)                  \
  do {                                               \
    if constexpr (Pass::kPut) s.set##Name(m.member); \
    if constexpr (Pass::kGet) {                      \
      GOBLIN_AT(member);                             \
      pass.amount(s.get##Name());                    \
      m.member = s.get##Name();                      \
    }                                                \
  } while (false)

#define GOBLIN_TEXT_OF(member, Name, limit, value)                                         \
  do {                                                                                     \
    if constexpr (Pass::kSize) pass.words += text_words((value).size());                   \
    if constexpr (Pass::kPut) {                                                            \
      const std::string_view text = value;                                                 \
      if (!text.empty())                                                                   \
        std::memcpy(s.init##Name(static_cast<unsigned>(text.size())).begin(), text.data(), \
                    text.size());                                                          \
    }                                                                                      \
    if constexpr (Pass::kGet) {                                                            \
      GOBLIN_AT(member);                                                                   \
      if (s.has##Name()) pass.text(s.get##Name(), limit, m.member);                        \
    }                                                                                      \
  } while (false)
#define GOBLIN_TEXT(member, Name, limit) GOBLIN_TEXT_OF(member, Name, limit, m.member)
/// A text for people on this machine: cut rather than refused.
#define GOBLIN_MESSAGE(member, Name) GOBLIN_TEXT_OF(member, Name, kMaxTextBytes, cut_text(m.member))

/// A struct in its own place.
#define GOBLIN_STRUCT(member, Name)                                  \
  do {                                                               \
    if constexpr (Pass::kSize) {                                     \
      pass.words += kStructWords<SchemaOf<decltype(m.member)>>;      \
      visit(pass, m.member, Nothing{});                              \
    }                                                                \
    if constexpr (Pass::kPut) visit(pass, m.member, s.init##Name()); \
    if constexpr (Pass::kGet) {                                      \
      GOBLIN_AT(member);                                             \
      visit(pass, m.member, s.get##Name());                          \
    }                                                                \
  } while (false)

/// A list of structs.
#define GOBLIN_LIST(member, Name, limit)                                                   \
  do {                                                                                     \
    if constexpr (Pass::kSize) {                                                           \
      using Item = SchemaOf<typename std::remove_cvref_t<decltype(m.member)>::value_type>; \
      if (!m.member.empty()) pass.words += 1 + m.member.size() * kStructWords<Item>;       \
      for (const auto& item : m.member) visit(pass, item, Nothing{});                      \
    }                                                                                      \
    if constexpr (Pass::kPut) {                                                            \
      if (!m.member.empty()) {                                                             \
        auto list = s.init##Name(static_cast<unsigned>(m.member.size()));                  \
        unsigned index = 0;                                                                \
        for (const auto& item : m.member) visit(pass, item, list[index++]);                \
      }                                                                                    \
    }                                                                                      \
    if constexpr (Pass::kGet) {                                                            \
      GOBLIN_AT(member);                                                                   \
      if (s.has##Name()) {                                                                 \
        const auto list = s.get##Name();                                                   \
        pass.list(list.size(), limit, list.size());                                        \
        m.member.resize(list.size());                                                      \
        unsigned index = 0;                                                                \
        for (auto& item : m.member) visit(pass, item, list[index++]);                      \
      }                                                                                    \
    }                                                                                      \
  } while (false)

/// A list of integers.
#define GOBLIN_NUMBERS(member, Name, limit)                                                     \
  do {                                                                                          \
    if constexpr (Pass::kSize) pass.words += byte_words(m.member.size() * sizeof(m.member[0])); \
    if constexpr (Pass::kPut) {                                                                 \
      if (!m.member.empty()) {                                                                  \
        auto list = s.init##Name(static_cast<unsigned>(m.member.size()));                       \
        unsigned index = 0;                                                                     \
        for (const auto item : m.member) list.set(index++, item);                               \
      }                                                                                         \
    }                                                                                           \
    if constexpr (Pass::kGet) {                                                                 \
      GOBLIN_AT(member);                                                                        \
      if (s.has##Name()) {                                                                      \
        const auto list = s.get##Name();                                                        \
        pass.list(list.size(), limit,                                                           \
                  byte_words(std::uint64_t{list.size()} * sizeof(m.member[0])));                \
        m.member.resize(list.size());                                                           \
        unsigned index = 0;                                                                     \
        for (auto& item : m.member) item = list[index++];                                       \
      }                                                                                         \
    }                                                                                           \
  } while (false)

/// An optional run of bytes.
#define GOBLIN_DATA(member, Name, limit, present, bytes)                                 \
  do {                                                                                   \
    if constexpr (Pass::kSize)                                                           \
      if (present) pass.words += byte_words((bytes).size());                             \
    if constexpr (Pass::kPut)                                                            \
      if (present) {                                                                     \
        auto data = s.init##Name(static_cast<unsigned>((bytes).size()));                 \
        if (!(bytes).empty()) std::memcpy(data.begin(), (bytes).data(), (bytes).size()); \
      }                                                                                  \
    if constexpr (Pass::kGet) {                                                          \
      GOBLIN_AT(member);                                                                 \
      if (s.has##Name()) {                                                               \
        const auto data = s.get##Name();                                                 \
        pass.length(data.size(), limit);                                                 \
        const auto* first = reinterpret_cast<const std::byte*>(data.begin());            \
        m.member = Bytes(first, first + data.size());                                    \
      }                                                                                  \
    }                                                                                    \
  } while (false)

/// A variant's case that is a struct in the schema's union `body`.
#define GOBLIN_CASE(T, Name)                                                \
  do {                                                                      \
    if constexpr (Pass::kGet) {                                             \
      if (s.getBody().is##Name()) {                                         \
        pass.at(Mapping<std::remove_cvref_t<decltype(m)>>::kName, "body");  \
        visit(pass, m.body.template emplace<T>(), s.getBody().get##Name()); \
        return;                                                             \
      }                                                                     \
    } else if (const auto* body = std::get_if<T>(&m.body)) {                \
      if constexpr (Pass::kSize) {                                          \
        pass.words += kStructWords<SchemaOf<T>>;                            \
        visit(pass, *body, Nothing{});                                      \
      } else {                                                              \
        visit(pass, *body, s.getBody().init##Name());                       \
      }                                                                     \
      return;                                                               \
    }                                                                       \
  } while (false)
/// A case that says nothing more.
#define GOBLIN_CASE_EMPTY(T, Name)                       \
  do {                                                   \
    if constexpr (Pass::kGet) {                          \
      if (s.getBody().is##Name()) {                      \
        m.body.template emplace<T>();                    \
        return;                                          \
      }                                                  \
    } else if (std::holds_alternative<T>(m.body)) {      \
      if constexpr (Pass::kPut) s.getBody().set##Name(); \
      return;                                            \
    }                                                    \
  } while (false)

/// Ends the cases: a union that holds something newer is refused.
#define GOBLIN_NO_OTHER_CASE()                                                           \
  do {                                                                                   \
    if constexpr (Pass::kGet) {                                                          \
      GOBLIN_AT(body);                                                                   \
      pass.refuse("case " + std::to_string(static_cast<unsigned>(s.getBody().which())) + \
                  " is not known to this release");                                      \
    }                                                                                    \
  } while (false)

/// Defines what GOBLIN_WIRE_DECLARE declares.
#define GOBLIN_WIRE_DEFINE(Type, name)                                         \
  Bytes encode(const Type& message) { return codec::encode_message(message); } \
  Result<Type> decode_##name(ByteView bytes) { return codec::decode_message<Type>(bytes); }
