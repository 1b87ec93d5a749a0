// SPDX-License-Identifier: Apache-2.0
#include "core/repository/archive_lib.h"

#include <dlfcn.h>

#include "core/base/loaded_library.h"

namespace ascope {

namespace {

constexpr const char* kLibrary = "libarchive.so.13";

bool find_all(void* lib, ArchiveLib& out) {
  return find_function(lib, "archive_read_new", out.read_new) &&
         find_function(lib, "archive_read_support_filter_gzip", out.read_support_filter_gzip) &&
         find_function(lib, "archive_read_support_filter_zstd", out.read_support_filter_zstd) &&
         find_function(lib, "archive_read_support_format_raw", out.read_support_format_raw) &&
         find_function(lib, "archive_read_support_format_empty", out.read_support_format_empty) &&
         find_function(lib, "archive_read_open", out.read_open) &&
         find_function(lib, "archive_read_next_header", out.read_next_header) &&
         find_function(lib, "archive_read_data", out.read_data) &&
         find_function(lib, "archive_read_free", out.read_free) &&
         find_function(lib, "archive_write_new", out.write_new) &&
         find_function(lib, "archive_write_add_filter_gzip", out.write_add_filter_gzip) &&
         find_function(lib, "archive_write_add_filter_zstd", out.write_add_filter_zstd) &&
         find_function(lib, "archive_write_set_filter_option", out.write_set_filter_option) &&
         find_function(lib, "archive_write_set_format_raw", out.write_set_format_raw) &&
         find_function(lib, "archive_write_set_bytes_in_last_block", out.write_set_bytes_in_last_block) &&
         find_function(lib, "archive_write_open", out.write_open) &&
         find_function(lib, "archive_write_header", out.write_header) &&
         find_function(lib, "archive_write_data", out.write_data) &&
         find_function(lib, "archive_write_close", out.write_close) &&
         find_function(lib, "archive_write_free", out.write_free) &&
         find_function(lib, "archive_entry_new", out.entry_new) &&
         find_function(lib, "archive_entry_set_filetype", out.entry_set_filetype) &&
         find_function(lib, "archive_entry_free", out.entry_free) &&
         find_function(lib, "archive_error_string", out.error_string) &&
         find_function(lib, "archive_set_error", out.set_error);
}

Result<ArchiveLib> load() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ArchiveLib out{};
  if (library == nullptr || !find_all(library, out)) {
    return make_error(ErrorKind::io, "libarchive cannot be loaded: " + load_problem(kLibrary),
                      "install the package libarchive13 (or libarchive)");
  }
  return out;
}

}  // namespace

Result<const ArchiveLib*> archive_lib() {
  static const Result<ArchiveLib> library = load();
  if (!library) {
    return library.error();
  }
  return &library.value();
}

}  // namespace ascope
