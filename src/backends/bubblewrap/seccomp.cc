// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/seccomp.h"

#include <asm/ioctls.h>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <seccomp.h>

namespace ascope::bwrap {

namespace {

constexpr unsigned kSetIdBits = 06000;

struct Refused {
  const char* name;
  int error;
};

// ENOSYS where programs fall back to another call, EPERM where they should see a refusal.
constexpr Refused kRefused[] = {
    // the host's keyrings are shared by all its processes
    {"add_key", EPERM},
    {"keyctl", EPERM},
    {"request_key", EPERM},
    // large or often broken parts of the kernel
    {"bpf", EPERM},
    {"io_uring_enter", ENOSYS},
    {"io_uring_register", ENOSYS},
    {"io_uring_setup", ENOSYS},
    {"perf_event_open", EPERM},
    {"userfaultfd", EPERM},
    // mounts and namespaces
    {"fsconfig", EPERM},
    {"fsmount", EPERM},
    {"fsopen", EPERM},
    {"fspick", EPERM},
    {"mount", EPERM},
    {"mount_setattr", EPERM},
    {"move_mount", EPERM},
    {"open_tree", EPERM},
    {"pivot_root", EPERM},
    {"chroot", EPERM},
    {"setns", EPERM},
    {"umount", EPERM},
    {"umount2", EPERM},
    {"clone3", ENOSYS},  // its flags lie in memory, out of a filter's sight; the C library uses clone then
    // the machine
    {"acct", EPERM},
    {"delete_module", EPERM},
    {"finit_module", EPERM},
    {"init_module", EPERM},
    {"ioperm", EPERM},
    {"iopl", EPERM},
    {"kexec_file_load", EPERM},
    {"kexec_load", EPERM},
    {"lookup_dcookie", EPERM},
    {"nfsservctl", EPERM},
    {"open_by_handle_at", EPERM},
    {"name_to_handle_at", EPERM},
    {"quotactl", EPERM},
    {"quotactl_fd", EPERM},
    {"reboot", EPERM},
    {"swapoff", EPERM},
    {"swapon", EPERM},
    {"syslog", EPERM},
    {"uselib", ENOSYS},
    {"vhangup", EPERM},
};

// Keeps the first failure; a call that this kernel's table does not know needs no rule.
class Rules {
 public:
  explicit Rules(scmp_filter_ctx filter) : filter_(filter) {}

  template <typename... Args>
  void refuse(const char* name, int error, Args... args) {
    const int number = ::seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR || number < 0 || failure_ != 0) {
      return;
    }
    const int result = ::seccomp_rule_add(filter_, SCMP_ACT_ERRNO(static_cast<std::uint16_t>(error)), number,
                                          sizeof...(args), args...);
    failure_ = result < 0 ? -result : 0;
  }
  [[nodiscard]] int failure() const { return failure_; }

 private:
  scmp_filter_ctx filter_;
  int failure_ = 0;
};

scmp_arg_cmp has_bits(unsigned argument, scmp_datum_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, bits, bits};
}

scmp_arg_cmp low_word_is(unsigned argument, scmp_datum_t value) {
  // The kernel looks at 32 bits of these; the upper half must not hide the value.
  return {argument, SCMP_CMP_MASKED_EQ, 0xffffffffU, value};
}

void refuse_setid_modes(Rules& rules) {
  struct ModeArgument {
    const char* name;
    unsigned argument;
  };
  for (const ModeArgument& call : {ModeArgument{"chmod", 1},
                                   {"fchmod", 1},
                                   {"fchmodat", 2},
                                   {"fchmodat2", 2},
                                   {"creat", 1},
                                   {"mkdir", 1},
                                   {"mkdirat", 2},
                                   {"mknod", 1},
                                   {"mknodat", 2}}) {
    for (const scmp_datum_t bit : {scmp_datum_t{04000}, scmp_datum_t{02000}}) {
      rules.refuse(call.name, EPERM, has_bits(call.argument, bit));
    }
  }
  for (const scmp_datum_t bit : {scmp_datum_t{04000}, scmp_datum_t{02000}}) {
    for (const scmp_datum_t flag : {scmp_datum_t{O_CREAT}, scmp_datum_t{__O_TMPFILE}}) {
      rules.refuse("open", EPERM, has_bits(1, flag), has_bits(2, bit));
      rules.refuse("openat", EPERM, has_bits(2, flag), has_bits(3, bit));
    }
  }
  rules.refuse("openat2", ENOSYS);  // its mode lies in memory
  static_assert(kSetIdBits == (04000 | 02000));
}

}  // namespace

Result<UniqueFd> make_seccomp_filter(bool refuse_setid) {
  const std::unique_ptr<void, void (*)(void*)> filter(::seccomp_init(SCMP_ACT_ALLOW),
                                                      [](void* context) { ::seccomp_release(context); });
  if (filter == nullptr) {
    return make_error(ErrorKind::internal, "making a seccomp filter failed");
  }
  // Calls of other ABIs (i386, x32) would carry other numbers past the rules.
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  Rules rules(filter.get());
  for (const Refused& call : kRefused) {
    rules.refuse(call.name, call.error);
  }
  rules.refuse("socket", EPERM, low_word_is(0, AF_VSOCK));  // no network namespace cuts it off
  rules.refuse("socketpair", EPERM, low_word_is(0, AF_VSOCK));
  rules.refuse("unshare", EPERM, has_bits(0, CLONE_NEWUSER));
  rules.refuse("clone", EPERM, has_bits(0, CLONE_NEWUSER));
  rules.refuse("ioctl", EPERM, low_word_is(1, TIOCSTI));
  rules.refuse("ioctl", EPERM, low_word_is(1, TIOCLINUX));
  // personality(0) is what everybody has, personality(0xffffffff) only asks: any bit without the topmost is
  // refused.
  for (unsigned bit = 0; bit < 28; ++bit) {
    const scmp_datum_t value = scmp_datum_t{1} << bit;
    rules.refuse("personality", EPERM, scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, 0x80000000U | value, value});
  }
  if (refuse_setid) {
    refuse_setid_modes(rules);
  }
  if (rules.failure() != 0) {
    return errno_error("building the seccomp filter", rules.failure());
  }
  UniqueFd fd(::memfd_create("ascope-seccomp", MFD_CLOEXEC));
  if (!fd.is_open()) {
    return errno_error("making a memory file", errno);
  }
  if (const int result = ::seccomp_export_bpf(filter.get(), fd.get()); result < 0) {
    return errno_error("writing the seccomp filter", -result);
  }
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) {
    return errno_error("rewinding the seccomp filter", errno);
  }
  return fd;
}

}  // namespace ascope::bwrap
