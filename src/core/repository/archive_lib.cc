// SPDX-License-Identifier: Apache-2.0
#include "core/repository/archive_lib.h"

#include <dlfcn.h>

namespace ascope {

namespace {

constexpr const char* kLibrary = "libarchive.so.13";

template <typename Function>
bool find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

bool find_all(void* lib, ArchiveLib& out) {
  return find(lib, "archive_read_new", out.read_new) &&
         find(lib, "archive_read_support_filter_gzip", out.read_support_filter_gzip) &&
         find(lib, "archive_read_support_filter_zstd", out.read_support_filter_zstd) &&
         find(lib, "archive_read_support_format_raw", out.read_support_format_raw) &&
         find(lib, "archive_read_support_format_empty", out.read_support_format_empty) &&
         find(lib, "archive_read_open", out.read_open) &&
         find(lib, "archive_read_next_header", out.read_next_header) &&
         find(lib, "archive_read_data", out.read_data) && find(lib, "archive_read_free", out.read_free) &&
         find(lib, "archive_write_new", out.write_new) &&
         find(lib, "archive_write_add_filter_gzip", out.write_add_filter_gzip) &&
         find(lib, "archive_write_add_filter_zstd", out.write_add_filter_zstd) &&
         find(lib, "archive_write_set_filter_option", out.write_set_filter_option) &&
         find(lib, "archive_write_set_format_raw", out.write_set_format_raw) &&
         find(lib, "archive_write_set_bytes_in_last_block", out.write_set_bytes_in_last_block) &&
         find(lib, "archive_write_open", out.write_open) &&
         find(lib, "archive_write_header", out.write_header) &&
         find(lib, "archive_write_data", out.write_data) &&
         find(lib, "archive_write_close", out.write_close) &&
         find(lib, "archive_write_free", out.write_free) && find(lib, "archive_entry_new", out.entry_new) &&
         find(lib, "archive_entry_set_filetype", out.entry_set_filetype) &&
         find(lib, "archive_entry_free", out.entry_free) &&
         find(lib, "archive_error_string", out.error_string) && find(lib, "archive_set_error", out.set_error);
}

Result<ArchiveLib> load() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ArchiveLib out{};
  if (library == nullptr || !find_all(library, out)) {
    const char* why = ::dlerror();
    return make_error(ErrorKind::io,
                      std::string("libarchive cannot be loaded: ") + (why == nullptr ? kLibrary : why),
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
