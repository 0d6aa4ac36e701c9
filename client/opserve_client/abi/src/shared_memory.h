// Buffers of a session, mapped into this process, where the service runs on the same machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace opserve {

class Mapping;

// The bytes of a mapped buffer. They stay mapped as long as this value lives.
struct MappedBuffer {
    std::shared_ptr<Mapping> mapping;
    char* bytes = nullptr;  // null: the buffer cannot be mapped, or not now
    uint64_t size = 0;
    bool idle = false;  // no queued work uses the buffer
};

class SharedMemory {
public:
    // `name`, `session` and `token` as OpenSession answers them; without a name nothing is mapped.
    void open(const std::string& name, const std::string& session, const std::string& token);

    // A failure here is no error: the bytes go over HTTP then.
    MappedBuffer find(uint32_t buffer);

    // Ends the mappings, each with its last user.
    void close();

private:
    MappedBuffer mapped(const unsigned char* answer, int descriptor);
    std::shared_ptr<Mapping> mapping_of(uint64_t slab, uint64_t size, int descriptor);

    std::mutex mutex_;
    std::string address_, secrets_;
    std::map<uint64_t, std::shared_ptr<Mapping>> mappings_;  // by slab
};

}  // namespace opserve
