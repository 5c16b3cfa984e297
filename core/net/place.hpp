// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A listener's place for one connection, held as long as that is open. For this folder's .cpp files
// only.
#pragma once

#include <functional>

namespace goblin::net {

/// Loop's thread only. Until its peer is admitted, a connection gives way to others when places are
/// short.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;
  /// The peer has been greeted: its place is its own from now on.
  virtual void admitted() = 0;
  /// What ends the connection when it gives way; replaces what was said before. It may destroy the
  /// place.
  virtual void gives_way_by(std::function<void()> end) = 0;
};

}  // namespace goblin::net
