// Device memory: addresses, copies and host memory.
//
// An address of the device is inside one span of this process's addresses that nothing can read or
// write. It is given once: a later use of a freed one is known to be one.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "acl/acl.h"
#include "process.h"

namespace opserve {
namespace {

// An emulator of another processor needs memory for every reserved page, and the sanitizer of
// threads has few addresses.
#ifndef OPSERVE_SPAN_BITS
#ifdef __SANITIZE_THREAD__
#define OPSERVE_SPAN_BITS 36
#else
#define OPSERVE_SPAN_BITS 44
#endif
#endif
constexpr uint64_t SPAN = 1ULL << OPSERVE_SPAN_BITS;
constexpr uint64_t SMALLEST_SPAN = 1ULL << 30;
constexpr uint64_t PAGE = 4096;
constexpr uint64_t SMALL = 1 << 16;  // bytes that a command carries
constexpr int BYTE_VALUES = 256;

struct Span {
    uintptr_t start = 0;
    uint64_t size = 0;
    std::atomic<uint64_t> used{0};  // goes on in a child process
};

// As much as the system's limits allow; a child process has its parent's.
Span& span()
{
    static Span made;
    static const bool reserved = [] {
        for (uint64_t size = SPAN; size >= SMALLEST_SPAN; size /= 2) {
            void* start = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                               -1, 0);
            if (start == MAP_FAILED) continue;
            made.start = reinterpret_cast<uintptr_t>(start);
            made.size = size;
            return true;
        }
        return false;
    }();
    static_cast<void>(reserved);
    return made;
}

// An unused page after each buffer separates the end of one from the start of the next.
uintptr_t new_address(uint64_t size)
{
    Span& all = span();
    const uint64_t pages = (size / PAGE + 2) * PAGE;
    uint64_t at = all.used.load();
    do {
        if (pages < size || pages > all.size - at) {
            throw Failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses of device memory are left");
        }
    } while (!all.used.compare_exchange_weak(at, at + pages));
    return all.start + at;
}

void* allocate(uint64_t size)
{
    if (size == 0) throw Failure(ACL_ERROR_INVALID_PARAM, "size is 0");
    const ContextPointer context = current_context();
    const uintptr_t address = new_address(size);
    const std::string answer = context->run(command::ALLOCATE, Message().number(2, size));
    const auto handle = static_cast<uint32_t>(field_of(answer, 1).value);
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    mine.buffers[address] = {context, handle, size};
    return reinterpret_cast<void*>(address);
}

void release(const void* address)
{
    Process& mine = process();
    Buffer buffer;
    {
        const std::lock_guard<std::mutex> lock(mine.mutex);
        const auto found = mine.buffers.find(reinterpret_cast<uintptr_t>(address));
        if (found == mine.buffers.end()) {
            throw Failure(ACL_ERROR_RT_PARAM_INVALID,
                          "the address is not that of allocated device memory");
        }
        buffer = found->second;
        mine.buffers.erase(found);
    }
    buffer.context->run(command::FREE, Message().number(2, buffer.handle));
}

Message range_of(const Place& place, uint64_t size)
{
    return Message().number(2, place.buffer.handle).number(3, place.offset).number(4, size);
}

// The mapped bytes of a place once no queued work uses its buffer, or null.
char* mapped(const Place& place, MappedBuffer& found)
{
    found = place.buffer.context->memory.find(place.buffer.handle);
    if (found.bytes == nullptr) return nullptr;
    if (!found.idle) place.buffer.context->run(SmallCopy::WRITE, range_of({place.buffer, 0}, 0));
    return found.bytes + place.offset;
}

Request content_of(const Place& place)
{
    Request request;
    request.path = "/v1/sessions/" + place.buffer.context->session + "/buffers/" +
        std::to_string(place.buffer.handle) + "/content";
    return request;
}

void write(const Place& place, const void* source, uint64_t size)
{
    const auto* bytes = static_cast<const char*>(source);
    const Context& context = *place.buffer.context;
    if (size <= SMALL) {
        context.run(SmallCopy::WRITE, range_of(place, size).text(5, {bytes, size}));
        return;
    }
    MappedBuffer found;
    if (char* target = mapped(place, found)) {
        std::memcpy(target, bytes, size);
        return;
    }
    Request request = content_of(place);
    request.method = "PUT";
    request.path += "?offset=" + std::to_string(place.offset);
    request.headers = "Content-Type: application/octet-stream\r\n";
    request.body = {bytes, size};
    const Answer answer = exchange(*context.endpoint, request);
    if (answer.status >= 300) throw_error(*context.endpoint, answer);
}

void read(const Place& place, void* target, uint64_t size)
{
    const Context& context = *place.buffer.context;
    if (size <= SMALL) {
        const std::string answer = context.run(SmallCopy::READ, range_of(place, size));
        const std::string_view bytes = field_of(answer, 1).bytes;
        if (bytes.size() != size) throw Failure(ACL_ERROR_RT_COPY_DATA, "bytes are missing");
        bytes.copy(static_cast<char*>(target), size);
        return;
    }
    MappedBuffer found;
    if (const char* source = mapped(place, found)) {
        std::memcpy(target, source, size);
        return;
    }
    Request request = content_of(place);
    request.method = "GET";
    request.headers = "Range: bytes=" + std::to_string(place.offset) + "-" +
        std::to_string(place.offset + size - 1) + "\r\n";
    request.into = target;
    request.into_bytes = size;
    const Answer answer = exchange(*context.endpoint, request);
    if (answer.status >= 300) throw_error(*context.endpoint, answer);
}

void copy_on_device(const Place& target, const Place& source, uint64_t size)
{
    if (target.buffer.context != source.buffer.context) {
        const auto bytes = std::make_unique<char[]>(size);
        read(source, bytes.get(), size);
        write(target, bytes.get(), size);
        return;
    }
    Message request;
    request.number(2, target.buffer.handle).number(3, target.offset);
    request.number(4, source.buffer.handle).number(5, source.offset).number(6, size);
    target.buffer.context->run(command::COPY, request);
}

// The addresses decide the direction: the vendor's runtime does not believe `kind`, either.
void copy(void* target, size_t capacity, const void* source, size_t size)
{
    if (size == 0) return;
    required(target, "dst");
    required(source, "src");
    if (size > capacity) throw Failure(ACL_ERROR_RT_PARAM_INVALID, "count is greater than destMax");
    const bool to_device = is_device_address(target), from_device = is_device_address(source);
    if (to_device && from_device) {
        copy_on_device(place_of(target, size), place_of(source, size), size);
    } else if (to_device) {
        write(place_of(target, size), source, size);
    } else if (from_device) {
        read(place_of(source, size), target, size);
    } else {
        std::memmove(target, source, size);
    }
}

void fill(void* target, size_t capacity, int32_t value, size_t size)
{
    required(target, "devPtr");
    if (size > capacity) throw Failure(ACL_ERROR_RT_PARAM_INVALID, "count is greater than maxCount");
    if (size == 0) return;
    const Place place = place_of(target, size);
    const auto byte = static_cast<uint64_t>(value) % BYTE_VALUES;  // as memset
    place.buffer.context->run(command::FILL, range_of(place, size).number(5, byte));
}

void allocate_host(void** target, size_t size)
{
    required(target, "hostPtr");
    if (size == 0) throw Failure(ACL_ERROR_INVALID_PARAM, "size is 0");
    Process& mine = process();
    void* made = std::aligned_alloc(PAGE, (size / PAGE + 1) * PAGE);
    if (made == nullptr) throw std::bad_alloc();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    mine.host_memory.insert(made);
    *target = made;
}

void free_host(void* address)
{
    Process& mine = process();
    {
        const std::lock_guard<std::mutex> lock(mine.mutex);
        if (mine.host_memory.erase(required(address, "hostPtr")) == 0) {
            throw Failure(ACL_ERROR_RT_PARAM_INVALID, "the address is not one of aclrtMallocHost");
        }
    }
    std::free(address);
}

}  // namespace

