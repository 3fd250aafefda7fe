#include "router/templates/renderer_cage.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <new>
#include <vector>

#include "router/templates/renderer_process.h"

namespace lockstep::router {
namespace {

constexpr rlim_t kStackBytes = rlim_t{8} << 20;
constexpr size_t kSignalStackBytes = size_t{64} << 10;

alignas(16) std::array<std::byte, kSignalStackBytes> signal_stack;
uintptr_t stack_top = 0;

bool Limit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{.rlim_cur = value, .rlim_max = value};
  return setrlimit(resource, &limit) == 0;
}

bool LimitStack() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return false;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= kStackBytes) {
    limit.rlim_cur = kStackBytes;
  }
  return setrlimit(RLIMIT_STACK, &limit) == 0;
}

[[noreturn]] void EndForMemory() { _exit(static_cast<int>(RendererExit::kMemory)); }

// A fault near the stack is its overflow. Any other comes again when this returns, and then ends
// the process.
void OnFault(int signal_number, siginfo_t* info, void*) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  constexpr uintptr_t kSlack = uintptr_t{1} << 20;
  if (address <= stack_top && stack_top - address <= kStackBytes + kSlack) {
    _exit(static_cast<int>(RendererExit::kStack));
  }
  signal(signal_number, SIG_DFL);
}

bool NoticeStackOverflow() {
  stack_top = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const stack_t stack{.ss_sp = signal_stack.data(), .ss_flags = 0, .ss_size = signal_stack.size()};
  if (sigaltstack(&stack, nullptr) != 0) return false;
  struct sigaction action {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(SIGSEGV, &action, nullptr) == 0 && sigaction(SIGBUS, &action, nullptr) == 0;
}

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

// The calls that the program makes after its start. None of them opens or creates anything, or
// reaches another process.
constexpr long kAllowedCalls[] = {
    SYS_read,         SYS_write,          SYS_recvfrom,      SYS_sendto,     SYS_ppoll,
#if defined(SYS_poll)
    SYS_poll,
#endif
    SYS_brk,          SYS_mmap,           SYS_munmap,        SYS_mremap,     SYS_madvise,
    SYS_futex,        SYS_setitimer,      SYS_clock_gettime, SYS_getrandom,  SYS_rt_sigaction,
    SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_exit,          SYS_exit_group, SYS_restart_syscall};

bool RestrictCalls() {
  if (kSanitized || kArchitecture == 0) return true;
  constexpr auto kCalls = static_cast<uint8_t>(std::size(kAllowedCalls));
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  // On a match: over the rest of the list and the end of the process.
  for (uint8_t i = 0; i < kCalls; ++i) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kAllowedCalls[i]),
                              static_cast<uint8_t>(kCalls - i), 0));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                           .filter = filter.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

bool EnterCage(const CageLimits& limits) {
  std::set_new_handler(EndForMemory);
  prctl(PR_SET_NAME, "template-render");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != limits.parent) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  // Sanitizers open pipes to see whether memory is there.
  const bool limited = (kSanitized || Limit(RLIMIT_NOFILE, 3)) && Limit(RLIMIT_CORE, 0) &&
                       Limit(RLIMIT_NPROC, 0) && Limit(RLIMIT_FSIZE, 0) && LimitStack() &&
                       (kSanitized || Limit(RLIMIT_AS, limits.memory_bytes));
  if (!limited || !NoticeStackOverflow()) return false;
  return RestrictCalls();
}

void AllowProcessorTime(uint32_t seconds) {
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace lockstep::router
