// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/base/file.h"
#include "core/profile/build.h"
#include "core/profile/check.h"
#include "core/profile/trust.h"

namespace ascope {
namespace {

struct ProfileFile {
  std::string path;  // absolute
  std::string name;  // as it stands in messages
  std::string text;
  uid_t owner = 0;
};

// Reads at most one byte more than a profile may have, so that what is too large is known by its size.
Result<std::string> read_limited(int fd, const std::string& name) {
  std::string text;
  char buffer[16'384];
  while (text.size() <= kMaxProfileBytes) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return errno_error(fmt::format("reading '{}'", name), errno);
    }
    if (got == 0) {
      break;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// nullopt if nothing is there. A file that was only found must be a regular one: what a pipe holds was not
// put there for us.
Result<std::optional<ProfileFile>> read_profile_file(const std::string& path, const std::string& name,
                                                     bool found) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (found ? O_NONBLOCK : 0);
  const UniqueFd fd(::open(path.c_str(), flags));
  if (!fd.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return std::optional<ProfileFile>();
    }
    return errno_error(fmt::format("opening the profile '{}'", name), errno)
        .with_hint("name another profile with --profile FILE");
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return errno_error(fmt::format("looking at the profile '{}'", name), errno);
  }
  if (S_ISDIR(info.st_mode) || (found && !S_ISREG(info.st_mode))) {
    return make_error(ErrorKind::config, fmt::format("{}: not a file", name),
                      "name another profile with --profile FILE");
  }
  ASCOPE_TRY_ASSIGN(std::string text, read_limited(fd.get(), name));
  return std::optional<ProfileFile>(ProfileFile{path, name, std::move(text), info.st_uid});
}

// The nearest ascope.yaml in the working directory or above it.
Result<std::optional<ProfileFile>> find_project_file(const std::string& cwd) {
  std::string folder = cwd;
  while (true) {
    const std::string path = (folder == "/" ? "" : folder) + "/ascope.yaml";
    ASCOPE_TRY_ASSIGN(std::optional<ProfileFile> file,
                      read_profile_file(path, folder == cwd ? "ascope.yaml" : path, true));
    if (file || folder == "/" || folder.empty()) {
      return file;
    }
    folder.resize(folder.rfind('/'));
    if (folder.empty()) {
      folder = "/";
    }
  }
}

std::string parent_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

class Loader {
 public:
  Loader(const ProfileInputs& inputs, std::span<const BackendKind* const> kinds)
      : inputs_(inputs), kinds_(kinds) {}

  ProfileCheck load() {
    layer_ = builtin_layer();
    user_file();
    if (inputs_.profile_file) {
      named_file();
    } else {
      project_file();
    }
    lay_over(layer_, read_environment_layer(inputs_, problems_, profile_.warnings));
    lay_over(layer_, read_pairs_layer(inputs_.set, false, inputs_, problems_));
    lay_over(layer_, read_pairs_layer(inputs_.flags, true, inputs_, problems_));
    build_profile(layer_, inputs_.environment, kinds_, profile_, problems_);
    return ProfileCheck{std::move(profile_), std::move(problems_)};
  }

 private:
  void add_file(const ProfileFile& file, OriginKind kind, std::vector<TrustIssue>* issues) {
    const ProfileSource source{file.name, parent_folder(file.path), inputs_.home, true, issues};
    profile_.files.push_back(file.path);
    lay_over(layer_, read_file_layer(file.text, source, kind, problems_));
  }

  void user_file() {
    if (inputs_.config_dir.empty()) {
      return;
    }
    const std::string path = inputs_.config_dir + "/profile.yaml";
    auto file = read_profile_file(path, path, true);
    if (!file) {
      problems_.push_back(std::move(file).error());
    } else if (file->has_value()) {
      add_file(**file, OriginKind::user_file, nullptr);
    }
  }

  void named_file() {
    const std::string& name = *inputs_.profile_file;
    auto file = read_profile_file(absolute_path(name, inputs_.cwd), name, false);
    if (!file) {
      problems_.push_back(std::move(file).error());
    } else if (!file->has_value()) {
      problems_.push_back(make_error(ErrorKind::config, fmt::format("{}: there is no such profile", name),
                                     "'ascope-sandbox profile init' writes one"));
    } else {
      add_file(**file, OriginKind::named_file, nullptr);
    }
  }

  void project_file() {
    auto file = find_project_file(inputs_.cwd);
    if (!file) {
      problems_.push_back(std::move(file).error());
      return;
    }
    if (!file->has_value()) {
      return;
    }
    std::vector<TrustIssue> issues;
    const ProfileFile& found = **file;
    const bool foreign = found.owner != ::geteuid();
    if (foreign && !trusted(found)) {
      problems_.push_back(make_error(
          ErrorKind::config, fmt::format("{}: belongs to another user (uid {})", found.name, found.owner),
          trust_hint(found)));
      return;
    }
    add_file(found, OriginKind::project_file, &issues);
    if (issues.empty() || foreign || trusted(found)) {
      return;
    }
    for (const TrustIssue& issue : issues) {
      problems_.push_back(make_error(
          ErrorKind::config,
          fmt::format("{}: '{}' {}, which a profile that was only found may not do until it is trusted",
                      to_string(issue.place), issue.key, issue.what),
          trust_hint(found)));
    }
  }

  // A list that cannot be read trusts nothing.
  bool trusted(const ProfileFile& file) {
    auto answer = is_trusted_profile(inputs_.state_dir, file.path, file.text);
    if (!answer) {
      problems_.push_back(std::move(answer).error());
      return false;
    }
    return *answer;
  }

  static std::string trust_hint(const ProfileFile& file) {
    return fmt::format("read it, then: ascope-sandbox profile trust {}", shell_word(file.name));
  }

  // The name so that it can be pasted into a shell.
  static std::string shell_word(const std::string& name) {
    const bool plain =
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+@") ==
        std::string::npos;
    if (plain) {
      return name;
    }
    std::string quoted = "'";
    for (const char c : name) {
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
  }

  const ProfileInputs& inputs_;
  std::span<const BackendKind* const> kinds_;
  Layer layer_;
  Profile profile_;
  Problems problems_;
};

}  // namespace

Result<std::optional<std::string>> find_project_profile(const std::string& cwd) {
  ASCOPE_TRY_ASSIGN(std::optional<ProfileFile> file, find_project_file(cwd));
  return file ? std::optional<std::string>(std::move(file->path)) : std::nullopt;
}

ProfileCheck check_profile(const ProfileInputs& inputs, std::span<const BackendKind* const> backend_kinds) {
  return Loader(inputs, backend_kinds).load();
}

Result<Profile> load_profile(const ProfileInputs& inputs, std::span<const BackendKind* const> backend_kinds) {
  ProfileCheck check = check_profile(inputs, backend_kinds);
  if (!check.problems.empty()) {
    return std::move(check.problems.front());
  }
  return std::move(check.profile);
}

}  // namespace ascope
