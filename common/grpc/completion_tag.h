#pragma once

namespace lockstep {

// What a completion queue hands back: the object whose operation is over.
class CompletionTag {
 public:
  virtual void OnComplete(bool ok) = 0;

  // As a completion queue takes and returns it.
  void* id() { return this; }
  static CompletionTag& FromId(void* id) { return *static_cast<CompletionTag*>(id); }

 protected:
  ~CompletionTag() = default;
};

// A tag that calls a method of its owner.
template <typename Owner>
class MethodTag final : public CompletionTag {
 public:
  using Method = void (Owner::*)(bool ok);
  MethodTag(Owner* owner, Method method) : owner_(owner), method_(method) {}
  void OnComplete(bool ok) override { (owner_->*method_)(ok); }

 private:
  Owner* const owner_;
  const Method method_;
};

}  // namespace lockstep
