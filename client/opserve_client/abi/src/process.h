// The state of a process between aclInit and aclFinalize: sessions, and the objects behind handles.
//
// A handle of a stream, an event or a context is a number that was never used before, cast to a
// pointer: a stale or foreign one is not found, and none is ever dereferenced.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "connection.h"
#include "failure.h"
#include "shared_memory.h"
#include "wire.h"

struct aclOpExecutor;

namespace opserve {

// A command of a session: an RPC, and the number of its request's field request_id; 0 for none.
struct Command {
    const char* method;
    int request_id;
};

namespace command {

constexpr Command ALLOCATE{"MemoryService/Allocate", 5};
constexpr Command FREE{"MemoryService/Free", 3};
constexpr Command FILL{"MemoryService/Fill", 6};
constexpr Command COPY{"MemoryService/Copy", 7};
constexpr Command GET_WORKSPACE_SIZE{"OperatorService/GetWorkspaceSize", 15};
constexpr Command EXECUTE{"OperatorService/Execute", 7};
constexpr Command SET_REPEATABLE{"OperatorService/SetRepeatable", 3};
constexpr Command DESTROY_EXECUTOR{"OperatorService/DestroyExecutor", 3};
constexpr Command CREATE_STREAM{"StreamService/CreateStream", 3};
constexpr Command DESTROY_STREAM{"StreamService/DestroyStream", 3};
constexpr Command SYNCHRONIZE_STREAM{"StreamService/SynchronizeStream", 0};
constexpr Command QUERY_STREAM{"StreamService/QueryStream", 0};
constexpr Command SET_FAILURE_MODE{"StreamService/SetFailureMode", 4};
constexpr Command ABORT_STREAM{"StreamService/AbortStream", 3};
constexpr Command CREATE_EVENT{"EventService/CreateEvent", 3};
constexpr Command DESTROY_EVENT{"EventService/DestroyEvent", 3};
constexpr Command RECORD_EVENT{"EventService/RecordEvent", 4};
constexpr Command STREAM_WAIT_EVENT{"EventService/StreamWaitEvent", 4};
constexpr Command QUERY_EVENT{"EventService/QueryEvent", 0};
constexpr Command SYNCHRONIZE_EVENT{"EventService/SynchronizeEvent", 0};
constexpr Command EVENT_ELAPSED_TIME{"EventService/EventElapsedTime", 0};
constexpr Command SET_DETERMINISTIC_LEVEL{"SessionService/SetDeterministicLevel", 3};

}  // namespace command

// Copies that Submit carries, as their RPCs are streams: field numbers of Command.
enum class SmallCopy { WRITE = 4, READ = 5 };

// A session of the service: what the vendor calls a context.
struct Context {
    const Endpoint* endpoint = nullptr;
    int32_t device = 0;
    std::string session, device_name;
    double lease_s = 0;
    SharedMemory memory;
    std::atomic<bool> closed{false};
    std::atomic<int64_t> deterministic{-1};  // -1: not set

    // Runs a command, and returns its answer. The request gets its session and its request id.
    std::string run(const Command& command, Message request) const;
    std::string run(SmallCopy copy, const Message& request) const;

private:
    void check_open() const;
};
using ContextPointer = std::shared_ptr<Context>;

// An object of the service behind a handle of this library.
struct Object {
    ContextPointer context;
    uint32_t handle = 0;
};

// Objects by handle. Its owner locks.
template <typename T>
class Table {
public:
    void* add(T object)
    {
        void* handle = reinterpret_cast<void*>(next_handle());
        objects_.emplace(handle, std::move(object));
        return handle;
    }

    const T* find(const void* handle) const
    {
        const auto found = objects_.find(const_cast<void*>(handle));
        return found == objects_.end() ? nullptr : &found->second;
    }

    void remove(const void* handle) { objects_.erase(const_cast<void*>(handle)); }

    template <typename Condition>
    void remove_if(Condition condition)
    {
        for (auto at = objects_.begin(); at != objects_.end();) {
            at = condition(at->second) ? objects_.erase(at) : std::next(at);
        }
    }

    const std::map<void*, T>& all() const { return objects_; }

private:
    static uintptr_t next_handle()
    {
        static std::atomic<uintptr_t> next{0x1000};  // goes on in a child process
        return next.fetch_add(16);
    }

    std::map<void*, T> objects_;
};

struct Buffer {
    ContextPointer context;
    uint32_t handle = 0;
    uint64_t size = 0;
};

// A place in device memory: a buffer, and the bytes from its start.
struct Place {
    Buffer buffer;
    uint64_t offset = 0;
};

struct Executor;

struct Device {
    std::string profile;
    int references = 0;
    void* context = nullptr;  // the handle of the default context
};

class Process {
public:
    Process(Endpoint endpoint, Process* before);

    const pid_t pid = getpid();
    const Endpoint endpoint;
    Process* const before;  // an ended state, or the parent's: none is ever destroyed

    // Guards everything below it. No call of the service is made under it.
    std::mutex mutex;
    std::vector<Device> devices;
    Table<ContextPointer> contexts;
    Table<Object> streams, events;
    std::map<uintptr_t, Buffer> buffers;  // by address
    std::set<void*> host_memory;
    std::map<aclOpExecutor*, std::shared_ptr<Executor>> executors;
    std::set<std::string> reported_rules;  // of the page, on stderr
    int64_t deterministic = -1;

    // Guards the opening and closing of sessions, which call the service.
    std::mutex sessions;

    // Opens a session on a device, and returns its context's handle. Needs `sessions`.
    void* open_session(int32_t device);
    // Ends a session and everything in it. Needs `sessions`.
    void close_session(void* context);

private:
    void start_heartbeat();
    void stop_heartbeat();
    void beat();

    std::thread heartbeat_;
    std::condition_variable stopping_;
    bool stop_ = false;
};

// The process's state. Throws Failure: 100001 before aclInit and after aclFinalize, 107002 in a
// process that was forked after aclInit and has not called it again.
Process& process();

// Begins and ends the state; false: it has begun already, or ended.
bool begin_process();
bool end_process();

// The devices in OPSERVE_ABI_DEVICES, by number.
std::vector<Device> devices_of_environment();

// Whether this thread has an open context, and that context: Failure (107002) where it has none.
bool has_context();
ContextPointer current_context();
void set_current_context(const ContextPointer& context);

// A stream of a context: its handle at the service. Null is the default stream of this thread's
// context. Throws Failure (107000) for no stream.
Object stream_of(void* stream);

// The place of an address and `size` bytes. Throws Failure (107000) where no buffer has them all.
Place place_of(const void* address, uint64_t size);

// Whether an address is in the reserved span: the device's, whatever has become of it.
bool is_device_address(const void* address);

std::string new_request_id();

}  // namespace opserve
