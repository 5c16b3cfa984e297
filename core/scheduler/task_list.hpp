// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Doubly linked list through the elements themselves: O(1) removal from the middle, no allocation.
#pragma once

#include <cstddef>

namespace goblin::scheduler {

template <typename T>
struct Hook {
  T* prev = nullptr;
  T* next = nullptr;
  bool linked = false;
};

/// Elements are not owned and must be removed before they die. An element is in at most one list
/// per hook.
template <typename T, Hook<T> T::*kHook>
class LinkedList {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* front() const { return head_; }
  static T* next(const T* item) { return (item->*kHook).next; }
  static bool linked(const T* item) { return (item->*kHook).linked; }

  void push_back(T* item) {
    Hook<T>& hook = item->*kHook;
    hook = {tail_, nullptr, true};
    (tail_ == nullptr ? head_ : (tail_->*kHook).next) = item;
    tail_ = item;
    ++size_;
  }
  void remove(T* item) {
    Hook<T>& hook = item->*kHook;
    (hook.prev == nullptr ? head_ : (hook.prev->*kHook).next) = hook.next;
    (hook.next == nullptr ? tail_ : (hook.next->*kHook).prev) = hook.prev;
    hook = {};
    --size_;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace goblin::scheduler
