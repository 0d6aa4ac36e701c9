#include "process.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <random>
#include <sstream>

#include "socket.h"

namespace opserve {
namespace {

constexpr int ERROR_RESULT = 100;
constexpr int HEARTBEAT_TIMEOUT_S = 5;
constexpr double BEATS_OF_A_LEASE = 3;
constexpr std::chrono::seconds EXIT_LIMIT{2};

std::atomic<Process*> state{nullptr};
std::atomic<Process*> latest{nullptr};  // the state, or the one that ended last
std::atomic<pid_t> ended{0};           // the process that called aclFinalize last
thread_local ContextPointer current;

// A program may end without aclrtResetDevice. Its sessions would keep their devices until their
// leases end. A service that does not answer cannot delay the exit for long.
void close_sessions_at_exit()
{
    const Process* mine = state.load();
    if (mine == nullptr || mine->pid != getpid()) return;
    auto done = std::make_shared<std::promise<void>>();
    std::thread([done] {
        limit_answers_of_this_thread(static_cast<int>(EXIT_LIMIT.count()));
        try {
            end_process();
        } catch (const std::exception&) {
            // The lease ends what is left.
        }
        done->set_value();
    }).detach();
    done->get_future().wait_for(EXIT_LIMIT);
}

}  // namespace

std::vector<Device> devices_of_environment()
{
    const char* names = std::getenv("OPSERVE_ABI_DEVICES");
    std::istringstream list(names == nullptr || *names == '\0' ? "ascend910b" : names);
    std::vector<Device> devices;
    for (std::string name; std::getline(list, name, ',');) {
        const size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
        if (first == std::string::npos) continue;
        devices.push_back({name.substr(first, last - first + 1), 0, nullptr});
    }
    return devices;
}

std::string new_request_id()
{
    static const std::string process_part = [] {
        std::random_device random;
        return std::to_string(random()) + "-" + std::to_string(random());
    }();
    static std::atomic<uint64_t> count{0};
    return "abi-" + process_part + "-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

std::string Context::run(const Command& command, Message request) const
{
    check_open();
    request.text(1, session);
    if (command.request_id > 0) request.text(command.request_id, new_request_id());
    return call(*endpoint, command.method, request.bytes());
}

std::string Context::run(SmallCopy copy, const Message& request) const
{
    check_open();
    const int field = static_cast<int>(copy);
    Message batch;
    batch.text(1, session).part(2, Message().part(field, request)).text(3, new_request_id());
    const std::string answer = call(*endpoint, "CommandService/Submit", batch.bytes());
    const std::string_view result = field_of(answer, 1).bytes;
    const Field error = field_of(result, ERROR_RESULT);
    if (error.number == 0) return std::string(field_of(result, field).bytes);
    throw Failure(static_cast<int>(field_of(error.bytes, 1).value),
                  std::string(field_of(error.bytes, 3).bytes));
}

void Context::check_open() const
{
    if (closed) throw Failure(ACL_ERROR_RT_CONTEXT_NULL, "the context is closed");
}

Process::Process(Endpoint endpoint, Process* before)
    : endpoint(std::move(endpoint)), before(before), devices(devices_of_environment())
{
}

void* Process::open_session(int32_t device)
{
    Message request;
    request.text(1, devices[static_cast<size_t>(device)].profile);
    request.text(3, new_request_id()).text(12, "warn");
    const std::string answer = call(endpoint, "SessionService/OpenSession", request.bytes());
    const auto text = [&](int field) { return std::string(field_of(answer, field).bytes); };
    const auto context = std::make_shared<Context>();
    context->endpoint = &endpoint;
    context->device = device;
    context->session = text(1);
    context->device_name = field_of(field_of(answer, 2).bytes, 1).bytes;
    context->lease_s = field_of(answer, 3).real;
    context->memory.open(text(4), text(1), text(5));
    const std::lock_guard<std::mutex> lock(mutex);
    start_heartbeat();
    return contexts.add(context);
}

void Process::close_session(void* handle)
{
    ContextPointer context;
    bool last = false;
    {
        const std::lock_guard<std::mutex> lock(mutex);
        context = *contexts.find(handle);
        const auto of_it = [&](const Object& one) { return one.context == context; };
        contexts.remove(handle);
        streams.remove_if(of_it);
        events.remove_if(of_it);
        for (auto at = buffers.begin(); at != buffers.end();) {
            at = at->second.context == context ? buffers.erase(at) : std::next(at);
        }
        last = contexts.all().empty();
    }
    context->closed = true;
    context->memory.close();
    if (last) stop_heartbeat();
    try {
        call(endpoint, "SessionService/CloseSession", Message().text(1, context->session).bytes());
    } catch (const Failure& failure) {
        if (failure.code != ACL_ERROR_RT_INVALID_HANDLE) throw;  // it has ended already
    }
}

// Needs `mutex`.
void Process::start_heartbeat()
{
    if (heartbeat_.joinable()) return;
    stop_ = false;
    sigset_t all, before;  // the program's signals are not for this thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    heartbeat_ = std::thread([this] { beat(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Process::stop_heartbeat()
{
    {
        const std::lock_guard<std::mutex> lock(mutex);
        stop_ = true;
    }
    stopping_.notify_all();
    if (heartbeat_.joinable()) heartbeat_.join();
}

void Process::beat()
{
    limit_answers_of_this_thread(HEARTBEAT_TIMEOUT_S);
    std::unique_lock<std::mutex> lock(mutex);
    while (!stop_) {
        double lease_s = HEARTBEAT_TIMEOUT_S;
        std::vector<ContextPointer> open;
        for (const auto& [handle, context] : contexts.all()) {
            lease_s = open.empty() ? context->lease_s : std::min(lease_s, context->lease_s);
            open.push_back(context);
        }
        const auto pause = std::chrono::duration<double>(lease_s / BEATS_OF_A_LEASE);
        if (stopping_.wait_for(lock, pause, [this] { return stop_; })) break;
        lock.unlock();
        for (const ContextPointer& context : open) {
            if (context->closed) continue;
            try {
                call(endpoint, "SessionService/KeepAlive",
                     Message().text(1, context->session).bytes());
            } catch (const std::exception&) {
                // The program's next call reports a lost session or service.
            }
        }
        lock.lock();
    }
}

Process& process()
{
    Process* mine = state.load();
    if (mine == nullptr) {
        throw Failure(ACL_ERROR_UNINITIALIZE, "aclInit was not called, or aclFinalize was");
    }
    if (mine->pid != getpid()) {
        throw Failure(ACL_ERROR_RT_CONTEXT_NULL,
                      "this process was forked after aclInit, and its parent has the sessions: call "
                      "aclInit here");
    }
    return *mine;
}

bool begin_process()
{
    Process* mine = state.load();
    if (mine != nullptr && mine->pid == getpid()) return false;
    auto made = std::make_unique<Process>(endpoint_of_environment(), latest.load());
    call(made->endpoint, "SessionService/ListDevices", "");
    if (!state.compare_exchange_strong(mine, made.get())) return false;
    latest = made.release();
    static const int registered = std::atexit(close_sessions_at_exit);
    static_cast<void>(registered);
    return true;
}

bool end_process()
{
    Process* mine = state.load();
    if (mine == nullptr && ended == getpid()) return false;
    process();  // or the reason why there is nothing to end
    if (!state.compare_exchange_strong(mine, nullptr)) return false;
    ended = getpid();
    const std::lock_guard<std::mutex> lock(mine->sessions);
    std::unique_ptr<Failure> first;
    while (!mine->contexts.all().empty()) {
        try {
            mine->close_session(mine->contexts.all().begin()->first);
        } catch (const Failure& failure) {
            if (!first) first = std::make_unique<Failure>(failure);
        }
    }
    if (first) throw Failure(*first);
    return true;
}

bool has_context()
{
    const Process* mine = state.load();
    return mine != nullptr && current != nullptr && !current->closed &&
        current->endpoint == &mine->endpoint;
}

ContextPointer current_context()
{
    process();
    if (!has_context()) {
        throw Failure(ACL_ERROR_RT_CONTEXT_NULL,
                      "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext");
    }
    return current;
}

void set_current_context(const ContextPointer& context) { current = context; }

Object stream_of(void* stream)
{
    if (stream == nullptr) return {current_context(), 0};
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    const Object* found = mine.streams.find(stream);
    if (found == nullptr) {
        throw Failure(ACL_ERROR_RT_PARAM_INVALID, "there is no such stream: it was never created, "
                                                  "or its device was reset");
    }
    const bool foreign = current != nullptr && !current->closed && current != found->context;
    if (foreign) throw Failure(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is of another context");
    return *found;
}

}  // namespace opserve
