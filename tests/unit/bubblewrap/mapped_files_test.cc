// SPDX-License-Identifier: Apache-2.0
#include "backends/local/mapped_files.h"

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakes/temp_folder.h"
#include "unit/bubblewrap/fixture.h"

using namespace ascope;        // NOLINT(google-build-using-namespace)
using namespace ascope::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("mapped files: shared mappings of files count, private and anonymous ones do not") {
  std::set<std::uint64_t> inodes;
  local::add_mapped_files(
      "7f0000000000-7f0000001000 rw-s 00000000 fe:00 1234                       /workspace/a b\n"
      "7f0000001000-7f0000002000 r--s 00001000 fe:00 18446744073709551615       /workspace/big\n"
      "7f0000002000-7f0000003000 rw-p 00000000 fe:00 77                         /usr/lib/x.so\n"
      "7f0000003000-7f0000004000 rw-s 00000000 00:01 0                          \n"
      "not a line\n\n7f00-7f01 rw-s",
      inodes);
  CHECK(inodes == std::set<std::uint64_t>{1234, 18446744073709551615U});
}

TEST_CASE("mapped files: those of a process below the guest, and of none that is gone") {
  const TempFolder folder;
  const std::string path = folder.path() + "/mapped";
  // The "guest" is a child of ours, with a child that maps the file.
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t guest = ::fork();
  REQUIRE(guest >= 0);
  if (guest == 0) {
    const pid_t below = ::fork();
    if (below == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      const bool mapped = ::ftruncate(fd, 4096) == 0 &&
                          ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
      ::close(fd);
      static_cast<void>(::write(ready[1], mapped ? "y" : "n", 1));
    }
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  REQUIRE(::read(ready[0], &answer, 1) == 1);
  CHECK(answer == 'y');
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  const auto found = local::mapped_files_below(guest);
  REQUIRE(found.has_value());
  if (found->has_value()) {
    CHECK((*found)->contains(info.st_ino));
  } else {
    MESSAGE("this kernel does not list a process's children");
  }
  ::kill(guest, SIGKILL);
  ::waitpid(guest, nullptr, 0);
  const auto gone = local::mapped_files_below(guest);
  REQUIRE(gone.has_value());
  CHECK((!gone->has_value() || (*gone)->empty()));
  ::close(ready[0]);
  ::close(ready[1]);
}
