// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Visits of the values that several schemas use. Like codec.hpp, for the .cpp files here only.
#pragma once

#include "core/wire/codec.hpp"
#include "core/wire/peer.hpp"
#include "task.capnp.h"

namespace goblin::wire::codec {

using Array32 = std::array<std::uint8_t, 32>;

inline void put_bytes32(const Array32& bytes, schema::Digest::Builder s) {
  std::array<std::uint64_t, 4> words;
  std::memcpy(words.data(), bytes.data(), sizeof words);
  s.setA(words[0]);
  s.setB(words[1]);
  s.setC(words[2]);
  s.setD(words[3]);
}
inline void get_bytes32(Array32& bytes, schema::Digest::Reader s) {
  const std::array<std::uint64_t, 4> words{s.getA(), s.getB(), s.getC(), s.getD()};
  std::memcpy(bytes.data(), words.data(), sizeof words);
}

/// 32 bytes; all zero: absent.
#define GOBLIN_BYTES32(member, Name)                                         \
  do {                                                                       \
    if constexpr (Pass::kGet) {                                              \
      GOBLIN_AT(member);                                                     \
      if (s.has##Name()) get_bytes32(m.member, s.get##Name());               \
    } else if (m.member != Array32{}) {                                      \
      if constexpr (Pass::kSize) pass.words += kStructWords<schema::Digest>; \
      if constexpr (Pass::kPut) put_bytes32(m.member, s.init##Name());       \
    }                                                                        \
  } while (false)
#define GOBLIN_DIGEST(member, Name) GOBLIN_BYTES32(member.bytes, Name)

GOBLIN_WIRE_STRUCT(Value) {
  GOBLIN_ENUM(type, Type, GOBLIN_VALUE_I64, GOBLIN_VALUE_F64);
  // Only the member that the type names travels; the other is 0 at the far end.
  if constexpr (Pass::kPut)
    s.setBits(m.type == GOBLIN_VALUE_F64 ? std::bit_cast<std::uint64_t>(m.f)
                                         : std::bit_cast<std::uint64_t>(m.i));
  if constexpr (Pass::kGet) {
    if (m.type == GOBLIN_VALUE_F64)
      m.f = std::bit_cast<double>(s.getBits());
    else
      m.i = std::bit_cast<std::int64_t>(s.getBits());
  }
}

GOBLIN_WIRE_STRUCT(TensorSpec) {
  GOBLIN_DTYPE(dtype, Dtype, GOBLIN_BOOL);
  GOBLIN_NUMBERS(shape, Shape, GOBLIN_MAX_RANK);
  if constexpr (Pass::kGet) pass.extents(m.dtype, m.shape);
}

GOBLIN_WIRE_STRUCT(TensorRef) {
  GOBLIN_DTYPE(spec.dtype, Dtype, GOBLIN_BOOL);
  GOBLIN_NUMBER(inline_offset, InlineOffset);
  GOBLIN_NUMBERS(spec.shape, Shape, GOBLIN_MAX_RANK);
  GOBLIN_DIGEST(digest, Digest);
  if constexpr (Pass::kGet) {
    pass.extents(m.spec.dtype, m.spec.shape);
    GOBLIN_AT(inline_offset);
    if (!m.is_inline()) {
      if (m.digest == Digest{}) pass.refuse("neither a digest nor a place in the payload");
    } else if (const std::uint64_t size = *m.spec.size_bytes();
               size > kInlineBytes || m.inline_offset + size > kMaxPayloadBytes) {
      pass.refuse(std::to_string(size) + " bytes at " + std::to_string(m.inline_offset) +
                  " of the payload; at most " + std::to_string(kInlineBytes) + " within " +
                  std::to_string(kMaxPayloadBytes) + " may travel so");
    }
  }
}

GOBLIN_WIRE_STRUCT(HostCapacity) {
  GOBLIN_AT_MOST(threads, Threads, kMaxHostThreads);
  GOBLIN_AT_MOST(slots, Slots, kMaxHostSlots);
  GOBLIN_AT_MOST(memory_bytes, MemoryBytes, kMaxHostBytes);
  GOBLIN_AT_MOST(cache_bytes, CacheBytes, kMaxHostBytes);
  GOBLIN_NUMBER(abi_major, AbiMajor);
  GOBLIN_NUMBER(abi_minor, AbiMinor);
  GOBLIN_AMOUNT(flops_f32, FlopsF32);
  GOBLIN_AMOUNT(flops_f64, FlopsF64);
}

}  // namespace goblin::wire::codec
