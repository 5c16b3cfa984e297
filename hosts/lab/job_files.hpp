// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The files of a job: arrays of the researcher, staged arrays, outputs. Free functions that block
// on the disk: call them from a worker thread, on a record that nobody else touches meanwhile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/store/lab_journal.hpp"
#include "core/store/staging.hpp"
#include "hosts/lab/view.hpp"

namespace goblin::lab {

/// An output that goes to a file of the researcher.
struct OutFile {
  std::string name;  ///< of the output
  std::string path;
  std::shared_ptr<const net::UniqueFd> fd;
  std::uint64_t begin = 0, end = 0;  ///< bytes of the file that the output covers
  wire::Digest identity;
  bool allocated = false;  ///< no hole in them when it was opened, as far as one can tell
};

struct JobFiles {
  std::vector<TensorFile> inputs;  ///< dtype 0: left out
  std::vector<TensorFile> outputs;
  std::vector<OutFile> out_files;  ///< those outputs that are files of the researcher
};

/// Opens the files of a job's inputs and opens or makes those of its outputs, whose blocks are
/// allocated, so that no runner meets SIGBUS for want of disk space. `fds`: the descriptors that
/// came with a submission, which are moved from; the record then learns what a restart needs
/// (identities of files, numbers of staged outputs). Null after a restart: paths are opened anew.
/// kInvalidArgument names the array or output, also when its descriptor does not allow what the job
/// does; kExhausted: no disk space; kCorrupt: after a restart, another file lies at the path, or an
/// output's file is shorter than the job had left it.
/// When it fails it has removed what it made.
Result<JobFiles> open_job_files(store::Staging& staging, store::JobRecord& record,
                                std::vector<net::UniqueFd>* fds);

/// What earlier looks at a file have shown.
struct OutSeen {
  bool at_path = false;      ///< the path has led to it
  std::uint64_t blocks = 0;  ///< the most of the disk that it had
};
/// Whether the researcher's files still are what the job writes to: kCorrupt names the output, the
/// path and what happened. A client may move the file to its path only after the submission, but
/// nobody may put another one in its place. A file that was cut and made long again is told by the
/// blocks that it lost: by less than a block (mostly 4 KiB) nobody notices, nor that somebody wrote
/// over it.
Result<void> check_out_files(const std::vector<OutFile>& files, std::vector<OutSeen>& seen);

/// What two jobs, or the input and the output of one, must not do to one file at once.
/// `other`: the number of the running job, 0 for one that is being submitted at the same time.
std::optional<Error> find_conflict(const store::JobRecord& record, const JobFiles& files,
                                   const store::JobRecord& other_record,
                                   const JobFiles& other_files, std::uint64_t other);
/// The same between the inputs and outputs of one job.
std::optional<Error> find_overlap(const store::JobRecord& record, const JobFiles& files);

}  // namespace goblin::lab
