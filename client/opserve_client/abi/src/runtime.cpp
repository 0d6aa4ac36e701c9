// Beginning and end, devices, contexts, options, and the record of failures.
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "process.h"

namespace opserve {
namespace {

constexpr size_t MESSAGES_LIMIT = 1 << 14;
constexpr int64_t DETERMINISTIC_LEVELS = 4;

thread_local int last_error = ACL_SUCCESS;
thread_local std::string messages, shown_messages;

// A configuration sets dumps and profiles, of which a virtual device has none.
void check_configuration(const char* path)
{
    if (path == nullptr || *path == '\0') return;
    std::ifstream file(path);
    if (!file) throw Failure(ACL_ERROR_INVALID_FILE, std::string(path) + " cannot be read");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    std::string content;
    for (const char one : text) {
        if (!std::isspace(static_cast<unsigned char>(one))) content += one;
    }
    if (!content.empty() && content != "{}") {
        throw Failure(ACL_ERROR_API_NOT_SUPPORT, std::string(path) + " has settings, and a virtual "
                          "device has none of them: pass a null pointer, or a file with {}");
    }
}

void initialize(const char* configuration)
{
    check_configuration(configuration);
    if (!begin_process()) throw Failure(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before");
}

void finalize()
{
    if (!end_process()) throw Failure(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called before");
}

Device& device_of(Process& mine, int32_t number)
{
    if (number < 0 || static_cast<size_t>(number) >= mine.devices.size()) {
        throw Failure(ACL_ERROR_RT_INVALID_DEVICEID, "device " + std::to_string(number) +
                          " does not exist: OPSERVE_ABI_DEVICES names " +
                          std::to_string(mine.devices.size()) + ", numbered from 0");
    }
    return mine.devices[static_cast<size_t>(number)];
}

ContextPointer context_of(Process& mine, const void* handle)
{
    const std::lock_guard<std::mutex> lock(mine.mutex);
    const ContextPointer* found = mine.contexts.find(handle);
    if (found == nullptr) throw Failure(ACL_ERROR_RT_PARAM_INVALID, "there is no such context");
    return *found;
}

void set_level(const Context& context, int64_t level)
{
    const uint64_t value = static_cast<uint64_t>(level) + 1;
    context.run(command::SET_DETERMINISTIC_LEVEL, Message().number(2, value));
}

void check_option(aclSysParamOpt option, int64_t value)
{
    if (option != ACL_OPT_DETERMINISTIC) {
        throw Failure(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                      "a virtual device has no other option than ACL_OPT_DETERMINISTIC");
    }
    if (value < 0 || value >= DETERMINISTIC_LEVELS) {
        throw Failure(ACL_ERROR_RT_PARAM_INVALID, "ACL_OPT_DETERMINISTIC does not accept " +
                          std::to_string(value) + "; it accepts 0 to 3");
    }
}

void* open_with_options(Process& mine, int32_t device)
{
    void* handle = mine.open_session(device);
    const int64_t level = mine.deterministic;
    if (level >= 0) set_level(*context_of(mine, handle), level);
    return handle;
}

void set_device(int32_t number)
{
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.sessions);
    Device& device = device_of(mine, number);
    if (device.context == nullptr) device.context = open_with_options(mine, number);
    ++device.references;
    set_current_context(context_of(mine, device.context));
}

void reset_device(int32_t number)
{
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.sessions);
    Device& device = device_of(mine, number);
    if (device.references == 0) {
        throw Failure(ACL_ERROR_RT_CONTEXT_NULL, "device " + std::to_string(number) + " is not set");
    }
    if (--device.references > 0) return;
    void* context = device.context;
    device.context = nullptr;
    mine.close_session(context);
}

// "ascend910b" as the vendor writes it; a name of the vendor's stays as it is.
std::string soc_name(const std::string& profile)
{
    if (profile.compare(0, 6, "ascend") != 0) return profile;
    std::string name = "Ascend";
    for (const char one : profile.substr(name.size())) {
        name += static_cast<char>(std::toupper(static_cast<unsigned char>(one)));
    }
    return name;
}

void memory_of_device(size_t* free, size_t* total)
{
    required(total, "total");
    required(free, "free");
    const ContextPointer context = current_context();
    const std::string answer = call(*context->endpoint, "SessionService/ListDevices", "");
    for (const Field& device : fields_of(answer)) {
        if (device.number != 1 || field_of(device.bytes, 1).bytes != context->device_name) continue;
        *total = field_of(device.bytes, 5).value;
        *free = field_of(device.bytes, 6).value;
        return;
    }
    throw Failure(ACL_ERROR_RT_NO_DEVICE, "the service has the device of this context no more");
}

}  // namespace

void note(const std::string& text)
{
    messages = messages.empty() ? text : text + '\n' + messages;
    if (messages.size() > MESSAGES_LIMIT) messages.resize(MESSAGES_LIMIT);
}

int fail(const char* function, int code, const std::string& message)
{
    last_error = code;
    note(std::string(function) + ": " + message + " (" + std::to_string(code) + ")");
    return code;
}

}  // namespace opserve

