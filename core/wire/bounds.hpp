// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How much a message may hold. decode refuses more with kCorrupt; whoever fills a message keeps
// within these, and splits what is larger over several frames. encode cuts texts for people
// (`message`, `reason`, `detail`) at kMaxTextBytes and writes everything else as it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace goblin::wire {

inline constexpr std::size_t kMaxMessageBytes = 16u << 20;  ///< the largest cap of any frame type
inline constexpr std::size_t kMaxPayloadBytes = 1u << 20;

inline constexpr std::size_t kMaxNameBytes = 256;         ///< kinds, inputs, devices, commands
inline constexpr std::size_t kMaxAddressBytes = 255;      ///< host names and IP addresses
inline constexpr std::size_t kMaxPathBytes = 4096;        ///< files of this machine
inline constexpr std::size_t kMaxTextBytes = 64u << 10;   ///< messages and documentation
inline constexpr std::size_t kMaxStateBytes = 64u << 10;  ///< what a planner keeps for a restart

inline constexpr std::uint32_t kMaxTasks = 4096;      ///< leases, results or tasks of one frame
inline constexpr std::uint32_t kMaxTensors = 1024;    ///< inputs, or outputs, of a task or job
inline constexpr std::uint32_t kMaxParams = 1024;     ///< parameters of a task, a job or a command
inline constexpr std::uint32_t kMaxIds = 65536;       ///< numbers of leases or segments
inline constexpr std::uint32_t kMaxPluginKinds = 16;  ///< GOBLIN_NOTE_MAX_KINDS
inline constexpr std::uint32_t kMaxPlugins = 4096;    ///< entries of a catalogue
inline constexpr std::uint32_t kMaxKinds = 4096;      ///< kinds that a lab node lists
inline constexpr std::uint32_t kMaxPeers = 32768;     ///< lab nodes or hosts assigned
inline constexpr std::uint32_t kMaxHosts = 16384;     ///< hosts that a lab node lists
inline constexpr std::uint32_t kMaxJobs = 8192;       ///< jobs that a lab node lists
inline constexpr std::uint32_t kMaxIncidents = 1000;  ///< of one explanation
inline constexpr std::uint32_t kMaxReportLines = 4096;  ///< lines of a status report or a plan

// What one host may offer, as its configuration allows: a lab node weighs hosts by it.
inline constexpr std::uint32_t kMaxHostThreads = 4096;
inline constexpr std::uint32_t kMaxHostSlots = 4096;
inline constexpr std::uint64_t kMaxHostBytes = std::uint64_t{1} << 50;  ///< memory, or cache

inline constexpr std::size_t kMaxTrustNameBytes = 63;   ///< plugins, kinds, backends of a catalogue
inline constexpr std::uint32_t kMaxTrustKeys = 32;      ///< keys of one role
inline constexpr std::uint32_t kMaxTrustBackends = 16;  ///< backends that a plugin may run on
inline constexpr std::uint32_t kMaxTrustRoots = 4096;   ///< roots that a verifier remembers

}  // namespace goblin::wire
