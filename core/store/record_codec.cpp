// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/record_codec.hpp"

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

namespace goblin::store {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kSumBytes = 8;

/// Finds random damage; no defence against an author of damage, who could rewrite the sum.
std::uint64_t checksum(std::uint64_t seed, wire::ByteView bytes) {
  std::uint64_t sum = seed ^ (bytes.size() * 0x9e3779b97f4a7c15ULL);
  const auto mix = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * 0xff51afd7ed558ccdULL;
    sum ^= sum >> 32;
  };
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    mix(word);
    bytes = bytes.subspan(8);
  }
  std::uint64_t rest = 0;
  if (!bytes.empty()) {
    std::memcpy(&rest, bytes.data(), bytes.size());
  }
  mix(rest);
  return sum;
}

void append_sum(wire::Bytes& bytes, std::uint64_t seed) {
  const std::uint64_t sum = checksum(seed, bytes);
  for (std::size_t i = 0; i < kSumBytes; ++i) {
    bytes.push_back(static_cast<std::byte>(sum >> (8 * i)));
  }
}

Result<wire::ByteView> strip_sum(wire::ByteView bytes, std::uint64_t seed) {
  if (bytes.size() < kSumBytes) {
    return fail(Code::kCorrupt, "a record is cut off");
  }
  const wire::ByteView content = bytes.first(bytes.size() - kSumBytes);
  std::uint64_t stored = 0;
  for (std::size_t i = 0; i < kSumBytes; ++i) {
    stored |= std::to_integer<std::uint64_t>(bytes[content.size() + i]) << (8 * i);
  }
  if (stored != checksum(seed, content)) {
    return fail(Code::kCorrupt, "a record's checksum is wrong");
  }
  return content;
}

template <typename T>
concept Number = std::unsigned_integral<T> && !std::same_as<T, bool>;

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(wire::Bytes& out) : out_(out) {}

  void operator()(Number auto value) { put(value); }
  void operator()(bool value) { put(value ? 1 : 0); }
  void operator()(std::int64_t value) {
    put((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void operator()(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) {
      out_.push_back(static_cast<std::byte>(bits >> shift));
    }
  }
  void operator()(const std::string& value) {
    put(value.size());
    const auto bytes = std::as_bytes(std::span(value));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void operator()(const wire::Digest& value) {
    const auto bytes = std::as_bytes(std::span(value.bytes));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void operator()(wire::Storage value) { put(static_cast<std::uint64_t>(value)); }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    put(list.size());
    for (const T& item : list) {
      (*this)(item);
    }
  }
  template <typename T>
  requires std::is_class_v<T>
  void operator()(const T& record) { fields(*this, record); }

 private:
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      out_.push_back(static_cast<std::byte>(value | 0x80));
    }
    out_.push_back(static_cast<std::byte>(value));
  }
  wire::Bytes& out_;
};

/// After the first thing that does not fit, everything reads as zero and ok() is false.
class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(wire::ByteView in) : in_(in) {}
  [[nodiscard]] bool complete() const { return ok_ && in_.empty(); }

  template <Number T>
  void operator()(T& value) {
    const std::uint64_t wide = get();
    ok_ = ok_ && wide <= std::numeric_limits<T>::max();
    value = static_cast<T>(wide);
  }
  void operator()(bool& value) {
    const std::uint64_t wide = get();
    ok_ = ok_ && wide <= 1;
    value = wide == 1;
  }
  void operator()(std::int64_t& value) {
    const std::uint64_t wide = get();
    value = static_cast<std::int64_t>((wide >> 1) ^ (0 - (wide & 1)));
  }
  void operator()(double& value) {
    std::uint64_t bits = 0;
    const wire::ByteView bytes = take(8);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bits |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    }
    value = std::bit_cast<double>(bits);
  }
  void operator()(std::string& value) {
    const wire::ByteView bytes = take(get());
    value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void operator()(wire::Digest& value) {
    const wire::ByteView bytes = take(value.bytes.size());
    if (ok_) {
      std::memcpy(value.bytes.data(), bytes.data(), bytes.size());
    }
  }
  void operator()(wire::Storage& value) {
    const std::uint64_t wide = get();
    ok_ = ok_ && wide >= 1 && wide <= 3;
    value = ok_ ? static_cast<wire::Storage>(wide) : wire::Storage::kStaged;
  }
  template <typename T>
  void operator()(std::vector<T>& list) {
    const std::uint64_t count = get();
    // Every item takes a byte at least, so a wrong count cannot ask for much memory.
    ok_ = ok_ && count <= in_.size();
    list.clear();
    for (std::uint64_t i = 0; ok_ && i < count; ++i) {
      (*this)(list.emplace_back());
    }
  }
  template <typename T>
  requires std::is_class_v<T>
  void operator()(T& record) { fields(*this, record); }

 private:
  wire::ByteView take(std::uint64_t count) {
    if (!ok_ || count > in_.size()) {
      ok_ = false;
      return {};
    }
    const wire::ByteView bytes = in_.first(static_cast<std::size_t>(count));
    in_ = in_.subspan(bytes.size());
    return bytes;
  }
  std::uint64_t get() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const wire::ByteView byte = take(1);
      if (byte.empty()) {
        return 0;
      }
      const auto bits = std::to_integer<std::uint64_t>(byte[0]);
      value |= (bits & 0x7f) << shift;
      if ((bits & 0x80) == 0) {
        return value;
      }
    }
    ok_ = false;
    return 0;
  }
  wire::ByteView in_;
  bool ok_ = true;
};

