// SPDX-License-Identifier: Apache-2.0
#include "core/projection/skills.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <set>
#include <sys/stat.h>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/lease/local_lock.h"
#include "core/projection/git.h"
#include "core/projection/host_tree.h"

namespace ascope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNameBytes = 200;
constexpr std::string_view kGlobalNamespace = "_global";
// A staged folder that nobody used for so long is removed: another process may be reading a younger one.
constexpr std::chrono::hours kStaleAfter{1};

bool is_segment(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' && is_utf8(name) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
         });
}

// AgentScope's default source, "git-OWNER/REPO[@REF]", as one path segment.
std::string derived_namespace(const SkillSource& source) {
  std::string name;
  if (!source.git.empty()) {
    std::string url = git_url_without_credentials(source.git);
    while (url.ends_with('/')) {
      url.pop_back();
    }
    if (url.ends_with(".git")) {
      url.resize(url.size() - 4);
    }
    const auto last = url.find_last_of("/:");
    const auto before =
        last == std::string::npos || last == 0 ? std::string::npos : url.find_last_of("/:", last - 1);
    name = "git-" + url.substr(before == std::string::npos ? 0 : before + 1);
    if (!source.ref.empty()) {
      name += "@" + source.ref;
    }
  } else {
    name = fs::path(source.dir).filename().string();
  }
  for (char& c : name) {
    if (std::string_view("/\\:*?\"<>|").find(c) != std::string_view::npos ||
        static_cast<unsigned char>(c) < 0x20) {
      c = '-';
    }
  }
  name = name.substr(0, kMaxNameBytes - 8);
  return is_segment(name) ? name : std::string(kGlobalNamespace);
}

struct Source {
  std::string name_space;
  SkillSource spec;
  GitCommit commit;      // of a Git source
  std::string path;      // folder with the skills, in the commit or below spec.dir
  std::string identity;  // changes when the content does
};

class Stager {
 public:
  Stager(const OpContext& ctx, const std::vector<SkillSource>& sources, const std::string& cache_dir)
      : ctx_(ctx), specs_(sources), cache_dir_(cache_dir), staged_dir_(cache_dir + "/staged") {}

