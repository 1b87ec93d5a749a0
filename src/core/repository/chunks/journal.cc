// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/repository/chunks/hints.h"

namespace ascope::chunks {

namespace {

constexpr std::chrono::hours kKept{7 * 24};

bool is_old(const OpContext& ctx, const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 &&
         ctx.clock->wall() - std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec) > kKept;
}

}  // namespace

Result<void> PackJournal::add(const PackName& pack, const std::string& index) const {
  ASCOPE_TRY(make_dirs(folder_));
  return write_cache_file(folder_ + "/" + to_hex(pack.view()), index);
}

Result<void> PackJournal::remove(const PackName& pack) const {
  return remove_file(folder_ + "/" + to_hex(pack.view()));
}

Result<void> PackJournal::each(const OpContext& ctx, const std::set<PackName>& settled,
                               const std::function<Result<void>(const NamedIndex&)>& take) const {
  Result<std::vector<std::string>> names = list_dir(folder_);
  if (!names) {
    return names.error().kind == ErrorKind::not_found ? ok() : Result<void>(std::move(names).error());
  }
  for (const std::string& name : *names) {
    const std::string path = folder_ + "/" + name;
    const Result<PackName> pack = pack_name_from_hex(name);
    if (!pack || settled.contains(*pack) || is_old(ctx, path)) {
      ASCOPE_TRY(remove_file(path));
      continue;
    }
    Result<std::string> index = read_file(path);
    if (index) {
      ASCOPE_TRY(take({*pack, std::move(*index)}));
    } else if (index.error().kind != ErrorKind::not_found) {
      return std::move(index).error();
    }
  }
  return ok();
}

}  // namespace ascope::chunks
