// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/vfs.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <new>

namespace goblin::sim {
namespace {

struct Mounts {
  std::map<std::string, Disk*> disks;
  std::uint64_t seed = 1;
};
/// SQLite calls back through C functions; a process has one SQLite.
Mounts& mounts() {
  static Mounts all;
  return all;
}

struct OpenFile {
  sqlite3_file base;
  Disk* disk;
  std::string name;
  bool forget;       ///< delete on close
  bool sync_folder;  ///< with the next sync
};
OpenFile& opened(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }

int failed(Disk::Status status, int code) {
  errno = status == Disk::Status::kFull ? ENOSPC : EIO;
  return status == Disk::Status::kFull ? SQLITE_FULL : code;
}

int close(sqlite3_file* file) {
  OpenFile& f = opened(file);
  if (f.forget) (void)f.disk->remove(f.name, false);
  f.~OpenFile();
  return SQLITE_OK;
}
int read(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  const OpenFile& f = opened(file);
  std::size_t got = 0;
  const auto status =
      f.disk->read(f.name, std::uint64_t(offset), static_cast<char*>(out), std::size_t(size), got);
  if (status != Disk::Status::kOk) return failed(status, SQLITE_IOERR_READ);
  if (got == std::size_t(size)) return SQLITE_OK;
  std::memset(static_cast<char*>(out) + got, 0, std::size_t(size) - got);
  return SQLITE_IOERR_SHORT_READ;
}
int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  const OpenFile& f = opened(file);
  const auto status = f.disk->write(f.name, std::uint64_t(offset),
                                    {static_cast<const char*>(bytes), std::size_t(size)});
  return status == Disk::Status::kOk ? SQLITE_OK : failed(status, SQLITE_IOERR_WRITE);
}
int truncate(sqlite3_file* file, sqlite3_int64 size) {
  const OpenFile& f = opened(file);
  const auto status = f.disk->truncate(f.name, std::uint64_t(size));
  return status == Disk::Status::kOk ? SQLITE_OK : failed(status, SQLITE_IOERR_TRUNCATE);
}
int sync(sqlite3_file* file, int) {
  OpenFile& f = opened(file);
  const auto status = f.disk->sync(f.name, f.sync_folder);
  if (status != Disk::Status::kOk) return failed(status, SQLITE_IOERR_FSYNC);
  f.sync_folder = false;
  return SQLITE_OK;
}
int file_size(sqlite3_file* file, sqlite3_int64* size) {
  const OpenFile& f = opened(file);
  *size = sqlite3_int64(f.disk->size(f.name));
  return SQLITE_OK;
}
// Locks keep other processes out; here there are none.
int lock(sqlite3_file*, int) { return SQLITE_OK; }
int check_lock(sqlite3_file*, int* held) {
  *held = 0;
  return SQLITE_OK;
}
int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sector_size(sqlite3_file*) { return 4096; }
// As on Linux: a torn write leaves the bytes beside it alone.
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = close,
    .xRead = read,
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = file_size,
    .xLock = lock,
    .xUnlock = lock,
    .xCheckReservedLock = check_lock,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

Disk* disk_of(const char* path, std::string& name) {
  const std::string text(path);
  const std::size_t slash = text.rfind('/');
  if (slash == std::string::npos) return nullptr;
  const auto it = mounts().disks.find(text.substr(0, slash));
  name = text.substr(slash + 1);
  return it == mounts().disks.end() ? nullptr : it->second;
}

int open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (path == nullptr) return SQLITE_CANTOPEN;  // temporary files: the store keeps them in memory
  std::string name;
  Disk* disk = disk_of(path, name);
  if (disk == nullptr || disk->frozen()) return SQLITE_CANTOPEN;
  // The store makes the data base's file itself before it opens it.
  const bool make = (flags & (SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB)) != 0;
  if (!disk->exists(name)) {
    if (!make) return SQLITE_CANTOPEN;
    disk->create(name);
  }
  auto* made = new (file) OpenFile{};
  made->disk = disk;
  made->name = name;
  // As on Unix: the first sync of a new log also makes its name last, and the removal of others.
  made->sync_folder = (flags & SQLITE_OPEN_CREATE) != 0 &&
                      (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
  made->forget = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  made->base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}
int remove(sqlite3_vfs*, const char* path, int sync_folder) {
  std::string name;
  Disk* disk = disk_of(path, name);
  if (disk == nullptr) return SQLITE_IOERR_DELETE;
  if (!disk->exists(name)) return SQLITE_IOERR_DELETE_NOENT;
  const auto status = disk->remove(name, sync_folder != 0);
  return status == Disk::Status::kOk ? SQLITE_OK : failed(status, SQLITE_IOERR_DELETE);
}
int access(sqlite3_vfs*, const char* path, int, int* answer) {
  std::string name;
  const Disk* disk = disk_of(path, name);
  // As SQLite's own: an empty journal file counts as none.
  *answer = disk != nullptr && disk->exists(name) && disk->size(name) > 0 ? 1 : 0;
  return SQLITE_OK;
}
int full_path(sqlite3_vfs*, const char* path, int size, char* out) {
  const std::size_t length = std::strlen(path) + 1;
  if (length > std::size_t(size)) return SQLITE_CANTOPEN;
  std::memcpy(out, path, length);
  return SQLITE_OK;
}
int randomness(sqlite3_vfs*, int size, char* out) {
  Random random(mounts().seed);
  for (int i = 0; i < size; ++i) out[i] = static_cast<char>(random.next());
  return size;
}
int sleep(sqlite3_vfs*, int micros) { return micros; }
int current_time(sqlite3_vfs*, double* day) {
  *day = 2461000.5;  // one day in 2026: only the table of migrations shows it
  return SQLITE_OK;
}
int last_error(sqlite3_vfs*, int, char*) { return errno; }

void use() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs v{};
    v.iVersion = 1;
    v.szOsFile = int(sizeof(OpenFile));
    v.mxPathname = 4096;
    v.zName = "goblin-sim";
    v.xOpen = open;
    v.xDelete = remove;
    v.xAccess = access;
    v.xFullPathname = full_path;
    v.xRandomness = randomness;
    v.xSleep = sleep;
    v.xCurrentTime = current_time;
    v.xGetLastError = last_error;
    return v;
  }();
  if (sqlite3_vfs_find(vfs.zName) == nullptr) sqlite3_vfs_register(&vfs, 1);
}

}  // namespace

Mount::Mount(std::string folder, Disk& disk) : folder_(std::move(folder)) {
  use();
  mounts().disks[folder_] = &disk;
}
Mount::~Mount() { mounts().disks.erase(folder_); }

void seed_sqlite(std::uint64_t seed) {
  use();
  mounts().seed = seed;
  sqlite3_randomness(0, nullptr);  // forgets what it drew before
}

}  // namespace goblin::sim
