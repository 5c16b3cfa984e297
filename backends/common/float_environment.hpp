// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The floating point environment that canonical results need, for the life of a scope.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace goblin::backends {

/// On this thread: round to nearest even, subnormals kept (neither flushed on output nor taken for
/// zero on input), no traps. The caller's settings come back with the destructor.
class FloatEnvironment final {
 public:
  FloatEnvironment() : saved_(read()) { write(kDefault); }
  ~FloatEnvironment() { write(saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__SSE__)
  using Word = std::uint32_t;
  static constexpr Word kDefault = 0x1f80;  // MXCSR: all exceptions masked, everything else 0
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kDefault = 0;  // FPCR: nearest, FZ and FZ16 off, no traps
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
#error "Say here how this architecture sets rounding and flush-to-zero."
#endif

  Word saved_;
};

}  // namespace goblin::backends
