// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/codec.hpp"

#include <cstdio>
#include <cstdlib>

namespace goblin::wire::codec {

void Get::refuse(const std::string& what) const {
  throw Malformed{std::string(place.type) + "." + place.field + ": " + what};
}

void Get::list(std::uint64_t count, std::uint64_t limit, std::uint64_t words) {
  if (count > limit)
    refuse("list of " + std::to_string(count) + " items, at most " + std::to_string(limit) +
           " may stand here");
  if (words > room)
    refuse("list of " + std::to_string(count) + " items, more than the message has room for");
  room -= words;
}

void Get::length(std::uint64_t bytes, std::uint64_t limit) const {
  if (bytes > limit)
    refuse(std::to_string(bytes) + " bytes, at most " + std::to_string(limit) + " may stand here");
}

void Get::text(capnp::Text::Reader from, std::uint64_t limit, std::string& to) const {
  length(from.size(), limit);
  // A NUL would make a path mean one thing here and another to the kernel.
  if (std::memchr(from.begin(), 0, from.size()) != nullptr) refuse("text with a NUL inside");
  to.assign(from.begin(), from.size());
}

void Get::range(std::int64_t value, std::int64_t first, std::int64_t last) const {
  if (value < first || value > last)
    refuse(std::to_string(value) + ", where " + std::to_string(first) + " to " +
           std::to_string(last) + " was expected");
}

void Get::amount(double value) const {
  if (!std::isfinite(value) || value < 0)
    refuse(std::to_string(value) + ", where a finite number of at least 0 was expected");
}

void Get::extents(DType dtype, const std::vector<std::int64_t>& shape) const {
  if (auto size = tensor_bytes(dtype == 0 ? DType{GOBLIN_BOOL} : dtype, shape); !size)
    refuse(size.error().message);
}

std::string_view cut_text(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return text;
  std::size_t end = kMaxTextBytes;
  // Steps back over at most three continuation bytes of UTF-8.
  for (int step = 0; step < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; ++step)
    --end;
  return text.substr(0, end);
}

void encoder_bug(const char* type, std::uint64_t words, const char* what) {
  std::fprintf(stderr, "goblin: bug: encoding %s in %llu words: %s\n", type,
               static_cast<unsigned long long>(words), what);
  std::abort();
}

Error corrupt(const char* type, std::string what) {
  return Error{Code::kCorrupt, std::string(type) + ": " + std::move(what)};
}

Error corrupt(const char* type, const Place& place, const kj::Exception& exception) {
  std::string where = place.field[0] == '\0'
                          ? "root"
                          : std::string("at or inside ") + place.type + "." + place.field;
  return corrupt(type, where + ": " + exception.getDescription().cStr());
}

}  // namespace goblin::wire::codec
