// Streams and events.
#include <algorithm>

#include "acl/acl.h"
#include "process.h"

using namespace opserve;

namespace {

constexpr uint64_t WAIT_PART_MS = 60'000;  // a service ends every call after a while
constexpr uint64_t FIRST_FAILURE_MODE = 1;
constexpr uint32_t FOREIGN_EVENTS = ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

void* create(Table<Object> Process::*table, const Command& command)
{
    const ContextPointer context = current_context();
    const auto handle = static_cast<uint32_t>(field_of(context->run(command, Message()), 1).value);
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    return (mine.*table).add({context, handle});
}

void forget(Table<Object> Process::*table, const void* handle)
{
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    (mine.*table).remove(handle);
}

Object event_of(const void* event)
{
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    const Object* found = mine.events.find(required(event, "event"));
    if (found == nullptr) throw Failure(ACL_ERROR_RT_PARAM_INVALID, "there is no such event");
    return *found;
}

// Waits for an object: with -1 as long as it takes, in parts.
void wait(const Object& object, const Command& command, int timeout_code, int64_t timeout_ms)
{
    if (timeout_ms < -1) {
        throw Failure(ACL_ERROR_RT_PARAM_INVALID, "a time-out is -1, or milliseconds");
    }
    uint64_t left = timeout_ms < 0 ? WAIT_PART_MS : static_cast<uint64_t>(timeout_ms);
    for (;;) {
        const uint64_t part = std::min(left, WAIT_PART_MS);
        try {
            object.context->run(command, Message().number(2, object.handle).present(3, part));
            return;
        } catch (const Failure& failure) {
            if (timeout_ms >= 0) left -= part;
            if (failure.code != timeout_code || left == 0) throw;
        }
    }
}

void synchronize(const Object& stream, int64_t timeout_ms)
{
    wait(stream, command::SYNCHRONIZE_STREAM, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, timeout_ms);
}

void synchronize_device()
{
    const ContextPointer context = current_context();
    std::vector<Object> streams{{context, 0}};
    {
        Process& mine = process();
        const std::lock_guard<std::mutex> lock(mine.mutex);
        for (const auto& [handle, stream] : mine.streams.all()) {
            if (stream.context == context) streams.push_back(stream);
        }
    }
    for (const Object& stream : streams) synchronize(stream, -1);
}

void destroy_stream(void* handle, bool aborted)
{
    const Object stream = stream_of(required(handle, "stream"));
    const Message request = Message().number(2, stream.handle);
    if (aborted) stream.context->run(command::ABORT_STREAM, request);
    stream.context->run(command::DESTROY_STREAM, request);
    forget(&Process::streams, handle);
}

aclError create_event(const char* function, aclrtEvent* event, uint32_t flag)
{
    return guarded(function, [&] {
        required(event, "event");
        if ((flag & FOREIGN_EVENTS) != 0) {
            throw Failure(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "events of other processes (ACL_EVENT_EXTERNAL, ACL_EVENT_IPC) are not "
                          "supported");
        }
        *event = create(&Process::events, command::CREATE_EVENT);
    });
}

void same_context(const Object& one, const Object& other)
{
    if (one.context == other.context) return;
    throw Failure(ACL_ERROR_RT_STREAM_CONTEXT, "the stream and the event are of two contexts");
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream)
{
    return guarded("aclrtCreateStream", [&] {
        required(stream, "stream");
        *stream = create(&Process::streams, command::CREATE_STREAM);
    });
}

// Priority and flags are hints about hardware queues.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t)
{
    return aclrtCreateStream(stream);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    return guarded("aclrtDestroyStream", [&] { destroy_stream(stream, false); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    return guarded("aclrtDestroyStreamForce", [&] { destroy_stream(stream, true); });
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    return guarded("aclrtSynchronizeStream", [&] { synchronize(stream_of(stream), -1); });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    return guarded("aclrtSynchronizeStreamWithTimeout",
                   [&] { synchronize(stream_of(stream), timeout); });
}

aclError aclrtSynchronizeDevice(void)
{
    return guarded("aclrtSynchronizeDevice", [] { synchronize_device(); });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status)
{
    return guarded("aclrtStreamQuery", [&] {
        required(status, "status");
        const Object found = stream_of(stream);
        const std::string answer =
            found.context->run(command::QUERY_STREAM, Message().number(2, found.handle));
        const bool complete = field_of(answer, 1).value != 0;
        *status = complete ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    return guarded("aclrtSetStreamFailureMode", [&] {
        if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
            throw Failure(ACL_ERROR_RT_PARAM_INVALID, "a failure mode is 0 or 1");
        }
        const Object found = stream_of(stream);
        found.context->run(command::SET_FAILURE_MODE,
                           Message().number(2, found.handle).number(3, mode + FIRST_FAILURE_MODE));
    });
}

aclError aclrtCreateEvent(aclrtEvent* event) { return create_event("aclrtCreateEvent", event, 0); }

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag)
{
    return create_event("aclrtCreateEventWithFlag", event, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag)
{
    return create_event("aclrtCreateEventExWithFlag", event, flag);
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    return guarded("aclrtDestroyEvent", [&] {
        const Object found = event_of(event);
        found.context->run(command::DESTROY_EVENT, Message().number(2, found.handle));
        forget(&Process::events, event);
    });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    return guarded("aclrtRecordEvent", [&] {
        const Object found = event_of(event), on = stream_of(stream);
        same_context(found, on);
        on.context->run(command::RECORD_EVENT,
                        Message().number(2, found.handle).number(3, on.handle));
    });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    return guarded("aclrtStreamWaitEvent", [&] {
        const Object found = event_of(event), on = stream_of(stream);
        same_context(found, on);
        on.context->run(command::STREAM_WAIT_EVENT,
                        Message().number(2, on.handle).number(3, found.handle));
    });
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    return guarded("aclrtSynchronizeEvent", [&] {
        wait(event_of(event), command::SYNCHRONIZE_EVENT, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, -1);
    });
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    return guarded("aclrtSynchronizeEventWithTimeout", [&] {
        wait(event_of(event), command::SYNCHRONIZE_EVENT, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, timeout);
    });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status)
{
    return guarded("aclrtQueryEventStatus", [&] {
        required(status, "status");
        const Object found = event_of(event);
        const std::string answer =
            found.context->run(command::QUERY_EVENT, Message().number(2, found.handle));
        const bool complete = field_of(answer, 1).value != 0;
        *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    return guarded("aclrtEventElapsedTime", [&] {
        required(ms, "ms");
        const Object start = event_of(startEvent), end = event_of(endEvent);
        same_context(start, end);
        const std::string answer = start.context->run(
            command::EVENT_ELAPSED_TIME, Message().number(2, start.handle).number(3, end.handle));
        *ms = static_cast<float>(field_of(answer, 1).real);
    });
}
