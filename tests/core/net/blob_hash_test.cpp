// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/blob_hash.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace goblin::net {
namespace {

/// Bytes 0, 1, … 250, 0, …: the input of the published test vectors.
wire::Bytes vector_input(std::size_t size) {
  wire::Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i % 251);
  }
  return bytes;
}

struct Known {
  std::size_t size;
  const char* digest;
};
// From test_vectors.json of https://github.com/BLAKE3-team/BLAKE3: `hash`, the first 32 bytes.
constexpr Known kKnown[] = {
    {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
    {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
    {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
    {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
    {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
    {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
};

TEST(BlobHash, KnownAnswers) {
  for (const Known& known : kKnown) {
    EXPECT_EQ(blob_digest(vector_input(known.size)).hex(), known.digest) << known.size;
  }
}

TEST(BlobHash, PiecesDoNotMatterAndItIsUsedAgain) {
  const wire::Bytes bytes = vector_input(102400);
  BlobHash hash;
  for (const std::size_t piece : {7u, 1024u, 4096u, 65536u}) {
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      hash.update(wire::ByteView(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      hash.update({});
    }
    EXPECT_EQ(hash.finish().hex(), kKnown[5].digest) << piece;
  }
  BlobHash moved(std::move(hash));
  moved.update(wire::ByteView(bytes).first(1));
  EXPECT_EQ(moved.finish().hex(), kKnown[1].digest);
}

}  // namespace
}  // namespace goblin::net
