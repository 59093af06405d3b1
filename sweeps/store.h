// The store of a sweep: one SQLite file, DIR/sweep.sqlite, and the only SQL of the project.
// A run's key is (config hash, seed, signature, train signature). The same key with another digest means that training
// is not deterministic: both rows are kept for inspection and the writer throws.
// On a local disk: WAL with synchronous=NORMAL (no fsync per run; kill -9 loses nothing committed). On a network file
// system WAL's shared memory does not work: rollback journal, exclusive lock, batches of runs per commit.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sweeps/record.h"

struct sqlite3;

namespace fp4::sweeps {

enum class StoreMode { automatic, local, network };

// Who computes: part of every row's key or provenance.
struct Identity {
  std::string signature;
  std::string train_signature;
  std::string version;
  std::string host;
};

struct Conflict {
  std::string hash;
  uint64_t seed;
  std::string digests;  // comma-separated
};

class Store {
 public:
  // Opens for writing, creates the folder and the file when missing. One writer at a time: a second process gets an
  // error that names the first. Checks the file's integrity, its kind and its schema version.
  static Store open(const std::filesystem::path& folder, const Identity& identity,
                    StoreMode mode = StoreMode::automatic);
  // Opens for reading, beside a living writer too; read-only folders are fine. The identity is the last writer's.
  static Store read(const std::filesystem::path& folder);
  static bool exists(const std::filesystem::path& folder);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  // Closing a writer leaves one plain file without WAL beside it, readable on read-only media.
  ~Store();

  const Identity& identity() const { return identity_; }
  const std::filesystem::path& file() const { return file_; }

  std::string meta(const std::string& key) const;  // "" when absent
  void set_meta(const std::string& key, const std::string& value);

  // Replaces the plan (which configurations and points the grid means now); runs are never touched.
  void put_plan(const std::vector<std::string>& axes, std::span<const ConfigRecord> configs,
                std::span<const PointRecord> points);
  // Adds or updates single configurations of the plan (later stages: probabilities, rungs).
  void add_configs(std::span<const ConfigRecord> configs);
  std::vector<ConfigRecord> configs(bool with_text = true) const;
  std::vector<PointRecord> points() const;
  std::vector<std::string> axes() const;

  // Commits the runs together. A repeated equal run is ignored, a failed one is replaced by a later success, a role is
  // only ever raised (reference -> confirm -> run). Throws Error on a digest conflict after keeping both rows.
  void insert(std::span<const RunRecord> runs);
  void raise_role(const std::string& hash, uint64_t seed, Role role);
  // Rows of the store's identity, by (hash, seed); `hashes` empty = all of them.
  std::vector<RunRecord> runs(bool with_curves = false, const std::vector<std::string>& hashes = {}) const;
  size_t runs_of_other_signatures() const;
  std::vector<Conflict> conflicts() const;

  // Copies everything of another store into this one (same sweep: the grids' names must agree).
  void absorb(const Store& other);
  // Test hook: caps the file at this many pages, so that a full disk can be met without one.
  void limit_pages(int pages);

 private:
  struct Handle;
  Store(std::filesystem::path file, std::unique_ptr<Handle> handle, Identity identity);
  std::filesystem::path file_;
  std::unique_ptr<Handle> handle_;
  Identity identity_;
};

// True for file systems on which WAL and shared memory cannot be trusted (NFS, SMB, Lustre, GPFS, BeeGFS, Ceph, 9p,
// FUSE).
bool is_network_file_system(const std::filesystem::path& folder);

}  // namespace fp4::sweeps
