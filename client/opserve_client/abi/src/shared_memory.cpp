#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace opserve {
namespace {

constexpr size_t NAME_DIGITS = 32;
constexpr size_t ANSWER_BYTES = 33;  // state, slab, its bytes, the buffer's offset, its bytes
constexpr int IDLE = 1, BUSY = 2;
constexpr int ANSWER_TIMEOUT_S = 2;
constexpr size_t MAPPINGS_LIMIT = 64;

class Descriptor {
public:
    explicit Descriptor(int fd) : fd(fd) {}
    ~Descriptor()
    {
        if (fd >= 0) close(fd);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int fd;
};

// Only 32 hexadecimal digits are a name: a service cannot direct a program to another's socket.
bool is_name(const std::string& text)
{
    return text.size() == NAME_DIGITS &&
        text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string from_hexadecimal(const std::string& text)
{
    std::string bytes;
    for (size_t at = 0; at + 1 < text.size(); at += 2) {
        bytes += static_cast<char>(std::stoi(text.substr(at, 2), nullptr, 16));
    }
    return bytes;
}

uint64_t big_endian(const unsigned char* bytes, int count)
{
    uint64_t value = 0;
    for (int at = 0; at < count; ++at) value = value << 8 | bytes[at];
    return value;
}

// Sends the request; the answer's bytes go to `answer`. Returns the descriptor that came with it,
// -1 for none, and -2 where no service listens.
int request_descriptor(const std::string& address, const std::string& request, unsigned char* answer)
{
    const Descriptor end(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const timeval limit{ANSWER_TIMEOUT_S, 0};
    setsockopt(end.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    address.copy(place.sun_path, sizeof place.sun_path);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    if (connect(end.fd, reinterpret_cast<sockaddr*>(&place), size) != 0) {
        return errno == ECONNREFUSED ? -2 : -1;
    }
    if (send(end.fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) return -1;
    iovec part{answer, ANSWER_BYTES};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t received = recvmsg(end.fd, &message, MSG_CMSG_CLOEXEC);
    int descriptor = -1;
    if (received > 0 && CMSG_FIRSTHDR(&message) != nullptr) {
        std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    }
    if (received != static_cast<ssize_t>(ANSWER_BYTES)) answer[0] = 0;
    return descriptor;
}

}  // namespace

class Mapping {
public:
    Mapping(void* start, uint64_t size) : start(static_cast<char*>(start)), size(size) {}
    ~Mapping() { munmap(start, size); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    char* const start;
    const uint64_t size;
};

void SharedMemory::open(const std::string& name, const std::string& session, const std::string& token)
{
    if (!is_name(name) || !is_name(session) || !is_name(token)) return;
    address_ = std::string(1, '\0') + "opserve-" + name;
    secrets_ = from_hexadecimal(session) + from_hexadecimal(token);
}

MappedBuffer SharedMemory::find(uint32_t buffer)
{
    std::string address, request;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (address_.empty()) return {};
        address = address_;
        request = secrets_;
    }
    for (int shift = 24; shift >= 0; shift -= 8) request += static_cast<char>(buffer >> shift);
    unsigned char answer[ANSWER_BYTES] = {};
    const Descriptor descriptor(request_descriptor(address, request, answer));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (descriptor.fd == -2) address_.clear();  // another machine: no call tries again
    return mapped(answer, descriptor.fd);
}

void SharedMemory::close()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    address_.clear();
    mappings_.clear();
}

MappedBuffer SharedMemory::mapped(const unsigned char* answer, int descriptor)
{
    const int state = answer[0];
    if (state != IDLE && state != BUSY) return {};
    const uint64_t slab = big_endian(answer + 1, 8), slab_size = big_endian(answer + 9, 8);
    const uint64_t offset = big_endian(answer + 17, 8), size = big_endian(answer + 25, 8);
    const auto mapping = mapping_of(slab, slab_size, descriptor);
    if (mapping == nullptr || offset > mapping->size || size > mapping->size - offset) return {};
    return {mapping, mapping->start + offset, size, state == IDLE};
}

std::shared_ptr<Mapping> SharedMemory::mapping_of(uint64_t slab, uint64_t size, int descriptor)
{
    const auto known = mappings_.find(slab);
    if (known != mappings_.end()) return known->second;
    // Access to a mapping that its owner has shrunk kills this process with SIGBUS, so only sealed
    // memory is mapped.
    const int seals = descriptor < 0 ? -1 : fcntl(descriptor, F_GET_SEALS);
    struct stat found{};
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &found) != 0) return nullptr;
    if (static_cast<uint64_t>(found.st_size) < size) return nullptr;
    void* start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (start == MAP_FAILED) return nullptr;
    if (mappings_.size() >= MAPPINGS_LIMIT) mappings_.erase(mappings_.begin());
    return mappings_[slab] = std::make_shared<Mapping>(start, size);
}

}  // namespace opserve
