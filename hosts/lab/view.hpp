// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Views: windows on tensors that lie in files. A task's inputs are views, and a blob that a host
// pulls is a view gathered in row-major order; no second copy of the data is stored.
#pragma once

#include <memory>
#include <string>

#include "core/net/blobs.hpp"
#include "core/net/unique_fd.hpp"
#include "core/wire/runner.hpp"

namespace goblin::lab {

/// A strided tensor in a file.
struct TensorFile {
  std::shared_ptr<const net::UniqueFd> fd;
  std::uint64_t file_bytes = 0;  ///< size of the file when the job was submitted
  std::uint64_t offset = 0;      ///< bytes from the file's start to element (0, …, 0)
  wire::DType dtype = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< bytes

  /// Row-major strides of its shape, which wire::tensor_bytes takes.
  static std::vector<std::int64_t> row_major(wire::DType dtype,
                                             const std::vector<std::int64_t>& shape);
};

/// First and last byte offset (exclusive) that a strided shape touches, relative to `offset`.
/// kInvalidArgument on overflow, a bad dtype or a bad rank.
struct Extent {
  std::int64_t low = 0, high = 0;
};
Result<Extent> extent_of(wire::DType dtype, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides);

/// Checks that a tensor lies within its file; the message names `what`.
Result<void> check_tensor_file(const TensorFile& tensor, const std::string& what);

/// Checks that a view lies within what its source touches and has its dtype; gives the window as a
/// tensor of the same file.
Result<TensorFile> window(const TensorFile& source, const wire::View& view);

/// Row-major elements of a tensor file. A file that shrank or cannot be read is kCorrupt.
std::shared_ptr<net::BlobSource> make_view_source(const TensorFile& tensor);

/// What names the bytes of a source; blocks.
Result<wire::Digest> hash_source(net::BlobSource& source);

}  // namespace goblin::lab
