#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <string>

#include "common/check.h"
#include "common/sampling_numbers.h"

// Reads and writes sampling numbers in messages that have a field of the same name and kind for
// each.
namespace lockstep {

// The fields, in the order of kSamplingNumbers. Looked up once for each kind of message.
template <typename Message>
const auto& SamplingFieldsOf() {
  static const auto fields = [] {
    std::array<const google::protobuf::FieldDescriptor*, std::size(kSamplingNumbers)> found;
    for (size_t i = 0; i < found.size(); ++i) {
      found[i] = Message::descriptor()->FindFieldByName(std::string(kSamplingNumbers[i].name));
      using Field = google::protobuf::FieldDescriptor;
      const auto type =
          kSamplingNumbers[i].real != nullptr ? Field::CPPTYPE_FLOAT : Field::CPPTYPE_UINT32;
      LOCKSTEP_CHECK(
          found[i] != nullptr && found[i]->cpp_type() == type && !found[i]->is_repeated(),
          "{} has no field {} of the right type", Message::descriptor()->full_name(),
          kSamplingNumbers[i].name);
    }
    return found;
  }();
  return fields;
}

// Leaves a number unchanged if its field is optional and not set.
template <typename Message>
void ReadSamplingNumbers(const Message& message, SamplingNumbers& numbers) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& fields = SamplingFieldsOf<Message>();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i]->has_presence() && !reflection.HasField(message, fields[i])) continue;
    const SamplingNumber& number = kSamplingNumbers[i];
    if (number.real != nullptr) {
      numbers.*number.real = reflection.GetFloat(message, fields[i]);
    } else {
      numbers.*number.whole = reflection.GetUInt32(message, fields[i]);
    }
  }
}

template <typename Message>
void WriteSamplingNumbers(const SamplingNumbers& numbers, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& fields = SamplingFieldsOf<Message>();
  for (size_t i = 0; i < fields.size(); ++i) {
    const SamplingNumber& number = kSamplingNumbers[i];
    if (number.real != nullptr) {
      reflection.SetFloat(&message, fields[i], numbers.*number.real);
    } else {
      reflection.SetUInt32(&message, fields[i], numbers.*number.whole);
    }
  }
}

}  // namespace lockstep