bool is_device_address(const void* address)
{
    const Span& all = span();
    const auto number = reinterpret_cast<uintptr_t>(address);
    return number >= all.start && number - all.start < all.size;
}

Place place_of(const void* address, uint64_t size)
{
    const auto number = reinterpret_cast<uintptr_t>(address);
    Process& mine = process();
    const std::lock_guard<std::mutex> lock(mine.mutex);
    auto found = mine.buffers.upper_bound(number);
    if (found != mine.buffers.begin()) {
        const auto& [start, buffer] = *--found;
        const uint64_t offset = number - start;
        if (offset < buffer.size && size <= buffer.size - offset) return {buffer, offset};
    }
    throw Failure(ACL_ERROR_RT_PARAM_INVALID,
                  "the address, or the bytes from it on, are not in allocated device memory");
}

}  // namespace opserve

using namespace opserve;

// Policies are hints about hardware pages.
aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy)
{
    return guarded("aclrtMalloc", [&] { *required(devPtr, "devPtr") = allocate(size); });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy)
{
    return guarded("aclrtMallocAlign32", [&] { *required(devPtr, "devPtr") = allocate(size); });
}

aclError aclrtFree(void* devPtr)
{
    return guarded("aclrtFree", [&] { release(required(devPtr, "devPtr")); });
}

aclError aclrtMallocHost(void** hostPtr, size_t size)
{
    return guarded("aclrtMallocHost", [&] { allocate_host(hostPtr, size); });
}

aclError aclrtFreeHost(void* hostPtr)
{
    return guarded("aclrtFreeHost", [&] { free_host(hostPtr); });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind)
{
    return guarded("aclrtMemcpy", [&] { copy(dst, destMax, src, count); });
}

// The service orders a copy behind the queued work that uses the buffer, so a copy that is complete
// when the function returns has the order of its stream.
aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind,
                          aclrtStream stream)
{
    return guarded("aclrtMemcpyAsync", [&] {
        stream_of(stream);
        copy(dst, destMax, src, count);
    });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count)
{
    return guarded("aclrtMemset", [&] { fill(devPtr, maxCount, value, count); });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream)
{
    return guarded("aclrtMemsetAsync", [&] {
        stream_of(stream);
        fill(devPtr, maxCount, value, count);
    });
}
