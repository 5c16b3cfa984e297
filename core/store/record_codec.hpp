// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How records that have no columns of their own stand in the journal: a version byte, fields in
// order (unsigned numbers as LEB128, signed ones zigzag, lists and texts with their length before
// them), and a 64-bit checksum. A third of the size of the wire's encoding and independent of it: a
// journal outlives protocol versions. SQLite checks the structure of pages only; the checksum finds
// damage within them. Internal to core/store. Any thread.
#pragma once

#include "core/store/lab_journal.hpp"

namespace goblin::store {

/// The parts of a JobRecord that its columns do not hold.
wire::Bytes encode_description(const JobRecord& job);
/// Fills the same parts; kCorrupt when the bytes are damaged or of a later version.
Result<void> decode_description(wire::ByteView bytes, JobRecord& job);

/// `planned` of the record; its checksum covers the other fields but `merged` too. Replaces `out`.
void encode_planned(const AcceptedRecord& record, wire::Bytes& out);
/// Fills `planned`; the record's other fields must be set.
Result<void> decode_planned(wire::ByteView bytes, AcceptedRecord& record);
/// Of the sum behind a planned task.
std::uint64_t planned_seed(const AcceptedRecord& record);

/// Opaque bytes with a checksum behind them, and the reverse. `seed`: what else the sum is to
/// cover.
wire::Bytes seal(wire::ByteView bytes, std::uint64_t seed = 0);
Result<wire::Bytes> unseal(wire::ByteView sealed);

}  // namespace goblin::store