// One function a type for both directions.
template <typename A, typename T>
using Ref = std::conditional_t<A::kReads, T&, const T&>;

template <typename A>
void fields(A& a, Ref<A, wire::Value> v) {
  a(v.type), a(v.i), a(v.f);
}
template <typename A>
void fields(A& a, Ref<A, wire::TensorSpec> v) {
  a(v.dtype), a(v.shape);
}
template <typename A>
void fields(A& a, Ref<A, wire::View> v) {
  a(v.source), a(v.index), a(v.task), a(v.offset), a(v.dtype), a(v.shape), a(v.strides);
}
template <typename A>
void fields(A& a, Ref<A, wire::PlannedTask> v) {
  a(v.id), a(v.params), a(v.inputs), a(v.outputs), a(v.flops), a(v.memory_bytes);
}
template <typename A>
void fields(A& a, Ref<A, wire::JobInput> v) {
  a(v.name), a(v.dtype), a(v.shape), a(v.strides), a(v.storage), a(v.stage), a(v.fd_index);
  a(v.path), a(v.offset), a(v.digest);
}
template <typename A>
void fields(A& a, Ref<A, wire::OutputInfo> v) {
  a(v.name), a(v.spec), a(v.staged), a(v.offset), a(v.digest);
}
template <typename A>
void fields(A& a, Ref<A, wire::JobOutputFile> v) {
  a(v.name), a(v.fd_index), a(v.path), a(v.offset);
}
template <typename A>
void fields(A& a, Ref<A, JobRecord> v) {
  a(v.inputs), a(v.params), a(v.outputs), a(v.output_files), a(v.output_stages);
}

template <typename T>
Result<void> decode(wire::ByteView content, T& value) {
  Reader reader(content);
  std::uint64_t version = 0;
  reader(version);
  if (version != kVersion) {
    return fail(Code::kCorrupt, "a record has encoding version " + std::to_string(version) +
                                    " instead of " + std::to_string(kVersion));
  }
  fields(reader, value);
  if (!reader.complete()) {
    return fail(Code::kCorrupt, "a record does not decode");
  }
  return {};
}

}  // namespace

std::uint64_t planned_seed(const AcceptedRecord& record) {
  std::uint64_t seed = checksum(record.task, std::as_bytes(std::span(record.host.bytes)));
  seed = checksum(seed, std::as_bytes(std::span(record.digest.bytes)));
  const std::array<std::uint64_t, 3> numbers = {record.job, record.stage, record.stage_offset};
  return checksum(seed, std::as_bytes(std::span(numbers)));
}

wire::Bytes encode_description(const JobRecord& job) {
  wire::Bytes out;
  Writer writer(out);
  writer(kVersion);
  fields(writer, job);
  append_sum(out, 0);
  return out;
}

Result<void> decode_description(wire::ByteView bytes, JobRecord& job) {
  GOBLIN_TRY(const wire::ByteView content, strip_sum(bytes, 0));
  return decode(content, job);
}

void encode_planned(const AcceptedRecord& record, wire::Bytes& out) {
  out.clear();
  Writer writer(out);
  writer(kVersion);
  fields(writer, record.planned);
  append_sum(out, planned_seed(record));
}

Result<void> decode_planned(wire::ByteView bytes, AcceptedRecord& record) {
  GOBLIN_TRY(const wire::ByteView content, strip_sum(bytes, planned_seed(record)));
  return decode(content, record.planned);
}

wire::Bytes seal(wire::ByteView bytes, std::uint64_t seed) {
  wire::Bytes out(bytes.begin(), bytes.end());
  append_sum(out, seed);
  return out;
}

Result<wire::Bytes> unseal(wire::ByteView sealed) {
  GOBLIN_TRY(const wire::ByteView content, strip_sum(sealed, 0));
  return wire::Bytes(content.begin(), content.end());
}

}  // namespace goblin::store