  Result<StagedSkills> run() {
    ASCOPE_TRY(make_dirs(staged_dir_));
    Sha256 identity;
    for (const auto& spec : specs_) {
      ASCOPE_TRY_ASSIGN(Source source, look_at(spec));
      for (const std::string* part : {&source.name_space, &source.path, &source.identity}) {
        identity.update(std::to_string(part->size()) + ":" + *part);
      }
      sources_.push_back(std::move(source));
    }
    const std::string name = identity.finish_hex();
    ASCOPE_TRY_ASSIGN(const auto lock,
                      LocalLock::acquire(ctx_, staged_dir_ + ".lock", LockMode::exclusive, Millis(600'000)));
    result_.folder = staged_dir_ + "/" + name;
    ASCOPE_TRY_ASSIGN(const bool complete, path_exists(result_.folder));
    if (!complete) {
      ASCOPE_TRY(build(name));
    }
    ASCOPE_TRY(read_list(name));
    if (::utimensat(AT_FDCWD, result_.folder.c_str(), nullptr, 0) != 0) {
      return errno_error("touching '" + result_.folder + "'", errno);
    }
    ASCOPE_TRY(clean(name));
    return std::move(result_);
  }

 private:
  Result<std::string> name_space(const SkillSource& spec) {
    std::string name = spec.name.empty() ? derived_namespace(spec) : spec.name;
    if (!is_segment(name)) {
      return make_error(ErrorKind::config, "skills: name '" + name + "' is not one path segment",
                        "use letters, digits, '-' and '_'");
    }
    const std::string first = name;
    for (std::size_t n = 1; !name_spaces_.insert(name).second; ++n) {
      name = first + "_" + std::to_string(n);
    }
    return name;
  }

  Result<Source> look_at(const SkillSource& spec) {
    Source source;
    source.spec = spec;
    ASCOPE_TRY_ASSIGN(source.name_space, name_space(spec));
    if (!spec.path.empty()) {
      if (auto checked = check_tree_path(spec.path, false); !checked) {
        return make_error(ErrorKind::config, "skills: " + checked.error().message);
      }
    }
    if (spec.git.empty() == spec.dir.empty()) {
      return make_error(ErrorKind::config, "skills: a source needs either 'git' or 'dir'");
    }
    ASCOPE_TRY(spec.git.empty() ? look_at_folder(source) : look_at_git(source));
    return source;
  }

  Result<void> look_at_git(Source& source) {
    auto commit = update_mirror(ctx_, source.spec.git, source.spec.ref, cache_dir_);
    const std::string shown = git_url_without_credentials(source.spec.git);
    if (!commit) {
      return std::move(commit).error().within("skills from '" + shown + "'");
    }
    source.commit = std::move(*commit);
    if (!source.commit.unreachable.empty()) {
      warnings_.push_back("skills from '" + shown + "' are those fetched last: " + source.commit.unreachable);
    }
    source.path = source.spec.path.empty() ? "skills" : source.spec.path;
    ASCOPE_TRY_ASSIGN(const bool there, has_folder(ctx_, source.commit, source.path));
    if (!there) {
      if (!source.spec.path.empty()) {
        return make_error(ErrorKind::config, "skills from '" + shown + "': no folder '" + source.path + "'");
      }
      source.path.clear();
    }
    source.identity = "git " + source.commit.commit;
    return ok();
  }

  Result<void> look_at_folder(Source& source) {
    std::string folder = source.spec.dir;
    source.path = source.spec.path;
    if (source.path.empty() && fs::is_directory(folder + "/skills")) {
      source.path = "skills";
    }
    if (!source.path.empty()) {
      folder += "/" + source.path;
    }
    ASCOPE_TRY_ASSIGN(const auto opened, HostFolder::open(folder));
    HostTree tree;
    ASCOPE_TRY(collect_host_files(opened, {"."}, "", tree));
    Sha256 hash;
    for (const auto& [path, file] : tree.files) {
      hash.update(std::to_string(path.size()) + ":" + path + std::to_string(file.mode) + " " +
                  std::to_string(file.stat.size_bytes) + " " + std::to_string(file.stat.mtime_ns) + " " +
                  std::to_string(file.stat.ctime_ns) + " " + std::to_string(file.stat.inode) + ";");
      // Touched within the clock's grain: may change again and look the same.
      const auto now =
          std::chrono::duration_cast<std::chrono::nanoseconds>(ctx_.clock->wall().time_since_epoch());
      if (file.stat.ctime_ns > now.count() - 2'000'000'000) {
        hash.update(random_hex(8));
      }
    }
    source.identity = "dir " + folder + " " + hash.finish_hex();
    return ok();
  }

  // Builds the whole set beside its place and moves it there: nobody sees half of it.
  Result<void> build(const std::string& name) {
    const std::string draft = staged_dir_ + "/.new-" + random_hex(8);
    auto built = build_in(draft, name);
    std::error_code ignored;
    fs::remove_all(draft, ignored);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      fs::remove_all(export_folder(draft, i), ignored);
    }
    return built;
  }

  static std::string export_folder(const std::string& draft, std::size_t index) {
    return draft + ".source-" + std::to_string(index);
  }

  Result<void> build_in(const std::string& draft, const std::string& name) {
    ASCOPE_TRY(make_dirs(draft, 0755));
    std::map<std::string, std::pair<std::size_t, std::shared_ptr<HostFolder>>> skills;  // later over earlier
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      ASCOPE_TRY_ASSIGN(const auto folder, source_folder(i, export_folder(draft, i)));
      ASCOPE_TRY_ASSIGN(const auto names, list_dir(folder->path()));
      for (const auto& skill : names) {
        const bool is_skill = folder->open_regular(skill + "/SKILL.md").has_value();
        if (!is_skill || skill == ".git") {
          continue;
        }
        if (!is_segment(skill)) {
          notes.push_back("skill '" + skill + "' of '" + sources_[i].name_space +
                          "' is left out: its name is not usable");
          continue;
        }
        skills[skill] = {i, folder};
      }
    }
    Json list = Json::array();
    for (const auto& [skill, from] : skills) {
      const std::string& name_space = sources_[from.first].name_space;
      ASCOPE_TRY(copy_skill(from.second, skill, draft + "/" + name_space, notes));
      list.push_back(name_space + "/" + skill);
    }
    const Json about{{"skills", std::move(list)}, {"warnings", notes}};
    ASCOPE_TRY(write_file_atomic(staged_dir_ + "/" + name + ".json", dump_json(about)));
    if (::rename(draft.c_str(), result_.folder.c_str()) != 0) {
      return errno_error("moving '" + result_.folder + "' into place", errno);
    }
    return sync_dir(staged_dir_);
  }

  Result<std::shared_ptr<HostFolder>> source_folder(std::size_t index, const std::string& scratch) {
    const Source& source = sources_[index];
    if (source.spec.git.empty()) {
      return HostFolder::open(source.path.empty() ? source.spec.dir : source.spec.dir + "/" + source.path);
    }
    ASCOPE_TRY(export_commit(ctx_, source.commit, source.path, scratch));
    return HostFolder::open(scratch);
  }

  static Result<void> copy_skill(const std::shared_ptr<HostFolder>& folder, const std::string& skill,
                                 const std::string& target, std::vector<std::string>& notes) {
    HostTree tree;
    ASCOPE_TRY(collect_host_files(folder, {skill}, "", tree));
    for (const auto& refused : tree.refused) {
      notes.push_back("'" + refused.path + "' of skill '" + skill + "' is left out: " + refused.what);
    }
    for (const auto& [path, file] : tree.files) {
      if (path.find("/.git/") != std::string::npos || path.ends_with("/.git")) {
        continue;
      }
      const std::string to = target + "/" + path;
      ASCOPE_TRY(make_dirs(to.substr(0, to.rfind('/')), 0755));
      ASCOPE_TRY_ASSIGN(UniqueFd from, file.folder->open_regular(file.relative));
      ASCOPE_TRY_ASSIGN(UniqueFd out, open_file(to, O_WRONLY | O_CREAT | O_EXCL, file.mode));
      FdSource source(std::move(from));
      FdSink sink(out.get());
      ASCOPE_TRY(copy(source, sink));
      if (::fchmod(out.get(), file.mode) != 0) {
        return errno_error("setting the mode of '" + to + "'", errno);
      }
      ASCOPE_TRY(out.close());
    }
    return ok();
  }

  Result<void> read_list(const std::string& name) {
    ASCOPE_TRY_ASSIGN(const std::string text, read_file(staged_dir_ + "/" + name + ".json"));
    ASCOPE_TRY_ASSIGN(const Json about, parse_json(text));
    if (!about.is_object() || !about.contains("skills") || !about.contains("warnings")) {
      return make_error(ErrorKind::corrupt, "'" + staged_dir_ + "/" + name + ".json' is damaged",
                        "remove the folder " + staged_dir_);
    }
    for (const auto& skill : about["skills"]) {
      ASCOPE_TRY_ASSIGN(std::string text_of, json_bytes(skill));
      result_.skills.push_back(std::move(text_of));
    }
    result_.warnings = warnings_;
    for (const auto& note : about["warnings"]) {
      ASCOPE_TRY_ASSIGN(std::string text_of, json_bytes(note));
      result_.warnings.push_back(std::move(text_of));
    }
    return ok();
  }

  Result<void> clean(const std::string& name) {
    ASCOPE_TRY_ASSIGN(const auto names, list_dir(staged_dir_));
    const auto limit = fs::file_time_type::clock::now() - kStaleAfter;
    for (const auto& item : names) {
      if (item.starts_with(name)) {
        continue;
      }
      std::error_code failed;
      const auto touched = fs::last_write_time(staged_dir_ + "/" + item, failed);
      if (!failed && touched < limit) {
        fs::remove_all(staged_dir_ + "/" + item, failed);
      }
      if (failed) {
        return errno_error("removing '" + staged_dir_ + "/" + item + "'", failed.value());
      }
    }
    return ok();
  }

  const OpContext& ctx_;
  const std::vector<SkillSource>& specs_;
  const std::string& cache_dir_;
  std::string staged_dir_;
  std::set<std::string> name_spaces_;
  std::vector<Source> sources_;
  std::vector<std::string> warnings_;
  StagedSkills result_;
};

}  // namespace

Result<StagedSkills> stage_skills(const OpContext& ctx, const std::vector<SkillSource>& sources,
                                  const std::string& cache_dir) {
  if (sources.empty()) {
    return StagedSkills{};
  }
  return Stager(ctx, sources, cache_dir).run();
}

Result<void> fetch_git(const OpContext& ctx, const std::string& url, const std::string& ref,
                       const std::string& cache_dir, const std::string& folder, bool keep_git_dir) {
  ASCOPE_TRY_ASSIGN(const GitCommit commit, update_mirror(ctx, url, ref, cache_dir));
  if (!commit.unreachable.empty()) {
    return make_error(ErrorKind::io, commit.unreachable);
  }
  return keep_git_dir ? clone_commit(ctx, commit, url, folder) : export_commit(ctx, commit, "", folder);
}

}  // namespace ascope
