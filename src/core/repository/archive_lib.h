// SPDX-License-Identifier: Apache-2.0
// The calls of libarchive that we use, found when first needed: loading it with all it depends on costs each
// start milliseconds, and only compressed archives need it.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "core/base/error.h"

namespace ascope {

struct ArchiveLib {
  decltype(&::archive_read_new) read_new;
  decltype(&::archive_read_support_filter_gzip) read_support_filter_gzip;
  decltype(&::archive_read_support_filter_zstd) read_support_filter_zstd;
  decltype(&::archive_read_support_format_raw) read_support_format_raw;
  decltype(&::archive_read_support_format_empty) read_support_format_empty;
  decltype(&::archive_read_open) read_open;
  decltype(&::archive_read_next_header) read_next_header;
  decltype(&::archive_read_data) read_data;
  decltype(&::archive_read_free) read_free;
  decltype(&::archive_write_new) write_new;
  decltype(&::archive_write_add_filter_gzip) write_add_filter_gzip;
  decltype(&::archive_write_add_filter_zstd) write_add_filter_zstd;
  decltype(&::archive_write_set_filter_option) write_set_filter_option;
  decltype(&::archive_write_set_format_raw) write_set_format_raw;
  decltype(&::archive_write_set_bytes_in_last_block) write_set_bytes_in_last_block;
  decltype(&::archive_write_open) write_open;
  decltype(&::archive_write_header) write_header;
  decltype(&::archive_write_data) write_data;
  decltype(&::archive_write_close) write_close;
  decltype(&::archive_write_free) write_free;
  decltype(&::archive_entry_new) entry_new;
  decltype(&::archive_entry_set_filetype) entry_set_filetype;
  decltype(&::archive_entry_free) entry_free;
  decltype(&::archive_error_string) error_string;
  decltype(&::archive_set_error) set_error;
};

// `io` with a hint if the library is not installed.
Result<const ArchiveLib*> archive_lib();

}  // namespace ascope
