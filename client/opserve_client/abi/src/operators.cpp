// Both phases of a call, and executors.
#include "operators.h"

#include <algorithm>
#include <cstdio>

#include "process.h"

namespace opserve {
namespace {

constexpr int NULLPTR = 161001, INVALID = 161002, INNER_NULLPTR = 561103;

// A tensor of a planned call, as it was in phase one.
struct PlannedTensor {
    int field = 0;
    bool written = false, null = false;
    aclTensor tensor;
};

}  // namespace

// A planned call. It keeps its arguments: a repeatable one is planned anew for other addresses.
struct Executor {
    std::mutex mutex;
    ContextPointer context;
    int field = 0;
    std::vector<PlannedTensor> tensors;
    std::vector<std::pair<int, Message>> arrays;
    std::vector<std::pair<int, int64_t>> numbers;
    uint32_t handle = 0;
    bool repeatable = false, moved = false;
};
using ExecutorPointer = std::shared_ptr<Executor>;

namespace {

bool is_known(const std::vector<int>& values, int value)
{
    return std::find(values.begin(), values.end(), value) != values.end();
}

Message message_of(const aclTensor& tensor, const ContextPointer& context)
{
    if (!is_known(KNOWN_FORMATS, tensor.format)) {
        throw Failure(INVALID, "no tensor may have format " + std::to_string(tensor.format));
    }
    // A dtype that the service does not know is UNDEFINED there, which no operator accepts.
    const bool typed = is_known(KNOWN_TYPES, tensor.type);
    Message message;
    message.packed(1, tensor.shape).number(2, typed ? static_cast<uint64_t>(tensor.type) + 1 : 0);
    message.number(3, static_cast<uint64_t>(tensor.format) + 1);
    message.part(4, Message().packed(1, tensor.strides));
    int64_t offset = tensor.offset;
    bool whole = true;
    if (tensor.data != nullptr) {
        const Place place = place_of(tensor.data, 0);
        if (place.buffer.context != context) {
            throw Failure(ACL_ERROR_RT_PARAM_INVALID, "a tensor is in memory of another context");
        }
        const uint64_t element = aclDataTypeSize(tensor.type);
        if (element == 0 || place.offset % element != 0) {
            throw Failure(INVALID, "a tensor's address is not a multiple of its elements' size");
        }
        offset += static_cast<int64_t>(place.offset / element);
        whole = place.offset == 0;
        message.number(7, place.buffer.handle);
    }
    message.number(5, static_cast<uint64_t>(offset));
    // Storage that begins inside a buffer has no dimensions there: the buffer's end bounds it.
    if (whole) message.part(6, Message().packed(1, tensor.storage));
    return message;
}

Message request_of(const Executor& planned)
{
    Message arguments;
    for (const PlannedTensor& one : planned.tensors) {
        if (!one.null) arguments.part(one.field, message_of(one.tensor, planned.context));
    }
    for (const auto& [field, array] : planned.arrays) arguments.part(field, array);
    for (const auto& [field, number] : planned.numbers) {
        arguments.present(field, static_cast<uint64_t>(number));
    }
    return Message().part(planned.field, arguments);
}

// The page's rules that a call breaks: for aclGetRecentErrMsg each time, on stderr once.
void report(const char* function, std::string_view warning)
{
    const auto text = [&](int field) { return std::string(field_of(warning, field).bytes); };
    const std::string rule = std::string(function) + ": " + text(4);
    const std::string sentence = rule + " has " + text(5) + ", and the page allows " + text(6) + " (" +
        text(2) + "): " + text(7);
    note(sentence);
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    if (mine.reported_rules.insert(rule + text(7)).second) {
        std::fprintf(stderr, "opserve: warning: %s\n", sentence.c_str());
    }
}

// Plans a call, and returns its workspace's size.
uint64_t plan(const char* function, Executor& planned)
{
    const std::string answer = planned.context->run(command::GET_WORKSPACE_SIZE, request_of(planned));
    uint64_t size = 0;
    for (const Field& field : fields_of(answer)) {
        if (field.number == 1) size = field.value;
        if (field.number == 2) planned.handle = static_cast<uint32_t>(field.value);
        if (field.number == 3) report(function, field.bytes);
    }
    return size;
}

ExecutorPointer planned_call(std::initializer_list<Argument> arguments, int field)
{
    const auto planned = std::make_shared<Executor>();
    planned->context = current_context();
    planned->field = field;
    for (const Argument& one : arguments) {
        if (one.kind == Argument::NUMBER) {
            planned->numbers.emplace_back(one.field, one.number);
        } else if (one.kind == Argument::TENSOR) {
            const bool null = one.tensor == nullptr;
            planned->tensors.push_back(
                {one.field, one.written, null, null ? aclTensor() : *one.tensor});
        } else if (one.values != nullptr) {
            planned->arrays.emplace_back(one.field, Message().packed(1, *one.values));
        }
    }
    return planned;
}

ExecutorPointer find(aclOpExecutor* executor, int null_code)
{
    required(executor, "executor", null_code);
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    const auto found = mine.executors.find(executor);
    if (found == mine.executors.end()) {
        throw Failure(ACL_ERROR_RT_INVALID_HANDLE, "there is no such executor: it has run, or it is "
                                                   "that of another call");
    }
    return found->second;
}

void remove(aclOpExecutor* executor)
{
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    if (mine.executors.erase(executor) > 0) ::operator delete(executor);
}

// Plans a call anew where its tensors have other addresses than when it was planned.
void follow_addresses(const char* function, Executor& planned)
{
    if (!planned.moved) return;
    const uint32_t before = planned.handle;
    plan(function, planned);
    planned.moved = false;
    planned.context->run(command::SET_REPEATABLE, Message().number(2, planned.handle));
    planned.context->run(command::DESTROY_EXECUTOR, Message().number(2, before));
}

void submit(Executor& planned, void* workspace, uint64_t size, const Object& stream)
{
    Message request;
    request.number(2, planned.handle).number(6, stream.handle);
    if (size > 0) {
        const Place place = place_of(required(workspace, "workspace", NULLPTR), size);
        request.number(3, place.buffer.handle).number(4, place.offset).present(5, size);
    }
    planned.context->run(command::EXECUTE, request);
}

void destroy(const Executor& planned)
{
    planned.context->run(command::DESTROY_EXECUTOR, Message().number(2, planned.handle));
}

// After a failure, which is the one to report.
void destroy_quietly(const Executor& planned)
{
    try {
        destroy(planned);
    } catch (const Failure&) {
        // It has ended with its session, or by the failure itself.
    }
}

// Needs the executor's mutex. An executor that is not repeatable ends here, by success or failure.
void run(const char* function, aclOpExecutor* executor, Executor& planned, void* workspace,
         uint64_t size, aclrtStream stream)
{
    const bool once = !planned.repeatable;
    if (once) remove(executor);
    try {
        const Object on = stream == nullptr ? Object{planned.context, 0} : stream_of(stream);
        if (on.context != planned.context) {
            throw Failure(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is not of the executor's context");
        }
        follow_addresses(function, planned);
        submit(planned, workspace, size, on);
    } catch (const Failure&) {
        if (once) destroy_quietly(planned);
        throw;
    }
}

enum class Among { INPUTS, OUTPUTS, ALL };

aclnnStatus set_address(const char* function, aclOpExecutor* executor, size_t index,
                        const aclTensor* tensor, void* address, Among among)
{
    return guarded(function, [&] {
        const ExecutorPointer planned = find(executor, INNER_NULLPTR);
        required(tensor, "tensor", INNER_NULLPTR);
        required(address, "addr", INNER_NULLPTR);
        const std::lock_guard<std::mutex> lock(planned->mutex);
        place_of(address, 0);
        for (PlannedTensor& one : planned->tensors) {
            if (among != Among::ALL && one.written != (among == Among::OUTPUTS)) continue;
            if (index-- > 0) continue;
            if (one.null) break;
            one.tensor.data = address;
            planned->moved = true;
            return;
        }
        throw Failure(INVALID, "the call has no such tensor, or it was a null pointer in phase one");
    });
}

}  // namespace

aclnnStatus plan(const char* function, int field, std::initializer_list<Argument> arguments,
                 uint64_t* workspace_size, aclOpExecutor** executor)
{
    return guarded(function, [&] {
        required(executor, "executor", NULLPTR);
        required(workspace_size, "workspaceSize", NULLPTR);
        const ExecutorPointer planned = planned_call(arguments, field);
        *workspace_size = plan(function, *planned);
        *executor = static_cast<aclOpExecutor*>(::operator new(sizeof(aclOpExecutor)));
        Process& mine = process();
        const std::lock_guard<std::mutex> lock(mine.mutex);
        mine.executors[*executor] = planned;
    });
}

aclnnStatus execute(const char* function, void* workspace, uint64_t workspace_size,
                    aclOpExecutor* executor, aclrtStream stream)
{
    return guarded(function, [&] {
        const ExecutorPointer planned = find(executor, NULLPTR);
        const std::lock_guard<std::mutex> lock(planned->mutex);
        run(function, executor, *planned, workspace, workspace_size, stream);
    });
}

}  // namespace opserve

using namespace opserve;

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor)
{
    return guarded("aclSetAclOpExecutorRepeatable", [&] {
        const ExecutorPointer planned = find(executor, INNER_NULLPTR);
        const std::lock_guard<std::mutex> lock(planned->mutex);
        planned->context->run(command::SET_REPEATABLE, Message().number(2, planned->handle));
        planned->repeatable = true;
    });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor)
{
    return guarded("aclDestroyAclOpExecutor", [&] {
        const ExecutorPointer planned = find(executor, INNER_NULLPTR);
        remove(executor);
        destroy(*planned);
    });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                  void* addr)
{
    return set_address("aclSetInputTensorAddr", executor, index, tensor, addr, Among::INPUTS);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                   void* addr)
{
    return set_address("aclSetOutputTensorAddr", executor, index, tensor, addr, Among::OUTPUTS);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                             void* addr)
{
    return set_address("aclSetTensorAddr", executor, index, tensor, addr, Among::ALL);
}

aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                  void* addr)
{
    return aclSetInputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                   void* addr)
{
    return aclSetOutputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                             void* addr)
{
    return aclSetTensorAddr(executor, index, tensor, addr);
}