using namespace opserve;

aclError aclInit(const char* configPath)
{
    return guarded("aclInit", [&] { initialize(configPath); });
}

aclError aclFinalize(void)
{
    return guarded("aclFinalize", [] { finalize(); });
}

aclnnStatus aclnnInit(const char* configPath)
{
    return guarded("aclnnInit", [&] { initialize(configPath); });
}

aclnnStatus aclnnFinalize(void)
{
    return guarded("aclnnFinalize", [] { finalize(); });
}

const char* aclGetRecentErrMsg(void)
{
    shown_messages = std::move(messages);
    messages.clear();
    return shown_messages.empty() ? nullptr : shown_messages.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return last_error; }

aclError aclrtGetLastError(aclrtLastErrLevel)
{
    const int code = last_error;
    last_error = ACL_SUCCESS;
    return code;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    return guarded("aclrtSetDevice", [&] { set_device(deviceId); });
}

aclError aclrtResetDevice(int32_t deviceId)
{
    return guarded("aclrtResetDevice", [&] { reset_device(deviceId); });
}

aclError aclrtGetDevice(int32_t* deviceId)
{
    return guarded("aclrtGetDevice",
                   [&] { *required(deviceId, "deviceId") = current_context()->device; });
}

// Devices are counted and named before aclInit, too, as by the vendor's runtime.
aclError aclrtGetDeviceCount(uint32_t* count)
{
    return guarded("aclrtGetDeviceCount", [&] {
        *required(count, "count") = static_cast<uint32_t>(devices_of_environment().size());
    });
}

const char* aclrtGetSocName(void)
{
    thread_local std::string name;
    const int code = guarded("aclrtGetSocName", [] {
        const auto number = has_context() ? static_cast<size_t>(current_context()->device) : 0;
        const std::vector<Device> devices = devices_of_environment();
        if (number >= devices.size()) {
            throw Failure(ACL_ERROR_RT_NO_DEVICE, "OPSERVE_ABI_DEVICES has no such device");
        }
        name = soc_name(devices[number].profile);
    });
    return code == ACL_SUCCESS ? name.c_str() : nullptr;
}

aclError aclrtGetRunMode(aclrtRunMode* runMode)
{
    return guarded("aclrtGetRunMode", [&] { *required(runMode, "runMode") = ACL_HOST; });
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total)
{
    return guarded("aclrtGetMemInfo", [&] { memory_of_device(free, total); });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId)
{
    return guarded("aclrtCreateContext", [&] {
        required(context, "context");
        Process& mine = process();
        const std::lock_guard<std::mutex> lock(mine.sessions);
        device_of(mine, deviceId);
        *context = open_with_options(mine, deviceId);
        set_current_context(context_of(mine, *context));
    });
}

aclError aclrtDestroyContext(aclrtContext context)
{
    return guarded("aclrtDestroyContext", [&] {
        Process& mine = process();
        const std::lock_guard<std::mutex> lock(mine.sessions);
        context_of(mine, required(context, "context"));
        for (const Device& device : mine.devices) {
            if (device.context != context) continue;
            throw Failure(ACL_ERROR_RT_PARAM_INVALID,
                          "the default context of a device ends by aclrtResetDevice");
        }
        mine.close_session(context);
    });
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    return guarded("aclrtSetCurrentContext", [&] {
        set_current_context(context_of(process(), required(context, "context")));
    });
}

aclError aclrtGetCurrentContext(aclrtContext* context)
{
    return guarded("aclrtGetCurrentContext", [&] {
        required(context, "context");
        const ContextPointer mine = current_context();
        Process& state = process();
        const std::lock_guard<std::mutex> lock(state.mutex);
        for (const auto& [handle, one] : state.contexts.all()) {
            if (one == mine) *context = handle;
        }
    });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    return guarded("aclrtSetSysParamOpt", [&] {
        check_option(opt, value);
        Process& mine = process();
        const std::lock_guard<std::mutex> lock(mine.sessions);
        for (const auto& [handle, context] : mine.contexts.all()) set_level(*context, value);
        mine.deterministic = value;
    });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value)
{
    return guarded("aclrtGetSysParamOpt", [&] {
        check_option(opt, 0);
        Process& mine = process();
        const std::lock_guard<std::mutex> lock(mine.sessions);
        if (mine.deterministic < 0) {
            throw Failure(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "the option was not set");
        }
        *required(value, "value") = mine.deterministic;
    });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    return guarded("aclrtCtxSetSysParamOpt", [&] {
        check_option(opt, value);
        const ContextPointer context = current_context();
        set_level(*context, value);
        context->deterministic = value;
    });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value)
{
    return guarded("aclrtCtxGetSysParamOpt", [&] {
        check_option(opt, 0);
        const int64_t level = current_context()->deterministic;
        if (level < 0) {
            throw Failure(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "the context's option was not set");
        }
        *required(value, "value") = level;
    });
}
