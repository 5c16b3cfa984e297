// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Journal records for tests, and their equality.
#pragma once

#include <limits>

#include "core/store/lab_journal.hpp"
#include "tests/core/store/support.hpp"

namespace goblin::store::test {

inline JobRecord sample_job(std::uint64_t number) {
  JobRecord job;
  for (std::size_t i = 0; i < job.token.size(); ++i) {
    job.token[i] = static_cast<std::uint8_t>(number >> (8 * (i % 8)));
  }
  job.kind = "matmul/1";
  job.plugin = digest_of(100 + number);
  job.kind_index = 3;
  wire::JobInput staged;
  staged.name = "a";
  staged.dtype = GOBLIN_F32;
  staged.shape = {4096, 0, 7};
  staged.strides = {-28, 4, std::numeric_limits<std::int64_t>::min()};
  staged.stage = 7;
  staged.offset = std::numeric_limits<std::uint64_t>::max();
  wire::JobInput file;
  file.name = "b";
  file.dtype = GOBLIN_C128;
  file.storage = wire::Storage::kFile;
  file.fd_index = 9;
  file.path = "/data/ümlaut and 'quote'.npy";
  file.digest = digest_of(5);
  job.inputs = {staged, file};
  job.params = {wire::Value::of(std::int64_t{-1}), wire::Value::of(-0.0),
                wire::Value::of(std::numeric_limits<double>::infinity())};
  job.outputs = {{"c", {GOBLIN_F32, {4096, 8}}, false, 128}};
  job.output_files = {{"c", 2, "/data/c.npy", 128}};
  job.output_stages = {0, 12};
  job.policy = wire::Policy::kReplicate;
  job.replicas = 3;
  job.weight = 1000;
  job.state = wire::JobState::kRunning;
  job.created_unix_ms = 1'700'000'000'123;
  job.ended_unix_ms = 1'700'000'001'456;
  return job;
}

inline AcceptedRecord sample_accepted(std::uint64_t job, std::uint64_t task) {
  AcceptedRecord record;
  record.job = job;
  record.task = task;
  record.host = digest_of(task % 5);
  record.digest = digest_of(1000 + task);
  record.merged = task % 3 == 0;
  record.stage = task * 2;
  record.stage_offset = task << 20;
  record.planned.id = task;
  record.planned.params = {wire::Value::of(static_cast<std::int64_t>(task))};
  record.planned.inputs = {
      {1, 0, 0, static_cast<std::int64_t>(task) * 4096, GOBLIN_F32, {256, 256}, {16384, 4}},
      {1, 1, 0, 8192, GOBLIN_F32, {256, 256}, {16384, 4}}};
  record.planned.outputs = {{GOBLIN_F32, {256, 256}}};
  record.planned.flops = 2.0 * 256 * 256 * 256;
  record.planned.memory_bytes = 1u << 20;
  return record;
}

inline void expect_same(const JobRecord& a, const JobRecord& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.plugin, b.plugin);
  EXPECT_EQ(a.kind_index, b.kind_index);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    EXPECT_EQ(a.inputs[i].name, b.inputs[i].name);
    EXPECT_EQ(a.inputs[i].dtype, b.inputs[i].dtype);
    EXPECT_EQ(a.inputs[i].shape, b.inputs[i].shape);
    EXPECT_EQ(a.inputs[i].strides, b.inputs[i].strides);
    EXPECT_EQ(a.inputs[i].storage, b.inputs[i].storage);
    EXPECT_EQ(a.inputs[i].stage, b.inputs[i].stage);
    EXPECT_EQ(a.inputs[i].fd_index, b.inputs[i].fd_index);
    EXPECT_EQ(a.inputs[i].path, b.inputs[i].path);
    EXPECT_EQ(a.inputs[i].offset, b.inputs[i].offset);
    EXPECT_EQ(a.inputs[i].digest, b.inputs[i].digest);
  }
  EXPECT_EQ(a.params, b.params);
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    EXPECT_EQ(a.outputs[i].name, b.outputs[i].name);
    EXPECT_EQ(a.outputs[i].spec, b.outputs[i].spec);
    EXPECT_EQ(a.outputs[i].staged, b.outputs[i].staged);
    EXPECT_EQ(a.outputs[i].offset, b.outputs[i].offset);
  }
  ASSERT_EQ(a.output_files.size(), b.output_files.size());
  for (std::size_t i = 0; i < a.output_files.size(); ++i) {
    EXPECT_EQ(a.output_files[i].name, b.output_files[i].name);
    EXPECT_EQ(a.output_files[i].fd_index, b.output_files[i].fd_index);
    EXPECT_EQ(a.output_files[i].path, b.output_files[i].path);
    EXPECT_EQ(a.output_files[i].offset, b.output_files[i].offset);
  }
  EXPECT_EQ(a.output_stages, b.output_stages);
  EXPECT_EQ(a.policy, b.policy);
  EXPECT_EQ(a.replicas, b.replicas);
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.plan_state, b.plan_state);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.created_unix_ms, b.created_unix_ms);
  EXPECT_EQ(a.ended_unix_ms, b.ended_unix_ms);
  EXPECT_EQ(a.summary, b.summary);
}

inline bool same(const AcceptedRecord& a, const AcceptedRecord& b) {
  return a.job == b.job && a.task == b.task && a.host == b.host && a.digest == b.digest &&
         a.merged == b.merged && a.stage == b.stage && a.stage_offset == b.stage_offset &&
         a.planned == b.planned;
}

}  // namespace goblin::store::test
