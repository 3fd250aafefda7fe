#include "common/rpc/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/check.h"

namespace lockstep {
namespace {

constexpr uint64_t kWakeKey = 0;
constexpr size_t kEventsOfLook = 64;
constexpr std::chrono::hours kLongestWait(1);

}  // namespace

Poller::Poller()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(epoll_ >= 0 && wake_event_ >= 0, "no descriptors: {}", std::strerror(errno));
  Control(EPOLL_CTL_ADD, wake_event_, EPOLLIN, kWakeKey);
}

Poller::~Poller() {
  close(wake_event_);
  close(epoll_);
}

void Poller::Control(int operation, int descriptor, uint32_t events, uint64_t key) const {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = key;
  const int result = epoll_ctl(epoll_, operation, descriptor, &event);
  LOCKSTEP_CHECK(result == 0, "epoll_ctl: {}", std::strerror(errno));
}

uint64_t Poller::Add(int descriptor, uint32_t events, std::shared_ptr<Watcher> watcher) {
  uint64_t key = 0;
  {
    MutexLock lock(mutex_);
    key = next_key_++;
    watchers_.emplace(key, std::move(watcher));
  }
  Control(EPOLL_CTL_ADD, descriptor, events, key);
  Wake();  // the thread may sleep longer than to the next tick
  return key;
}

void Poller::Change(uint64_t key, int descriptor, uint32_t events) {
  Control(EPOLL_CTL_MOD, descriptor, events, key);
}

void Poller::Remove(uint64_t key, int descriptor) {
  Control(EPOLL_CTL_DEL, descriptor, 0, key);
  std::shared_ptr<Watcher> watcher;  // destroyed without the lock: it may call the poller
  MutexLock lock(mutex_);
  const auto found = watchers_.find(key);
  if (found == watchers_.end()) return;
  watcher = std::move(found->second);
  watchers_.erase(found);
}

void Poller::Post(Task task) {
  {
    MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  Wake();
}

void Poller::Wake() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(woken_, true)) return;
  }
  const uint64_t one = 1;
  const ssize_t written = write(wake_event_, &one, sizeof(one));
  LOCKSTEP_CHECK(written == sizeof(one), "an event's counter has room for one");
}

size_t Poller::Poll(Time until) {
  Time now = std::chrono::steady_clock::now();
  {
    MutexLock lock(mutex_);
    if (!watchers_.empty()) until = std::min(until, next_tick_);
  }
  // Avoids an overflow for times far away.
  until = std::clamp(until, now, now + kLongestWait);
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now);
  std::array<epoll_event, kEventsOfLook> events;
  const int count =
      epoll_wait(epoll_, events.data(), events.size(), static_cast<int>(wait.count()));
  LOCKSTEP_CHECK(count >= 0 || errno == EINTR, "epoll_wait: {}", std::strerror(errno));
  size_t num_handled = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeKey) {
      num_handled += RunTasks();
      continue;
    }
    const std::shared_ptr<Watcher> watcher = Find(event.data.u64);
    if (watcher == nullptr) continue;  // removed meanwhile
    watcher->OnReady(event.events);
    ++num_handled;
  }
  if (wait.count() > 0) now = std::chrono::steady_clock::now();
  if (now >= next_tick_) Tick(now);
  return num_handled;
}

size_t Poller::RunTasks() {
  std::vector<Task> tasks;
  {
    MutexLock lock(mutex_);
    uint64_t count = 0;
    const ssize_t result = read(wake_event_, &count, sizeof(count));
    LOCKSTEP_CHECK(result == sizeof(count), "the event was set");
    woken_ = false;
    tasks.swap(tasks_);
  }
  for (Task& task : tasks) task();
  return tasks.size();
}

void Poller::Tick(Time now) {
  next_tick_ = now + kTick;
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(mutex_);
    watchers.reserve(watchers_.size());
    for (const auto& [key, watcher] : watchers_) watchers.push_back(watcher);
  }
  for (const std::shared_ptr<Watcher>& watcher : watchers) watcher->OnTick(now);
}

std::shared_ptr<Poller::Watcher> Poller::Find(uint64_t key) {
  MutexLock lock(mutex_);
  const auto found = watchers_.find(key);
  return found == watchers_.end() ? nullptr : found->second;
}

}  // namespace lockstep
