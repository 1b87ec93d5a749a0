// SPDX-License-Identifier: Apache-2.0
// Whole files and folders of our own (state folder, caches). Not for what lies inside a sandbox: that is
// core/tree. What may not be written is `io` (write_failure), what may not be read `denied`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/fd.h"

namespace ascope {

// The file's bytes. `not_found` if there is none, `corrupt` over `limit`, else `io` or `denied`.
Result<std::string> read_file(const std::string& path, std::size_t limit = 64U << 20U);
// Writes to a temporary file beside `path` (unique name), fsyncs it, renames it over `path`, fsyncs the
// folder. On failure the old file is whole and the temporary one is removed.
Result<void> write_file_atomic(const std::string& path, ByteView data, mode_t mode = 0600);
// Creates `path` with `data` if nothing is there: temp + fsync + link; false if it exists already.
Result<bool> create_file(const std::string& path, ByteView data, mode_t mode = 0600);
// mkdir -p; folders made get `mode`, those that exist keep theirs.
Result<void> make_dirs(const std::string& path, mode_t mode = 0700);
// True if something (a dangling link too) is at `path`; a failure to look is an error, never "no".
Result<bool> path_exists(const std::string& path);
// Names in a folder without "." and "..", sorted. `not_found` if the folder does not exist.
Result<std::vector<std::string>> list_dir(const std::string& path);
// unlink(2); repeat is harmless.
Result<void> remove_file(const std::string& path);
// Opens with O_CLOEXEC added. `not_found` for ENOENT.
Result<UniqueFd> open_file(const std::string& path, int flags, mode_t mode = 0600);
// fsync of a folder, so that a rename or link in it lasts.
Result<void> sync_dir(const std::string& path);
// Absolute and lexically normalised; does not look at the disk. `base` is absolute.
std::string absolute_path(std::string_view path, std::string_view base);

}  // namespace ascope
