#pragma once

#include <cstddef>
#include <memory>

#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/http/messages/http_request.h"

namespace lockstep::testing {

inline constexpr size_t kLargeAnswerBytes = size_t{16} << 20;

// What a gateway might answer, by path, without a model:
//   /echo    the method and the body
//   /stream  three events, one after the other was written
//   /large   kLargeAnswerBytes at once
//   /silent  nothing, ever
//   /guarded 401, before the body is read
//   others   404
std::shared_ptr<router::Exchange> ScriptedAnswer(router::HttpRequest request,
                                                 std::shared_ptr<router::OutputSignal> signal);

}  // namespace lockstep::testing
