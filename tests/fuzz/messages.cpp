// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Every message of core/wire. Byte 0 chooses the type, byte 1 the edge that the message lies at;
// from byte 8 on it is the message.
#include <array>
#include <cstring>
#include <vector>

#include "tests/core/wire/generate.hpp"
#include "tests/fuzz/guarded.hpp"

namespace goblin::fuzz {
namespace {

constexpr std::size_t kHeader = 8;
constexpr std::size_t kWord = 8;

/// What decodes is written again, and that is read as the same.
template <typename T, typename Decode>
void round_trip(ByteView bytes, Decode decode) {
  const Result<T> message = decode(bytes);
  if (!message) {
    expect(message.error().code == Code::kCorrupt, "a message that is refused is kCorrupt");
    expect(!message.error().message.empty(), "a refusal says why");
    return;
  }
  const Bytes again = wire::encode(*message);
  const Result<T> back = decode(again);
  expect(back.has_value(),
         ("what was decoded and encoded decodes: " + (back ? "" : back.error().message)).c_str());
  expect(wire::testing::same(*message, *back), "a round trip keeps every field");
}

struct Type {
  void (*run)(ByteView);
  Bytes (*make)(wire::testing::Generator&);
};

const std::vector<Type>& types() {
#define GOBLIN_TYPE(T, name)                                                            \
  Type{[](ByteView bytes) {                                                             \
         round_trip<wire::T>(bytes, [](ByteView b) { return wire::decode_##name(b); }); \
       },                                                                               \
       [](wire::testing::Generator& generate) { return wire::encode(generate.make<wire::T>()); }},
  static const std::vector<Type> all = {
      GOBLIN_WIRE_PEER_MESSAGES(GOBLIN_TYPE) GOBLIN_WIRE_RUNNER_MESSAGES(GOBLIN_TYPE)
          GOBLIN_WIRE_CLIENT_MESSAGES(GOBLIN_TYPE) GOBLIN_WIRE_TRUST_MESSAGES(GOBLIN_TYPE)};
#undef GOBLIN_TYPE
  return all;
}

void run(ByteView input) {
  if (input.size() < kHeader) {
    return;
  }
  const auto type = std::to_integer<std::size_t>(input[0]) % types().size();
  const Against edge = (input[1] & std::byte{1}) == std::byte{} ? Against::kEnd : Against::kStart;
  types()[type].run(guarded(input.subspan(kHeader), edge));
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  wire::testing::Generator generate(20261201);
  for (std::size_t type = 0; type < types().size(); ++type) {
    for (int round = 0; round < 2; ++round) {
      Bytes input(kHeader);
      input[0] = static_cast<std::byte>(type);
      const Bytes message = types()[type].make(generate);
      input.insert(input.end(), message.begin(), message.end());
      all.push_back(std::move(input));
    }
  }
  return all;
}

/// Pointers of Cap'n Proto's encoding: plausible ones lead deeper than flipped bits.
std::uint64_t some_word(std::uint64_t random, std::uint64_t old) {
  const std::uint64_t offset = (random >> 8) % 64 < 48 ? (random >> 16) % 40 : random >> 34;
  const std::uint64_t count = (random >> 24) % 8 == 0 ? (1u << 29) - 1 : (random >> 32) % 70;
  constexpr std::array<std::uint64_t, 6> kCorners = {
      0, 1, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0x7ff8000000000000};
  switch (random % 8) {
    case 0:  // a struct
      return (offset << 2 & 0xffffffff) | ((random >> 40) % 14) << 32 | ((random >> 48) % 10) << 48;
    case 1:  // a list
      return (offset << 2 & 0xfffffffc) | 1 | ((random >> 40) % 8) << 32 | count << 35;
    case 2:  // a tag of a list of structs
      return count << 2 | ((random >> 40) % 14) << 32 | ((random >> 48) % 10) << 48;
    case 3:  // into another segment
      return 2 | (random & 0xfffffff8) | (random >> 60) << 32;
    case 4:  // the same pointer, elsewhere
      return (old & ~std::uint64_t{0xfffffffc}) | (offset << 2 & 0xfffffffc);
    case 5:
      return kCorners[(random >> 20) % kCorners.size()];
    case 6:
      return old + (random >> 60) - 8;
    default:
      return old ^ std::uint64_t{1} << (random >> 58);
  }
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t capacity,
                   std::uint64_t random) {
  if (size < kHeader + kWord) {
    if (capacity < kHeader + kWord) return size;
    std::memset(data + size, 0, kHeader + kWord - size);
    size = kHeader + kWord;
  }
  size -= (size - kHeader) % kWord;
  std::size_t words = (size - kHeader) / kWord;
  const auto word_at = [&](std::size_t index) { return data + kHeader + index * kWord; };
  const auto next = [&random] {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
  };
  const std::size_t at = next() % words;
  std::uint64_t word = 0;
  switch (next() % 8) {
    case 0:  // a word more
      if (size + kWord > capacity) break;
      std::memmove(word_at(at + 1), word_at(at), (words - at) * kWord);
      word = some_word(next(), next());
      std::memcpy(word_at(at), &word, kWord);
      ++words;
      break;
    case 1:  // one less
      if (words == 1) break;
      std::memmove(word_at(at), word_at(at + 1), (words - at - 1) * kWord);
      --words;
      break;
    case 2:  // one twice
      std::memcpy(word_at(next() % words), word_at(at), kWord);
      break;
    case 3:  // the same bytes as another type
      data[0] = static_cast<std::uint8_t>(next());
      data[1] = static_cast<std::uint8_t>(next());
      break;
    default:
      std::memcpy(&word, word_at(at), kWord);
      word = some_word(next(), word);
      std::memcpy(word_at(at), &word, kWord);
  }
  return kHeader + words * kWord;
}

}  // namespace

Target messages_target() { return {"messages", run, seeds, mutate}; }

}  // namespace goblin::fuzz
